//! Counts tokens over a tree of agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::message::Usage;

/// Tokens by agent; shared by all agents of a run, so that every call counts, also one whose answer was thrown away.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    above: Option<Arc<Meter>>,
    by_agent: Mutex<BTreeMap<String, Usage>>,
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Usage>> {
        self.by_agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the tokens of a part of the tree; they count above too.
    pub(crate) fn below(above: Arc<Self>) -> Self {
        Self { above: Some(above), ..Self::default() }
    }

    pub(crate) fn add(&self, agent: &str, usage: Usage) {
        if let Some(above) = &self.above {
            above.add(agent, usage);
        }
        *self.lock().entry(agent.to_owned()).or_default() += usage;
    }

    pub(crate) fn by_agent(&self) -> BTreeMap<String, Usage> {
        self.lock().clone()
    }

    pub(crate) fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.lock().values() {
            total += *usage;
        }
        total
    }
}
