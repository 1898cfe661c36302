//! Application hooks for requests and responses: headers, logging.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;

/// An attempt of a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The URL, without user name and password.
    pub url: &'a Url,
    /// Number of the attempt, starting at 1.
    pub number: u32,
    /// Size of the request body in bytes.
    pub body_len: usize,
}

/// A server's response before its body is read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The headers, without cookies.
    pub headers: &'a HeaderMap,
    /// Time from the request to the response headers.
    pub after: Duration,
}

/// Observes each attempt of a call, and may add headers.
///
/// Secrets are not visible to hooks: credentials, configured headers ([`ModelConfig::headers`]), and headers of a call
/// known to contain a key. A header added by a hook replaces one of these with the same name. Both methods are called
/// in async context and must not block.
///
/// [`ModelConfig::headers`]: crate::ModelConfig::headers
///
/// ```
/// use deepagents_models::{Attempt, CallHook};
/// use reqwest::header::{HeaderMap, HeaderValue};
///
/// struct Tenant;
///
/// impl CallHook for Tenant {
///     fn request(&self, _: &Attempt<'_>, headers: &mut HeaderMap) {
///         headers.insert("x-tenant", HeaderValue::from_static("blue"));
///     }
/// }
/// ```
pub trait CallHook: Send + Sync + 'static {
    /// Called before an attempt is sent.
    fn request(&self, attempt: &Attempt<'_>, headers: &mut HeaderMap) {
        let _ = (attempt, headers);
    }

    /// Called after a server responded, with any status.
    fn response(&self, attempt: &Attempt<'_>, answered: &Answered<'_>) {
        let _ = (attempt, answered);
    }
}
