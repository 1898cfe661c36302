//! What an issuer must fulfil before it gets anything. The server names its issuer, and may have been taken over.

use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;

use super::LoginError;
use crate::config::OAuthConfig;
use crate::http;
use crate::text;

/// Returns an error if secrets would be sent unencrypted: codes and tokens, and those of a client that registers.
pub(super) fn check_endpoints(metadata: &AuthorizationMetadata) -> Result<(), LoginError> {
    let mut endpoints = std::iter::once(&metadata.token_endpoint).chain(&metadata.registration_endpoint);
    match endpoints.find(|endpoint| !http::is_safe(endpoint)) {
        Some(endpoint) => {
            let words = format!("the token issuer is at {endpoint}, to which secrets would be sent unencrypted");
            Err(LoginError::Refused(text::line(&words, 400)))
        }
        None => Ok(()),
    }
}

/// Returns an error if the issuer does not support PKCE with S256. The protocol forbids a login then, also if published
/// metadata says nothing about it.
pub(super) fn check_pkce(
    oauth: &OAuthConfig,
    metadata: &AuthorizationMetadata,
    is_published: bool,
) -> Result<(), LoginError> {
    let issuer = || text::line(metadata.issuer.as_ref().unwrap_or(&metadata.token_endpoint), 100);
    match &metadata.code_challenge_methods_supported {
        Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
        Some(_) => Err(LoginError::Refused(format!("the token issuer {} does not support PKCE with S256", issuer()))),
        None if oauth.assume_pkce || !is_published => Ok(()),
        None => Err(LoginError::UnknownPkce(issuer())),
    }
}

/// Returns an error if the issuer is not the configured one, or if it would get a configured secret although nothing but
/// the word of another origin says that it is the right one.
pub(super) fn check_trust(
    oauth: &OAuthConfig,
    server: &str,
    metadata: &AuthorizationMetadata,
) -> Result<(), LoginError> {
    // Metadata without an issuer are default endpoints, which are at the origin of the server.
    let issuer = metadata.issuer.as_ref().unwrap_or(&metadata.token_endpoint);
    match &oauth.issuer {
        Some(wanted) if !is_configured(oauth, metadata) => {
            let words = format!("the configured token issuer {wanted} was not found; the server leads to {issuer}");
            Err(LoginError::Refused(text::line(&words, 400)))
        }
        None if oauth.sends_secret() && !is_trusted(server, issuer) => {
            Err(LoginError::UntrustedIssuer(text::line(issuer, 100)))
        }
        _ => Ok(()),
    }
}

/// Whether whoever answers at the address of a server is trusted as much as the issuer: both have one origin, or both
/// are programs of this machine.
fn is_trusted(server: &str, issuer: &str) -> bool {
    let (Ok(server), Ok(issuer)) = (Url::parse(server), Url::parse(issuer)) else { return false };
    server.origin() == issuer.origin() || http::is_here(&server) && http::is_here(&issuer)
}

/// Whether an issuer is the configured one, if one is configured.
pub(super) fn is_configured(oauth: &OAuthConfig, metadata: &AuthorizationMetadata) -> bool {
    let is_it = |wanted: &str| metadata.issuer.as_deref().is_some_and(|issuer| is_same(issuer, wanted));
    oauth.issuer.as_deref().is_none_or(is_it)
}

/// Whether two URLs name the same issuer, ignoring a trailing slash.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
