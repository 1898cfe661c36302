//! Reports from outside the calls of a run.

use std::fmt;
use std::sync::Arc;

use super::Emitter;
use crate::event::{EventKind, MiddlewareEvent};

/// Emits events of a run for as long as it lasts, without keeping the run or its agent alive. For work that outlives
/// the call that started it. Created by [`Context::reporter`](crate::run::Context::reporter).
///
/// ```
/// use deepagents_core::event::MiddlewareEvent;
/// use deepagents_core::run::Reporter;
/// /// Tells what a command prints, whatever the agent does meanwhile.
/// fn printed(reporter: &Reporter, text: &str) {
///     reporter.report(MiddlewareEvent::CommandOutput { command: "command-1".to_owned(), text: text.to_owned() });
/// }
/// ```
#[derive(Clone)]
pub struct Reporter {
    pub(super) events: Emitter,
    pub(super) path: Arc<[String]>,
}

impl Reporter {
    /// Emits an event of one of the library's middlewares. A no-op once the run has ended.
    pub fn report(&self, event: MiddlewareEvent) {
        self.events.emit(&self.path, None, || EventKind::Middleware(event));
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("path", &self.path).finish_non_exhaustive()
    }
}
