//! Middleware events that a user wants to see.

use deepagents::MiddlewareEvent;
use deepagents::middleware::rubric;

use super::escaped;
use super::style::count;

/// Describes a middleware event in one line; `None` if it is of no interest to the user.
pub(super) fn notice(event: &MiddlewareEvent) -> Option<String> {
    Some(match event {
        MiddlewareEvent::LoopDetected { times, stopped: false, .. } => {
            format!("the agent is repeating itself ({times} times) and was told so")
        }
        MiddlewareEvent::ModelRetried { after_ms, error, .. } => {
            format!("asking the model again in {} s: {}", after_ms.div_ceil(1_000), escaped(error))
        }
        // The end of the run says the rest.
        MiddlewareEvent::RubricEvaluated { result, .. } if result == "needs_revision" => {
            escaped(&rubric::notice(event)?)
        }
        MiddlewareEvent::ResultsCleared { results, .. } => {
            format!("{} cleared to save room", count(*results as u64, "old result"))
        }
        _ => return None,
    })
}
