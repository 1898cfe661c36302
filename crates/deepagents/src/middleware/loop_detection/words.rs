//! The texts of warnings and of final messages.

use deepagents_core::event::LoopPattern;

/// Returns a clause that says what has happened.
fn describe(pattern: LoopPattern, times: u32, tools: &[String]) -> String {
    let tools = tools.join(", ");
    match pattern {
        LoopPattern::SameCalls => {
            format!("the same call of {tools} was made {times} times in a row with the same result")
        }
        LoopPattern::Alternation => {
            format!("the same calls ({tools}) were made in alternation, {times} rounds with the same results")
        }
        LoopPattern::UndoneEdits => {
            format!("the last {times} changes of a file with {tools} each took the one before back")
        }
        _ => format!("every call of the last {times} turns failed, {tools} among them"),
    }
}

/// Returns advice for the model.
fn advice(pattern: LoopPattern) -> &'static str {
    match pattern {
        LoopPattern::UndoneEdits => "Decide which version is right, and why, before you change the file again.",
        LoopPattern::Errors => "Read the errors: change the approach, or say what is missing.",
        _ => {
            "Making it again will not help: change the approach or, if you wait for something, wait longer before you look; \
             if you cannot go on, say what is missing."
        }
    }
}

/// Returns the warning for the model.
pub(super) fn note(pattern: LoopPattern, times: u32, tools: &[String]) -> String {
    format!("Note: {}. {} If this goes on, the run is stopped.", describe(pattern, times, tools), advice(pattern))
}

/// Returns the final message of a stopped run.
pub(super) fn stopped(pattern: LoopPattern, times: u32, tools: &[String]) -> String {
    format!(
        "Stopped without an answer, because there was no progress: {}. The task may be unfinished.",
        describe(pattern, times, tools)
    )
}
