//! Where the files of a run are; every middleware that touches files shares one of these.

use std::sync::Arc;

use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_fs::Backend;
use deepagents_fs::permissions::{Asking, Guarded, Permissions};

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
            // Any backend may come, so the one kind of state that backends use is always there.
            Self::PerRun(_) => vec![ChannelSpec::of::<Files>()],
        }
    }
}
