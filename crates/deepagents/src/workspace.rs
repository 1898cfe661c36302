//! The files of a run, shared by every middleware that touches files.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, State};
use deepagents_fs::permissions::{OnAsk, PermissionedBackend, Permissions};
use deepagents_fs::shell::{SessionOptions, Shell};
use deepagents_fs::{Backend, ByteRange, Capabilities, FsError, StateBackend, VPath, Version};
use futures_util::{StreamExt, stream};

use crate::artifacts::{Artifacts, FindArtifacts};
use crate::channels::Files;
use crate::shared::Shared;

/// How an operation treats a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtLink {
    /// It follows the link.
    Follows,
    /// It acts on the link itself.
    NoFollow,
}

/// Returns where a path leads.
pub(crate) async fn resolve(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    at_link: AtLink,
) -> Result<VPath, FsError> {
    let (AtLink::NoFollow, Some(parent), Some(name)) = (at_link, path.parent(), path.name()) else {
        return backend.resolve(state, path).await;
    };
    let place = backend.resolve(state, &parent).await?;
    // A child name of one path is valid for another.
    Ok(place.join(name).unwrap_or(place))
}

/// Creates the backend of a run.
type Make = dyn Fn(&Context) -> Arc<dyn Backend> + Send + Sync;

/// The files of a run: as its tools access them, and as the harness does in its [own directories](kept).
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    files: Backends,
    /// The same files under rules that exempt the harness's own directories, unless the rules name them: an agent that
    /// may not write anywhere can have long conversations too.
    kept: Backends,
    artifacts: Artifacts,
}

/// One backend for all runs, or one per run.
#[derive(Clone, Debug)]
enum Backends {
    One(Shared<dyn Backend>),
    PerRun(Shared<Make>),
    /// One backend, in which each run has directories of its own.
    Mounted {
        one: Shared<dyn Backend>,
        make: Shared<Make>,
    },
}

impl Backends {
    fn backend_for(&self, cx: &Context) -> Arc<dyn Backend> {
        match self {
            Self::One(backend) => backend.0.clone(),
            Self::PerRun(make) | Self::Mounted { make, .. } => make(cx),
        }
    }

    /// Returns the backend as far as it is the same for all runs, or `None` if it is created per run.
    fn common(&self) -> Option<&dyn Backend> {
        match self {
            Self::One(one) | Self::Mounted { one, .. } => Some(&*one.0),
            Self::PerRun(_) => None,
        }
    }

    /// Mounts the directories of the harness that runs keep elsewhere.
    fn mounting(self, artifacts: Artifacts, find: Shared<FindArtifacts>, writes: bool) -> Self {
        let files = self.clone();
        let make = move |cx: &Context| artifacts.mount(files.backend_for(cx), &*find.0, cx, writes);
        match self {
            Self::One(one) | Self::Mounted { one, .. } => Self::Mounted { one, make: Shared(Arc::new(make)) },
            Self::PerRun(_) => Self::PerRun(Shared(Arc::new(make))),
        }
    }

    /// Applies permission rules. Rules that ask are treated as allowed here; approvals handle them.
    fn guarded(self, rules: Permissions) -> Self {
        let guard =
            move |backend| Arc::new(PermissionedBackend::new(backend, rules.clone(), OnAsk::Allow)) as Arc<dyn Backend>;
        match self {
            Self::One(backend) => Self::One(Shared(guard(backend.0))),
            Self::PerRun(make) => Self::PerRun(Shared(Arc::new(move |cx| guard(make(cx))))),
            Self::Mounted { one, make } => {
                let one = Shared(guard.clone()(one.0));
                Self::Mounted { one, make: Shared(Arc::new(move |cx| guard(make(cx)))) }
            }
        }
    }
}

impl Default for Workspace {
    /// Keeps the files in the state of the thread.
    fn default() -> Self {
        Self::one(StateBackend::new())
    }
}

impl Workspace {
    fn at(files: Backends) -> Self {
        Self { kept: files.clone(), files, artifacts: Artifacts::default() }
    }

    /// Uses one backend for all runs.
    pub(crate) fn one(backend: impl Backend) -> Self {
        Self::shared(Shared(Arc::new(backend)))
    }

    /// Uses one backend for all runs, shared with others.
    pub(crate) fn shared(backend: Shared<dyn Backend>) -> Self {
        Self::at(Backends::One(backend))
    }

    /// Creates a backend for each run.
    pub(crate) fn per_run(make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self::at(Backends::PerRun(Shared(Arc::new(make))))
    }

    /// Moves the directories of the harness below another one. To be called before rules are applied.
    #[must_use]
    pub(crate) fn artifacts_below(self, root: &VPath) -> Self {
        Self { artifacts: Artifacts::below(root).unwrap_or_default(), ..self }
    }

