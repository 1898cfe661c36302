//! Errors of remote agents.

use std::time::Duration;

/// Reports why a remote agent returned no result. No message contains headers or the query of an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The configuration is invalid.
    #[error("the remote agent cannot be used: {0}")]
    Config(String),
    /// The server was unreachable or unavailable until the time limit.
    #[error("{host} does not answer ({reason}); it was tried for {} seconds", waited.as_secs())]
    Unreachable {
        /// The server.
        host: String,
        /// The failure of the last attempt.
        reason: String,
        /// How long it was retried.
        waited: Duration,
    },
    /// The server refused a request.
    #[error("{host} refused {what}: {status} {detail}")]
    Refused {
        /// The server.
        host: String,
        /// What was requested.
        what: &'static str,
        /// The HTTP status.
        status: u16,
        /// The server's explanation, truncated.
        detail: String,
    },
    /// The server's response violates the protocol.
    #[error("{host}, asked for {what}, gave an answer that is not in the protocol: {reason}")]
    Answer {
        /// The server.
        host: String,
        /// What was requested.
        what: &'static str,
        /// The violation.
        reason: String,
    },
    /// It is unknown whether the work was started, and the server cannot tell. The work is not started again.
    #[error(
        "the process ended while the work was being handed to {host}, which does not say whether it was started; it \
         is not started again"
    )]
    InDoubt {
        /// The server.
        host: String,
    },
    /// The task is in a state that the protocol does not define, so it was cancelled.
    #[error("{host} says that its task is in the state `{status}`, which is not in the protocol; it was cancelled")]
    UnknownStatus {
        /// The server.
        host: String,
        /// The name of the state, truncated; empty if there is none.
        status: String,
    },
    /// The remote run failed.
    #[error("the run failed at {host}: {reason}")]
    Failed {
        /// The server.
        host: String,
        /// The server's explanation.
        reason: String,
    },
    /// The remote run was ended by somebody else.
    #[error("the run was ended at {host}: {reason}")]
    Ended {
        /// The server.
        host: String,
        /// How it ended.
        reason: String,
    },
    /// The deadline passed.
    #[error("{host} was not done within {} seconds; the run there was cancelled", limit.as_secs())]
    Deadline {
        /// The server.
        host: String,
        /// The time limit.
        limit: Duration,
    },
}
