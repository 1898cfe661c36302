//! The events of one run, in the form in which clients are sent them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use crate::runs::StreamMode;

/// One event of a stream.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: String,
    /// Its name, with the namespace of a sub-agent behind a bar.
    pub(crate) event: String,
    /// The mode it belongs to; none for what every stream has.
    pub(crate) mode: Option<StreamMode>,
    /// As JSON; empty where it was given up.
    pub(crate) data: String,
}

impl Part {
    /// Whether it is a whole state, which the next one of its kind replaces.
    fn is_state(&self) -> bool {
        matches!(self.mode, Some(StreamMode::Values | StreamMode::Checkpoints | StreamMode::Debug))
    }
}

/// Bytes that a run keeps for clients that are behind or come again. Beyond it whole states are given up, oldest first:
/// each is replaced by the next one.
const KEPT: usize = 16 << 20;

/// The events of a run so far. Any number of clients read it, each at its own pace.
#[derive(Debug)]
pub(crate) struct PartLog {
    inner: Mutex<Inner>,
    changed: watch::Sender<usize>,
}

impl Default for PartLog {
    fn default() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

#[derive(Debug, Default)]
struct Inner {
    parts: Vec<Arc<Part>>,
    last_values: Option<Value>,
    closed: bool,
    /// Bytes of all parts.
    bytes: usize,
    /// The parts before this have been looked at for states to give up.
    looked_at: usize,
}

impl Inner {
    fn push(&mut self, part: Part) {
        self.bytes += part.data.len();
        self.parts.push(Arc::new(part));
        while self.bytes > KEPT && self.looked_at + 1 < self.parts.len() {
            if let Some(part) = self.parts.get_mut(self.looked_at).filter(|part| part.is_state()) {
                self.bytes -= part.data.len();
                *part = Arc::new(Part {
                    data: String::new(),
                    id: part.id.clone(),
                    event: part.event.clone(),
                    mode: part.mode,
                });
            }
            self.looked_at += 1;
        }
    }
}

/// What a reader finds.
pub(crate) enum Next {
    Part(Arc<Part>),
    Wait,
    End,
}

impl PartLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, part: Part) {
        self.lock().push(part);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.send_modify(|count| *count += 1);
    }

    /// Keeps the values that the run ended with.
    pub(crate) fn set_last_values(&self, values: Value) {
        self.lock().last_values = Some(values);
    }

    pub(crate) fn last_values(&self) -> Option<Value> {
        self.lock().last_values.clone()
    }

    pub(crate) fn end(&self) -> usize {
        self.lock().parts.len()
    }

    /// Where the events after the one with this id begin.
    pub(crate) fn after(&self, id: &str) -> usize {
        let inner = self.lock();
        inner.parts.iter().position(|part| part.id == id).map_or(inner.parts.len(), |at| at + 1)
    }

    pub(crate) fn next(&self, at: usize) -> Next {
        let inner = self.lock();
        match inner.parts.get(at) {
            Some(part) => Next::Part(part.clone()),
            None if inner.closed => Next::End,
            None => Next::Wait,
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_says_much_gives_up_old_states_and_keeps_the_rest() {
        let log = PartLog::default();
        let part = |mode, data: String| Part { id: String::new(), event: String::new(), mode: Some(mode), data };
        log.push(part(StreamMode::Updates, "{}".to_owned()));
        for _ in 0..20 {
            log.push(part(StreamMode::Values, "x".repeat(1 << 20)));
        }
        let sizes: Vec<usize> = log.lock().parts.iter().map(|part| part.data.len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), log.lock().bytes);
        assert!(log.lock().bytes <= KEPT);
        assert_eq!((sizes.first(), sizes.last()), (Some(&2), Some(&(1 << 20))));
    }
}
