//! How callers authenticate.

use std::future::Future;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use futures_core::future::BoxFuture;

use super::Identity;

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl<'a> Presented<'a> {
    /// Returns the token: that of `Authorization: Bearer`, or the value of `x-api-key`, which the official clients
    /// send.
    pub fn token(&self) -> Option<&'a str> {
        let text = |value: &'a axum::http::HeaderValue| value.to_str().ok();
        let bearer = self.headers.get(AUTHORIZATION).and_then(text).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.or_else(|| self.headers.get("x-api-key").and_then(text)).filter(|token| !token.is_empty())
    }
}

/// Why a caller is not admitted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The caller is known but not permitted.
    #[error("{0}")]
    Forbidden(String),
    /// The caller cannot be identified at the moment.
    #[error("{0}")]
    Unavailable(String),
}

/// Identifies the caller of a request.
///
/// ```
/// use deepagents_server::{Authenticate, Identity, Presented, Refusal};
///
/// struct OneUser;
///
/// impl Authenticate for OneUser {
///     async fn authenticate(&self, presented: Presented<'_>) -> Result<Identity, Refusal> {
///         match presented.token() {
///             Some("open sesame") => Ok(Identity::new("ali")),
///             _ => Err(Refusal::Unknown("who are you?".to_owned())),
///         }
///     }
/// }
/// ```
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the identity of the caller who presents these credentials.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the caller is not admitted. [`Refusal::Unknown`] is answered with status 401.
    fn authenticate(&self, presented: Presented<'_>) -> impl Future<Output = Result<Identity, Refusal>> + Send;
}

/// The object-safe form of [`Authenticate`].
pub(crate) trait DynAuthenticate: Send + Sync {
    fn check<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Refusal>>;
}

impl<A: Authenticate> DynAuthenticate for A {
    fn check<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Refusal>> {
        Box::pin(self.authenticate(presented))
    }
}