    /// Keeps the directories of the harness where `find` says. To be called before rules are applied.
    #[must_use]
    pub(crate) fn keeping(self, find: Option<Shared<FindArtifacts>>) -> Self {
        let Some(find) = find else { return self };
        let Self { files, kept, artifacts } = self;
        let files = files.mounting(artifacts.clone(), find.clone(), false);
        Self { files, kept: kept.mounting(artifacts.clone(), find, true), artifacts }
    }

    pub(crate) fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    pub(crate) fn backend_for(&self, cx: &Context) -> Arc<dyn Backend> {
        self.files.backend_for(cx)
    }

    /// Returns the backend through which the harness writes and reads its own directories.
    pub(crate) fn kept_for(&self, cx: &Context) -> Arc<dyn Backend> {
        self.kept.backend_for(cx)
    }

    /// Returns `true` if there may be a shell; a backend created per run may have one.
    pub(crate) fn may_run_commands(&self) -> bool {
        self.may_have_shell(|_| true)
    }

    /// Returns `true` if commands may share a shell session with these options; a backend created per run may allow it.
    pub(crate) fn may_keep_session(&self, options: &SessionOptions) -> bool {
        self.may_have_shell(|shell| shell.session(options).is_some())
    }

    fn may_have_shell(&self, fits: impl FnOnce(&dyn Shell) -> bool) -> bool {
        self.files.common().is_none_or(|backend| backend.shell().is_some_and(fits))
    }

    /// Applies permission rules to the files, if there are any. Rules that ask are treated as allowed here; approvals
    /// handle them.
    pub(crate) fn guarded(self, rules: Permissions) -> Self {
        if rules.is_empty() {
            return self;
        }
        let kept = self.kept.guarded(rules.clone().sparing(self.artifacts.directories()));
        Self { files: self.files.guarded(rules), kept, ..self }
    }

    /// Returns whether each run has a backend of its own.
    pub(crate) fn is_made_per_run(&self) -> bool {
        matches!(self.files, Backends::PerRun(_))
    }

    /// Returns the directories whose files commands do not see, or `None` if the backend is created per run.
    pub(crate) fn shell_unreachable(&self) -> Option<Vec<VPath>> {
        let mut places = self.files.common()?.shell_unreachable();
        if matches!(self.files, Backends::Mounted { .. }) {
            let is_new = |path: &VPath| places.iter().all(|place| !path.starts_with(place));
            let own: Vec<VPath> = self.artifacts.directories().filter(is_new).collect();
            places.extend(own);
            places.sort();
        }
        Some(places)
    }

    /// Returns what the backend can do; everything if it is created per run.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.files.common().map_or_else(Capabilities::default, Backend::capabilities)
    }

    /// Returns the channels that the backend needs; each middleware that uses it declares them.
    pub(crate) fn channels(&self) -> Vec<ChannelSpec> {
        let mut channels = match self.files.common() {
            Some(backend) => backend.channels(),
            // The backend of a run is not known yet, so declare the channels of every kind of backend.
            None => vec![
                ChannelSpec::new::<Files>(),
                #[cfg(all(unix, feature = "undo"))]
                ChannelSpec::new::<deepagents_fs::FileUndo>(),
            ],
        };
        if matches!(self.files, Backends::Mounted { .. }) {
            channels.push(ChannelSpec::new::<Files>());
        }
        channels
    }
}

/// Maximum number of files checked concurrently.
pub(crate) const MAX_CONCURRENT_CHECKS: usize = 16;

/// Returns the versions of the files that exist. For a file that cannot be checked, the error serves as its version, so
/// that a different error counts as a change.
pub(crate) async fn versions_of(backend: &dyn Backend, state: &State, paths: Vec<VPath>) -> BTreeMap<VPath, Version> {
    let looks = paths.into_iter().map(|path| async move {
        let stat = backend.stat(state, &path).await;
        let version = stat.map_or_else(|error| version_of(&error), |stat| Some(stat.version));
        version.map(|version| (path, version))
    });
    let looks: Vec<_> = looks.collect();
    let found: Vec<Option<(VPath, Version)>> = stream::iter(looks).buffered(MAX_CONCURRENT_CHECKS).collect().await;
    found.into_iter().flatten().collect()
}

/// Returns a substitute version for a file that cannot be checked, or `None` if it does not exist.
pub(crate) fn version_of(error: &FsError) -> Option<Version> {
    (!matches!(error, FsError::NotFound(_))).then(|| Version::new(format!("failed: {error}")))
}

/// Reads a file's text, or returns why it cannot be read.
pub(crate) async fn read_whole_text(
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
