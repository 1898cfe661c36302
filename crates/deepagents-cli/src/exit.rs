//! How the program ends.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::output;

/// How the program ends; the exit codes are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The task is done.
    Done,
    /// The task failed, or ended before it was done.
    Failed,
    /// The command line is invalid.
    WrongUsage,
    /// The time limit was reached.
    TimeUp,
    /// Ctrl-C.
    Interrupted,
    /// The reader of the output has gone; the code is that of a process killed by SIGPIPE.
    PipeClosed,
}

impl Exit {
    /// Returns the exit code.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::WrongUsage => 2,
            Self::TimeUp => 124,
            Self::Interrupted => 130,
            Self::PipeClosed => 141,
        }
    }
}

/// An error in the command line that shows only when the command is carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(String);

impl WrongUsage {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Prints the text that a command was to show, which ends it.
pub(crate) fn shown(text: &str) -> anyhow::Result<Exit> {
    output::print(text)?;
    Ok(Exit::Done)
}

/// Converts the result of a command to an exit code.
pub(crate) fn code(result: anyhow::Result<Exit>) -> ExitCode {
    ExitCode::from(report(result).number())
}

/// Converts the result of a command to an `Exit`, printing an error as one message.
pub(crate) fn report(result: anyhow::Result<Exit>) -> Exit {
    result.unwrap_or_else(|error| {
        let (exit, message) = of_error(&error);
        if let Some(message) = message {
            output::print_error(&message);
        }
        exit
    })
}

/// Returns how the program ends with an error, whatever context was added to it, and the message to print.
fn of_error(error: &anyhow::Error) -> (Exit, Option<String>) {
    if let Some(usage) = error.chain().find_map(|cause| cause.downcast_ref::<WrongUsage>()) {
        return (Exit::WrongUsage, Some(with_cause(error, usage)));
    }
    // Only the outermost error: a broken connection further down the chain is not the output.
    match error.downcast_ref::<io::Error>() {
        Some(closed) if closed.kind() == io::ErrorKind::BrokenPipe => (Exit::PipeClosed, None),
        // An I/O error without context is one of writing the output, unless it stands for another error.
        Some(bare) if error.chain().count() == 1 && bare.get_ref().is_none() => {
            (Exit::Failed, Some(format!("the output could not be written: {bare}")))
        }
        Some(cause) => (Exit::Failed, Some(with_cause(error, cause))),
        None => (Exit::Failed, Some(error.to_string())),
    }
}

/// Returns the message of an error with that of its cause, if it does not contain it already.
fn with_cause(error: &anyhow::Error, cause: &dyn fmt::Display) -> String {
    let (said, cause) = (error.to_string(), cause.to_string());
    if said.contains(&cause) { said } else { format!("{said}: {cause}") }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("d failed")]
    struct Within(#[source] WrongUsage);

    #[test]
    fn context_added_to_an_error_does_not_change_the_exit_code() {
        let usage = || anyhow::Error::from(WrongUsage::new("there is no a"));
        assert_eq!(of_error(&usage()), (Exit::WrongUsage, Some("there is no a".to_owned())));
        let twice = Err::<(), _>(usage()).context("b cannot be begun").context("c failed").unwrap_err();
        assert_eq!(of_error(&twice), (Exit::WrongUsage, Some("c failed: there is no a".to_owned())));
        let within = anyhow::Error::from(Within(WrongUsage::new("there is no a")));
        assert_eq!(of_error(&within), (Exit::WrongUsage, Some("d failed: there is no a".to_owned())));
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let said = Err::<(), _>(closed()).context("an event").unwrap_err();
        assert_eq!(of_error(&said), (Exit::PipeClosed, None));
        let connection = anyhow::Error::from(io::Error::other(closed())).context("the server");
        assert_eq!(of_error(&connection).0, Exit::Failed);
        let output = anyhow::Error::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(of_error(&output).1.unwrap().starts_with("the output could not be written: "));
        let other = anyhow::Error::from(io::Error::other("the rules cannot be parsed"));
        assert_eq!(of_error(&other), (Exit::Failed, Some("the rules cannot be parsed".to_owned())));
        assert_eq!(of_error(&anyhow!("no")), (Exit::Failed, Some("no".to_owned())));
    }
}
