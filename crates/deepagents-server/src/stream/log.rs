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
    pub(crate) data: String,
}

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
        self.lock().parts.push(Arc::new(part));
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
