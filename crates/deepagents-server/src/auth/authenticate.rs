//! How callers prove who they are.

use std::future::Future;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use futures_core::future::BoxFuture;

use super::Identity;

/// What a request presents.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl<'a> Presented<'a> {
    /// The token: that of `Authorization: Bearer`, or the value of `x-api-key`, which is what the official clients send.
    pub fn token(&self) -> Option<&'a str> {
        let text = |value: &'a axum::http::HeaderValue| value.to_str().ok();
        let bearer = self.headers.get(AUTHORIZATION).and_then(text).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.or_else(|| self.headers.get("x-api-key").and_then(text)).filter(|token| !token.is_empty())
    }
}

/// Why a caller is not let in.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not known who calls.
    #[error("{0}")]
    Unknown(String),
    /// It is known and may not call.
    #[error("{0}")]
    Forbidden(String),
    /// It cannot be found out now.
    #[error("{0}")]
    Unavailable(String),
}

/// Finds out who calls.
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
    /// Who presents this.
    ///
    /// # Errors
    /// When they are not let in; a request without one that will do is answered with 401.
    fn authenticate(&self, presented: Presented<'_>) -> impl Future<Output = Result<Identity, Refusal>> + Send;
}

/// The same as an object.
pub(crate) trait DynAuthenticate: Send + Sync {
    fn check<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Refusal>>;
}

impl<A: Authenticate> DynAuthenticate for A {
    fn check<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Refusal>> {
        Box::pin(self.authenticate(presented))
    }
}
