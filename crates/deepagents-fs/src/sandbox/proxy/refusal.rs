//! Requests that the proxy does not fulfil.

use crate::sandbox::hosts::Target;

/// Why a request is refused; the text is for whoever wrote the command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0} is not on the list of hosts that commands may reach")]
    NotListed(Target),
    #[error(
        "{0} stands for an address of this machine or of a private network, which is not on the list of hosts that commands may reach"
    )]
    NotPublic(Target),
    #[error("{target} cannot be reached: {reason}")]
    Unreachable { target: Target, reason: String },
    #[error("the proxy does not understand the request: {0}")]
    Bad(&'static str),
    #[error("the head of the request is longer than the proxy takes")]
    TooLong,
    #[error("the request did not come in time")]
    Late,
    /// Nobody is there to be answered.
    #[error("the connection is closed")]
    Gone,
}

impl Refusal {
    fn status(&self) -> u16 {
        match self {
            Self::NotListed(_) | Self::NotPublic(_) => 403,
            Self::Unreachable { .. } => 502,
            Self::Bad(_) | Self::Gone => 400,
            Self::TooLong => 431,
            Self::Late => 408,
        }
    }

    /// The answer. The text is in the status line as well, since of a refused tunnel many programs show that alone.
    pub(super) fn answer(&self) -> String {
        let text: String = self.to_string().chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect();
        format!(
            "HTTP/1.1 {} {text}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}\n",
            self.status(),
            text.len() + 1
        )
    }
}
