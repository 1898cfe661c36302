//! Where the files of a run are; every middleware that touches files shares one of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, State};
use deepagents_fs::permissions::{OnAsk, PermissionedBackend, Permissions};
use deepagents_fs::shell::SessionOptions;
use deepagents_fs::{Backend, ByteRange, FsError, StateBackend, VPath, Version, WriteMode, Written};
use futures_util::{StreamExt, stream};

use crate::channels::Files;
use crate::shared::Shared;

/// Where large results go.
pub(crate) const RESULTS: &str = "/large_tool_results";
/// Where what summaries leave out and long messages go.
pub(crate) const HISTORY: &str = "/conversation_history";

/// What the harness keeps for the agent, which reads it and does not change it.
pub(crate) fn kept() -> impl Iterator<Item = VPath> {
    [RESULTS, HISTORY].into_iter().filter_map(|path| VPath::parse(path).ok())
}

/// Writes what the harness keeps. Where a link is on the way a command may have put it there, and nobody has agreed to have
/// changed what it leads to; so nothing is written there.
pub(crate) async fn keep(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    data: Bytes,
    mode: WriteMode,
) -> Result<Written, FsError> {
    let led = backend.leading(path, path);
    led.as_deref().unwrap_or(backend).write(state, path, data, mode).await
}

/// Makes the backend of a run.
type Make = dyn Fn(&Context) -> Arc<dyn Backend> + Send + Sync;

/// The files of a run: as its tools reach them, and as the harness does for what it [keeps](kept).
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    files: Backends,
    /// The same under rules that leave alone what is kept, unless they name it: an agent that may write nowhere has long
    /// conversations too.
    kept: Backends,
}

/// One backend for all runs, or one made for each.
#[derive(Clone, Debug)]
enum Backends {
    One(Shared<dyn Backend>),
    PerRun(Shared<Make>),
}

impl Backends {
    fn backend_for(&self, cx: &Context) -> Arc<dyn Backend> {
        match self {
            Self::One(backend) => backend.0.clone(),
            Self::PerRun(make) => make(cx),
        }
    }

    /// The same under rules; what they want to be asked about is asked about elsewhere.
    fn guarded(self, rules: Permissions) -> Self {
        let guard =
            move |backend| Arc::new(PermissionedBackend::new(backend, rules.clone(), OnAsk::Allow)) as Arc<dyn Backend>;
        match self {
            Self::One(backend) => Self::One(Shared(guard(backend.0))),
            Self::PerRun(make) => Self::PerRun(Shared(Arc::new(move |cx| guard(make(cx))))),
        }
    }
}

impl Default for Workspace {
    /// Files in the state of the thread.
    fn default() -> Self {
        Self::one(StateBackend::new())
    }
}

impl Workspace {
    fn at(files: Backends) -> Self {
        Self { kept: files.clone(), files }
    }

    /// One backend for all runs.
    pub(crate) fn one(backend: impl Backend) -> Self {
        Self::shared(Shared(Arc::new(backend)))
    }

    /// One backend for all runs, which others have too.
    pub(crate) fn shared(backend: Shared<dyn Backend>) -> Self {
        Self::at(Backends::One(backend))
    }

    /// A backend made for each run.
    pub(crate) fn per_run(make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self::at(Backends::PerRun(Shared(Arc::new(make))))
    }

    pub(crate) fn backend_for(&self, cx: &Context) -> Arc<dyn Backend> {
        self.files.backend_for(cx)
    }

    /// Where the harness writes what it keeps, and reads it back.
    pub(crate) fn kept_for(&self, cx: &Context) -> Arc<dyn Backend> {
        self.kept.backend_for(cx)
    }

    /// Whether there may be a shell; a backend made for each run may have one.
    pub(crate) fn may_run_commands(&self) -> bool {
        match &self.files {
            Backends::One(backend) => backend.shell().is_some(),
            Backends::PerRun(_) => true,
        }
    }

    /// Whether commands may share a shell that begins so; a backend made for each run may have one.
    pub(crate) fn may_keep_session(&self, options: &SessionOptions) -> bool {
        match &self.files {
            Backends::One(backend) => backend.shell().is_some_and(|shell| shell.session(options).is_some()),
            Backends::PerRun(_) => true,
        }
    }

    /// The same files under permission rules; what they want to be asked about is asked about elsewhere.
    pub(crate) fn guarded(self, rules: Permissions) -> Self {
        let kept = self.kept.guarded(rules.clone().sparing(kept()));
        Self { files: self.files.guarded(rules), kept }
    }

    /// The state that the backend needs; whoever uses it declares it.
    pub(crate) fn channels(&self) -> Vec<ChannelSpec> {
        match &self.files {
            Backends::One(backend) => backend.channels(),
            // Any backend may come, so the kinds of state that backends use are always there.
            Backends::PerRun(_) => vec![
                ChannelSpec::new::<Files>(),
                #[cfg(all(unix, feature = "undo"))]
                ChannelSpec::new::<deepagents_fs::FileUndo>(),
            ],
        }
    }
}

/// Files looked at at once.
pub(crate) const AT_ONCE: usize = 16;

/// The versions of those files that there are. What cannot be looked at has the error for a version, so that another
/// error is a change.
pub(crate) async fn versions_of(backend: &dyn Backend, state: &State, paths: Vec<VPath>) -> BTreeMap<VPath, Version> {
    let looks = paths.into_iter().map(|path| async move {
        let stat = backend.stat(state, &path).await;
        let version = stat.map_or_else(|error| version_of(&error), |stat| Some(stat.version));
        version.map(|version| (path, version))
    });
    let looks: Vec<_> = looks.collect();
    let found: Vec<Option<(VPath, Version)>> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    found.into_iter().flatten().collect()
}

/// What stands for the version of something that cannot be looked at; nothing for what is not there.
pub(crate) fn version_of(error: &FsError) -> Option<Version> {
    (!matches!(error, FsError::NotFound(_))).then(|| Version::new(format!("failed: {error}")))
}

/// A file's text, or why it cannot be had.
pub(crate) async fn whole_text(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    max_bytes: u64,
) -> Result<String, String> {
    let read = backend.read(state, path, ByteRange::first(max_bytes + 1)).await.map_err(|error| error.to_string())?;
    if read.bytes.len() as u64 > max_bytes {
        return Err(format!("it has more than {max_bytes} bytes"));
    }
    String::from_utf8(read.bytes.into()).map_err(|_| "it is not UTF-8 text".to_owned())
}
