//! Validates message histories as a provider does.

use deepagents_core::message::{Message, Messages};
use deepagents_core::model::ModelError;

/// Checks that each call has exactly one result, in the messages directly after it, and that each result has a call.
///
/// # Errors
/// Returns [`ModelError::Invalid`] with the position of the first invalid message.
///
/// ```
/// use deepagents_core::message::{Message, ToolMessage};
/// use deepagents_models::scripted::check_history;
///
/// let history = vec![Message::user("hi"), Message::Tool(ToolMessage::error("c1", "ls", "no"))].into();
/// assert!(check_history(&history).unwrap_err().to_string().contains("messages[1]"));
/// ```
pub fn check_history(messages: &Messages) -> Result<(), ModelError> {
    // Position of the assistant turn, and its calls without a result so far.
    let mut open: Option<(usize, Vec<&str>)> = None;
    let mut answered: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Message::Tool(result) = &**message {
            let id = result.call_id.as_str();
            match &mut open {
                Some((_, waiting)) if waiting.contains(&id) => {
                    waiting.retain(|call| *call != id);
                    answered.push(id);
                }
                _ if answered.contains(&id) => {
                    return Err(invalid(at, &format!("a second result for the call \"{id}\"")));
                }
                _ => return Err(invalid(at, &format!("a result without its call \"{id}\" right before it"))),
            }
            continue;
        }
        all_answered(open.take())?;
        answered.clear();
        if let Message::Assistant(turn) = &**message {
            let mut calls = Vec::new();
            for id in turn.call_ids() {
                if calls.contains(&id) {
                    return Err(invalid(at, &format!("two calls with the id \"{id}\" in one turn")));
                }
                calls.push(id);
            }
            open = Some((at, calls));
        }
    }
    all_answered(open)
}

fn all_answered(open: Option<(usize, Vec<&str>)>) -> Result<(), ModelError> {
    match open {
        Some((at, waiting)) if !waiting.is_empty() => {
            Err(invalid(at, &format!("calls without a result right after them: {}", waiting.join(", "))))
        }
        _ => Ok(()),
    }
}

fn invalid(at: usize, what: &str) -> ModelError {
    ModelError::invalid(format!("messages[{at}]: {what}"))
}
