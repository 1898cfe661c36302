//! Evaluations in words for people.

use deepagents_core::event::MiddlewareEvent;

/// Describes in one line what a person should know of an evaluation; `None` for other events. The text may contain what
/// a model wrote.
pub fn notice(event: &MiddlewareEvent) -> Option<String> {
    Some(match event {
        MiddlewareEvent::RubricEvaluated { result, explanation, missing, .. } => match result.as_str() {
            "satisfied" => format!("the goal is met: {explanation}"),
            "failed" => format!("the goal cannot be met: {explanation}"),
            // The judge may give an explanation without naming criteria.
            _ if missing.is_empty() => format!("the goal is not met yet: {explanation}"),
            _ => format!("the goal is not met yet ({}): {explanation}", missing.join(", ")),
        },
        MiddlewareEvent::RubricEvaluationFailed { error } => {
            format!("it is not known whether the goal is met: {error}")
        }
        _ => return None,
    })
}
