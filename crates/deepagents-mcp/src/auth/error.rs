//! Why a login failed.

use rmcp::transport::auth::AuthError;

use super::LOGIN_TIMEOUT;
use super::jwt::KeyError;
use crate::text;

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server or its token issuer refuses or cannot be reached.
    #[error("{0}")]
    Refused(String),
    /// The browser did not return in time.
    #[error("nobody logged in within {} minutes; try again", LOGIN_TIMEOUT.as_secs() / 60)]
    Expired,
    /// The login page is neither `https` nor on this machine, so no browser is sent there.
    #[error("the server asks to log in at {0}, but a browser is only sent to https addresses or to this machine")]
    Page(String),
    /// The issuer does not support dynamic client registration, so the client must be registered by hand.
    #[error(
        "the token issuer does not register clients automatically; register one there, and give its id as \
         `oauth.clientId`"
    )]
    NoRegistration,
    /// The server names an issuer of another origin, which must not get a configured secret on the server's word alone.
    #[error(
        "the configured secret is not sent to {0}, the token issuer that the server names, as it is at another origin; \
         if it is the right one, set `oauth.issuer` to it"
    )]
    UntrustedIssuer(String),
    /// The issuer does not say that it supports PKCE.
    #[error(
        "the metadata of the token issuer {0} does not say that it supports PKCE (`code_challenge_methods_supported`), \
         and a login without it is not safe; if you know that it supports S256, set `oauth.assumePkce` to true"
    )]
    UnknownPkce(String),
    /// The issuer, or the person, declined.
    #[error("the login was refused: {0}")]
    Declined(String),
    /// The redirect port could not be opened, or the tokens could not be stored.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A secret could not be read from its file.
    #[error("the secret in {path} cannot be used: {reason}")]
    Secret {
        /// The path of the file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A private key cannot be used.
    #[error("{0}")]
    Key(String),
}

impl From<KeyError> for LoginError {
    fn from(error: KeyError) -> Self {
        Self::Key(error.to_string())
    }
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Refused(text::line(&error.to_string(), 400))
    }
}
