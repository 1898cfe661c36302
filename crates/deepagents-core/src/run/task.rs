//! The task of a run, which closes the run however it ends.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::sync::watch;

use super::handle::{Ended, Inner};
use super::{Outcome, RunError, panicked};
use crate::context::{Emitter, RunControl};
use crate::error::Error;
use crate::event::{EventHub, EventKind};
use crate::panics::caught_async;

/// A run that is not yet on a runtime.
///
/// Starting it is a separate step, because a runtime that has been shut down drops a new task at once. That ends the
/// run, so callers must not hold a lock that the end of a run takes.
#[must_use = "the run ends when this is dropped"]
pub(crate) struct RunTask {
    pub(super) inner: Arc<Inner>,
    pub(super) work: Work,
}

impl RunTask {
    /// Starts the run on the current runtime.
    pub(crate) fn spawn(self) {
        let Self { inner, work } = self;
        let task = tokio::spawn(work.run());
        // This is the only code that sets it.
        let _ = inner.abort.set(task.abort_handle());
    }
}

/// What the task of a run does. The fields are dropped in this order, also if the task is aborted or its runtime shuts
/// down before the task is first polled: an aborted run has dropped everything it holds and counts as ended when it is
/// closed.
pub(super) struct Work {
    pub(super) driven: BoxFuture<'static, Result<Outcome, Box<RunError>>>,
    pub(super) report: watch::Sender<Ended>,
    pub(super) close: Close,
}

impl Work {
    async fn run(mut self) {
        let result = caught_async(&mut self.driven).await.unwrap_or_else(|panic| {
            let failed = panicked(&panic);
            self.close.emit_failed(&failed.error);
            Err(failed)
        });
        self.report.send_replace(Some(result));
    }
}

/// Closes a run when dropped. After the end of a run, further events are dropped.
pub(super) struct Close {
    pub(super) hub: Arc<EventHub>,
    pub(super) control: Arc<RunControl>,
    pub(super) path: Arc<[String]>,
    pub(super) events: Emitter,
    /// Called once the outcome is set.
    pub(super) ended: Option<Box<dyn FnOnce() + Send>>,
}

impl Close {
    fn emit_failed(&self, error: &Error) {
        self.events.emit(&self.path, None, || EventKind::failed(error, true));
    }
}

impl Drop for Close {
    fn drop(&mut self) {
        self.emit_failed(&Error::Left);
        self.control.inbox.close();
        self.hub.close();
        if let Some(ended) = self.ended.take() {
            ended();
        }
    }
}
