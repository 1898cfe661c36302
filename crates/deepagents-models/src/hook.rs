//! What an application does with each request and answer: headers, logging.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;

/// One attempt of a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// Where it goes, without a name and a password.
    pub url: &'a Url,
    /// 1 for the first attempt of a call.
    pub number: u32,
    /// Bytes of the request's body.
    pub body_len: usize,
}

/// What a server answered with, before its body is read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Its headers, without cookies.
    pub headers: &'a HeaderMap,
    /// The time from the request to them.
    pub after: Duration,
}

/// Sees each attempt of a call, and may add headers.
///
/// What may be secret is not shown: credentials, headers that are configured ([`ModelConfig::headers`]), and those of a call
/// that are known to hold a key. A header that a hook adds is sent in the place of one of these with its name. Both methods
/// are called between reading and writing, so they must not block.
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
    /// Before an attempt is sent.
    fn request(&self, attempt: &Attempt<'_>, headers: &mut HeaderMap) {
        let _ = (attempt, headers);
    }

    /// After a server answered, whatever its status.
    fn response(&self, attempt: &Attempt<'_>, answered: &Answered<'_>) {
        let _ = (attempt, answered);
    }
}
