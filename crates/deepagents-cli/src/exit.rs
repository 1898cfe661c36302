//! How the program ends.

use std::io;
use std::process::ExitCode;

use crate::output;

/// How the program ends; the numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The task is done.
    Done,
    /// It failed, or ended before it was done.
    Failed,
    /// The command line cannot be meant so.
    WrongUsage,
    /// Its time was up.
    TimeUp,
    /// Ctrl-C.
    Interrupted,
    /// Whoever read the output has gone; as a process that ends by SIGPIPE.
    PipeClosed,
}

impl Exit {
    /// The exit code.
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

/// What is wrong with the command line, where that shows only once it is carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) String);

/// The exit code of a command; an error becomes one message.
pub(crate) fn code(result: anyhow::Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|error| match (error.downcast_ref::<io::Error>(), error.chain().count()) {
        (None, _) => {
            let failed = failed(&error.to_string());
            if error.is::<WrongUsage>() { Exit::WrongUsage } else { failed }
        }
        // Bare ones are those of the output; about the others something was said.
        (Some(closed), _) if closed.kind() == io::ErrorKind::BrokenPipe => Exit::PipeClosed,
        (Some(error), 1) => failed(&format!("the output could not be written: {error}")),
        (Some(cause), _) => failed(&format!("{error}: {cause}")),
    });
    ExitCode::from(exit.number())
}

fn failed(message: &str) -> Exit {
    output::print_error(message);
    Exit::Failed
}
