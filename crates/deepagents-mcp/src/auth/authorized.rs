//! Authorized requests to a server.

use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Request, Response};
use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::streamable_http_client::InsufficientScopeError;

use super::dpop::{Dpop, PROOF, WANTS_NONCE};
use super::shared_grant::Grant;
use super::store::TokenFile;
use super::{LoginError, scopes_of};
use crate::http::Failure;

/// The source of the tokens of a server. Tokens are renewed if that is possible without a person.
#[allow(clippy::large_enum_variant, reason = "a connection has one, behind a pointer")]
pub(crate) enum Tokens {
    /// A person's login.
    Login(Login),
    /// A grant that needs no person.
    Grant(Grant),
}

/// The tokens of a login.
pub(crate) struct Login {
    pub(super) manager: AuthorizationManager,
    pub(super) store: TokenFile,
    pub(super) dpop: Option<Arc<Dpop>>,
}

/// A token, with the key that it is bound to.
#[derive(Clone)]
pub(crate) struct Access {
    pub(super) token: String,
    pub(super) dpop: Option<Arc<Dpop>>,
}

impl Access {
    /// Returns a token that is not bound to a key.
    pub(crate) fn bearer(token: String) -> Self {
        Self { token, dpop: None }
    }

    /// Sends a request with this token. A request whose proof lacks the nonce that the server requires is repeated with
    /// it.
    pub(crate) async fn send(&self, http: &reqwest::Client, request: &Request) -> Result<Response, Failure> {
        let answer = http.execute(self.authorized(request)?).await?;
        let Some(dpop) = &self.dpop else { return Ok(answer) };
        // Another request may have stored the nonce already, so it need not be new.
        if !dpop.store_nonce(request.url(), answer.headers()) || !wants_nonce(&answer) {
            return Ok(answer);
        }
        let answer = http.execute(self.authorized(request)?).await?;
        dpop.store_nonce(request.url(), answer.headers());
        Ok(answer)
    }

    /// Returns a request with this token, and a new proof of possession if the token is bound to a key.
    fn authorized(&self, request: &Request) -> Result<Request, AuthError> {
        let unusable = |why: &str| AuthError::InternalError(why.to_owned());
        // All bodies are in memory.
        let mut made = request.try_clone().ok_or_else(|| unusable("the request cannot be repeated"))?;
        let headers = match &self.dpop {
            Some(dpop) => {
                let proof = dpop.proof(request.method().as_str(), request.url(), Some(&self.token));
                let proof = (HeaderName::from_static(PROOF), proof.map_err(LoginError::from)?);
                vec![(AUTHORIZATION, format!("DPoP {}", self.token)), proof]
            }
            None => vec![(AUTHORIZATION, format!("Bearer {}", self.token))],
        };
        for (name, text) in headers {
            let mut value = HeaderValue::from_str(&text).map_err(|error| unusable(&error.to_string()))?;
            value.set_sensitive(true);
            made.headers_mut().insert(name, value);
        }
        Ok(made)
    }
}

/// Whether a request was refused because its proof lacks a nonce.
fn wants_nonce(answer: &Response) -> bool {
    let mut challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    answer.status() == StatusCode::UNAUTHORIZED
        && challenges.any(|challenge| String::from_utf8_lossy(challenge.as_bytes()).contains(WANTS_NONCE))
}

impl From<LoginError> for AuthError {
    fn from(error: LoginError) -> Self {
        Self::OAuthError(error.to_string())
    }
}

impl Tokens {
    /// Makes a call with the current token, or with none if a person must log in. Makes it once more with another token
    /// if the first was refused.
    pub(crate) async fn call<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        call: impl Fn(Option<Access>) -> F,
    ) -> Result<T, Failure> {
        let Some(access) = self.current().await? else { return call(None).await };
        let refusal = match call(Some(access.clone())).await {
            Err(refusal @ (Failure::AuthRequired(_) | Failure::InsufficientScope(_))) => refusal,
            answer => return answer,
        };
        let other = match &refusal {
            Failure::InsufficientScope(wanted) => self.widened(&access.token, wanted).await?,
            _ => self.renewed(&access.token).await?,
        };
        match other {
            Some(other) => call(Some(other)).await,
            None => Err(refusal),
        }
    }

    /// Returns the current token, or `None` if a person must log in.
    async fn current(&self) -> Result<Option<Access>, AuthError> {
        match self {
            Self::Login(login) => login.access(login.manager.get_access_token().await),
            Self::Grant(grant) => Ok(Some(grant.current().await?)),
        }
    }

    /// Replaces a refused token. Returns `None` if a person must log in.
    async fn renewed(&self, sent: &str) -> Result<Option<Access>, AuthError> {
        match self {
            Self::Login(login) => {
                // Another process may have refreshed it meanwhile.
                let now = login.access(login.manager.get_access_token().await)?;
                if now.as_ref().is_some_and(|now| now.token != sent) {
                    return Ok(now);
                }
                let refreshed = login.manager.refresh_token().await;
                refreshed.map(|_| ()).or_else(|error| if is_over(&error) { Ok(()) } else { Err(error) })?;
                let now = login.access(login.manager.get_access_token().await)?;
                Ok(now.filter(|now| now.token != sent))
            }
            Self::Grant(grant) => Ok(Some(grant.replaced(sent, &[]).await?)),
        }
    }

    /// Requests a token with more scopes. Returns `None` if a person must log in; the scopes are then stored for the
    /// next login.
    async fn widened(&self, sent: &str, wanted: &InsufficientScopeError) -> Result<Option<Access>, AuthError> {
        let scopes = scopes_of(wanted.required_scope.as_deref().unwrap_or_default());
        match self {
            Self::Login(login) => {
                // If storing fails, the next login lacks these scopes and the server asks for them again.
                let _ = login.store.request_scopes(&scopes).await;
                Ok(None)
            }
            Self::Grant(_) if scopes.is_empty() => Ok(None),
            Self::Grant(grant) => Ok(Some(grant.replaced(sent, &scopes).await?)),
        }
    }
}

impl Login {
    fn access(&self, token: Result<String, AuthError>) -> Result<Option<Access>, AuthError> {
        match token {
            Ok(token) => Ok(Some(Access { token, dpop: self.dpop.clone() })),
            Err(error) if is_over(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a person must log in: there is nothing to refresh, or the issuer rejects the refresh token or no longer
/// knows the client. Issuers sometimes delete clients that registered dynamically.
fn is_over(error: &AuthError) -> bool {
    let is_forgotten = |words: &str| ["invalid_client", "unauthorized_client"].iter().any(|code| words.contains(code));
    match error {
        AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => true,
        AuthError::TokenRefreshFailed(words) => is_forgotten(words),
        _ => false,
    }
}
