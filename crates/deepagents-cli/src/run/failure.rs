//! Messages about failures, for people.

use deepagents::core::journal::JournalError;
use deepagents::{Error, ModelError};

use super::exit_status::{CONTINUE, RunContext, with_next_step};
use crate::render::escaped;
use crate::render::style::first_line;
use crate::{cloud, duration, model_choice};

/// Maximum number of characters shown of a provider's error.
const MAX_ERROR_CHARS: usize = 600;

/// Returns the message about a failed run, with how to resume it if that may help.
pub(super) fn failure(error: &Error, limits: &RunContext) -> String {
    let Some(model) = error.as_model() else { return other_failure(error) };
    let words = model_failure(model, limits.key_variable);
    let passes = matches!(
        model,
        ModelError::Transport(_)
            | ModelError::Auth(_)
            | ModelError::RateLimited(_)
            | ModelError::Overloaded(_)
            | ModelError::Truncated(_)
    );
    let mistaken = matches!(model, ModelError::Invalid(info) if matches!(info.status, Some(404 | 405 | 501)));
    // After any other error, resuming would fail the same way.
    if passes || mistaken { with_next_step(words, CONTINUE, limits) } else { words }
}

/// Returns the message about any other failure.
pub(crate) fn other_failure(error: &Error) -> String {
    match error {
        Error::Journal(JournalError::Fenced { thread }) => format!(
            "another program is working on thread {thread} now, or has deleted it; what this one had not saved yet is lost"
        ),
        Error::Journal(JournalError::Busy { thread, owner, .. }) => busy(thread, &escaped(owner)),
        other => other.to_string(),
    }
}

/// Returns the message about a thread that another program works on. No option overrides its lease.
pub(crate) fn busy(thread: &str, owner: &str) -> String {
    format!("thread {thread} is in use by {owner}; wait for it to finish")
}

/// Returns the message about a model failure; `key_variable` is where the key came from.
pub(crate) fn model_failure(model: &ModelError, key_variable: Option<&'static str>) -> String {
    let said = one_line(&model.to_string());
    match model {
        // Transport errors already say what could not be reached.
        ModelError::Transport(info) => one_line(&info.to_string()),
        ModelError::Auth(info) => match key_variable {
            Some(variable) => format!("{said}; {}", about_key(variable, info.status)),
            None => said,
        },
        ModelError::Invalid(info) if matches!(info.status, Some(404 | 405 | 501)) => {
            format!("{said}; check the model's name and the address")
        }
        // The model client does not wait longer than a call may take.
        ModelError::RateLimited(info) | ModelError::Overloaded(info) => match info.retry_after {
            Some(wait) if !wait.is_zero() => format!("{said}; the provider asks to wait {}", duration::show(wait)),
            _ => said,
        },
        _ => said,
    }
}

/// Returns what to do about a rejected key.
fn about_key(variable: &'static str, status: Option<u16>) -> String {
    let set = cloud::set_variable(variable, &model_choice::env);
    let variable = set.unwrap_or(variable);
    match status {
        _ if set.is_none() => format!("set the key in {variable}{}", cloud::alternatives_text(variable)),
        Some(402 | 429) => format!("check the account of the key in {variable}"),
        Some(403) => format!("check the permissions of the key in {variable}"),
        _ => format!("check the key in {variable}"),
    }
}

/// Shortens a provider's message to one line that fits a terminal.
fn one_line(text: &str) -> String {
    first_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_ERROR_CHARS)
}
