//! Where the files of a run are; every middleware that touches files shares one of these.

use std::sync::Arc;

use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_fs::Backend;

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

    /// The state that the backend needs; whoever uses it declares it.
    pub(crate) fn channels(&self) -> Vec<ChannelSpec> {
        match self {
            Self::One(backend) => backend.channels(),
            // Any backend may come, so the one kind of state that backends use is always there.
            Self::PerRun(_) => vec![ChannelSpec::of::<Files>()],
        }
    }
}
