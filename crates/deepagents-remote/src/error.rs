//! What goes wrong with a remote agent.

use std::time::Duration;

/// Why a remote agent came to no result. None of the texts holds a header or the query of an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The configuration cannot be used.
    #[error("the remote agent cannot be used: {0}")]
    Config(String),
    /// The server could not be reached, or answered that it cannot work, for as long as was waited.
    #[error("{host} does not answer ({reason}); it was tried for {} seconds", waited.as_secs())]
    Unreachable {
        /// The server.
        host: String,
        /// What the last try came to.
        reason: String,
        /// How long it was tried.
        waited: Duration,
    },
    /// The server refused a request.
    #[error("{host} refused {what}: {status} {detail}")]
    Refused {
        /// The server.
        host: String,
        /// What was asked for.
        what: &'static str,
        /// The status.
        status: u16,
        /// What the server says of it, cut.
        detail: String,
    },
    /// The server answered something that the protocol does not have.
    #[error("{host}, asked for {what}, gave an answer that is not in the protocol: {reason}")]
    Answer {
        /// The server.
        host: String,
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Whether the work was begun is not known, and it cannot be found out; it is not begun a second time.
    #[error(
        "the process ended while the work was being handed to {host}, which does not say whether it was started; it \
         is not started again"
    )]
    InDoubt {
        /// The server.
        host: String,
    },
    /// The work stands over there in a way that the protocol does not know; it is cancelled.
    #[error("{host} says that its task is in the state `{status}`, which is not in the protocol; it was cancelled")]
    UnknownStatus {
        /// The server.
        host: String,
        /// Its word, cut; empty where it has none.
        status: String,
    },
    /// The run failed over there.
    #[error("the run failed at {host}: {reason}")]
    Failed {
        /// The server.
        host: String,
        /// What the server says.
        reason: String,
    },
    /// The run was ended over there, by somebody else.
    #[error("the run was ended at {host}: {reason}")]
    Ended {
        /// The server.
        host: String,
        /// How.
        reason: String,
    },
    /// Its time was up.
    #[error("{host} was not done within {} seconds; the run there was cancelled", limit.as_secs())]
    Deadline {
        /// The server.
        host: String,
        /// How long it was given.
        limit: Duration,
    },
}
