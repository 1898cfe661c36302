//! Calls that wait for a person, and what their servers want to know.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{ElicitRequestParams, InputRequiredResult};

/// Calls that are remembered; older ones are made again from their beginning.
const MOST: usize = 256;

/// What a server wants before it answers a call.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// To know something.
    Input(InputRequiredResult),
    /// That a person opens pages.
    Pages(Vec<ElicitRequestParams>),
}

/// What servers want to know, by the keys of the calls. With it a call that is made again goes on where it was.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Mutex<VecDeque<(String, Wanted)>>);

impl PendingCalls {
    pub(super) fn put(&self, call: String, wanted: Wanted) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push_back((call, wanted));
        if calls.len() > MOST {
            calls.pop_front();
        }
    }

    pub(super) fn take(&self, call: &str) -> Option<Wanted> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = calls.iter().position(|(key, _)| key == call)?;
        calls.remove(at).map(|(_, wanted)| wanted)
    }
}
