//! Where the files of a run are; every middleware that touches files shares one of these.

use std::sync::Arc;

use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, State};
use deepagents_fs::permissions::{Asking, Guarded, Permissions};
use deepagents_fs::{Backend, ByteRange, VPath};

use crate::channels::Files;

/// Makes the backend of a run.
type Make = dyn Fn(&Context) -> Arc<dyn Backend> + Send + Sync;

/// The files of a run: one backend for all, or one made for each run.
#[derive(Clone)]
pub(crate) enum Workspace {
    One(Arc<dyn Backend>),
    PerRun(Arc<Make>),
}

impl Workspace {
    pub(crate) fn of(&self, cx: &Context) -> Arc<dyn Backend> {
        match self {
            Self::One(backend) => backend.clone(),
            Self::PerRun(make) => make(cx),
        }
    }

    /// Whether there may be a shell; a backend made for each run may have one.
    pub(crate) fn may_run_commands(&self) -> bool {
        match self {
            Self::One(backend) => backend.shell().is_some(),
            Self::PerRun(_) => true,
        }
    }

    /// The same files under permission rules; what they want to be asked about is asked about elsewhere.
    pub(crate) fn guarded(self, rules: Permissions) -> Self {
        let guard =
            move |backend| Arc::new(Guarded::new(backend, rules.clone(), Asking::Elsewhere)) as Arc<dyn Backend>;
        match self {
            Self::One(backend) => Self::One(guard(backend)),
            Self::PerRun(make) => Self::PerRun(Arc::new(move |cx| guard(make(cx)))),
        }
    }

    /// The state that the backend needs; whoever uses it declares it.
    pub(crate) fn channels(&self) -> Vec<ChannelSpec> {
        match self {
            Self::One(backend) => backend.channels(),
            // Any backend may come, so the kinds of state that backends use are always there.
            Self::PerRun(_) => vec![
                ChannelSpec::of::<Files>(),
                #[cfg(unix)]
                ChannelSpec::of::<deepagents_fs::KeptFiles>(),
            ],
        }
    }
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
