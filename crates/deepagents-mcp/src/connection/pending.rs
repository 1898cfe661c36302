//! Calls that wait for a person, with the requests of their servers.

use std::collections::VecDeque;
use std::sync::Mutex;

use rmcp::model::{ElicitRequestParams, InputRequiredResult};

use crate::sync::lock;

/// Maximum number of calls remembered. Older calls restart from the beginning.
const MAX_CALLS: usize = 256;

/// What a server requires before it completes a call.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Input for the call.
    Input(InputRequiredResult),
    /// A person opening these pages.
    Pages(Vec<ElicitRequestParams>),
}

/// Server requests by the key of their call. They let a repeated call resume where it was interrupted.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Mutex<VecDeque<(String, Wanted)>>);

impl PendingCalls {
    pub(super) fn put(&self, call: String, wanted: Wanted) {
        let mut calls = lock(&self.0);
        calls.push_back((call, wanted));
        if calls.len() > MAX_CALLS {
            calls.pop_front();
        }
    }

    pub(super) fn take(&self, call: &str) -> Option<Wanted> {
        let mut calls = lock(&self.0);
        let at = calls.iter().position(|(key, _)| key == call)?;
        calls.remove(at).map(|(_, wanted)| wanted)
    }
}
