//! Requests that the proxy refuses.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::exchange::Answer;
use crate::sandbox::hosts::Target;

/// Reason a request is refused. The text is for the author of the command.
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
}

impl Refusal {
    /// Returns the response. The reason is in the status line too, because many programs show only that for a refused
    /// tunnel.
    pub(super) fn answer(&self) -> Answer {
        let text: String = self.to_string().chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect();
        let mut answer = Response::new(Either::Left(Full::new(Bytes::from(format!("{text}\n")))));
        *answer.status_mut() = match self {
            Self::NotListed(_) | Self::NotPublic(_) => StatusCode::FORBIDDEN,
            Self::Unreachable { .. } => StatusCode::BAD_GATEWAY,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
        };
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if let Ok(reason) = ReasonPhrase::try_from(text) {
            answer.extensions_mut().insert(reason);
        }
        answer
    }
}
