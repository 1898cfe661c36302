//! Authorized requests to a server.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method};
use reqwest::Url;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::streamable_http_client::{
    InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::client;
use super::dpop::{Dpop, PROOF, WANTS_NONCE};
use super::grant::{Grant, Issued};
use super::store::TokenFile;
use super::{LoginError, scopes_of};
use crate::http::Requests;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Sends a server's token with every request, and renews the token if that is possible without a person.
#[derive(Clone)]
pub(crate) struct Authorized {
    requests: Requests,
    tokens: Arc<Tokens>,
}

/// The source of tokens.
#[allow(clippy::large_enum_variant, reason = "a connection has one, behind a pointer")]
pub(super) enum Tokens {
    /// A person's login.
    Login(Login),
    /// A grant that needs no person.
    Grant(Grant),
}

/// The tokens of a login.
pub(super) struct Login {
    pub(super) manager: AuthorizationManager,
    pub(super) store: TokenFile,
    pub(super) dpop: Option<Arc<Dpop>>,
}

/// A token, with the key that it is bound to.
#[derive(Clone)]
struct Access {
    token: String,
    dpop: Option<Arc<Dpop>>,
}

impl From<Issued> for Access {
    fn from(issued: Issued) -> Self {
        Self { token: issued.token, dpop: issued.dpop }
    }
}

impl From<LoginError> for AuthError {
    fn from(error: LoginError) -> Self {
        Self::OAuthError(error.to_string())
    }
}

impl Tokens {
    /// Returns the current token, or `None` if a person must log in.
    async fn current(&self) -> Result<Option<Access>, AuthError> {
        match self {
            Self::Login(login) => login.access(login.manager.get_access_token().await),
            Self::Grant(grant) => Ok(Some(grant.current().await?.into())),
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
            Self::Grant(grant) => Ok(Some(grant.renew(&[]).await?.into())),
        }
    }

    /// Requests a token with more scopes. Returns `None` if a person must log in; the scopes are then stored for the
    /// next login.
    async fn widened(&self, wanted: &InsufficientScopeError) -> Result<Option<Access>, AuthError> {
        let scopes = scopes_of(wanted.required_scope.as_deref().unwrap_or_default());
        match self {
            Self::Login(login) => {
                // If storing fails, the next login lacks these scopes and the server asks for them again.
                let _ = login.store.request_scopes(&scopes).await;
                Ok(None)
            }
            Self::Grant(_) if scopes.is_empty() => Ok(None),
            Self::Grant(grant) => Ok(Some(grant.renew(&scopes).await?.into())),
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

impl Authorized {
    pub(super) fn new(requests: Requests, tokens: Tokens) -> Self {
        Self { requests, tokens: Arc::new(tokens) }
    }

    /// Sends a request. Retries it with the nonce that the server requires, and once with another token if the first
    /// was refused.
    async fn with_token<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        method: Method,
        uri: &str,
        headers: Headers,
        call: impl Fn(Option<String>, Headers) -> F,
    ) -> Result<T, Failure> {
        let access = self.tokens.current().await?;
        let Some(access) = access else { return call(None, headers).await };
        match self.attempt(&method, uri, &headers, &access, &call).await {
            Err(StreamableHttpError::AuthRequired(challenge)) => match self.tokens.renewed(&access.token).await? {
                Some(fresh) => self.attempt(&method, uri, &headers, &fresh, &call).await,
                None => Err(StreamableHttpError::AuthRequired(challenge)),
            },
            Err(StreamableHttpError::InsufficientScope(wanted)) => match self.tokens.widened(&wanted).await? {
                Some(wider) => self.attempt(&method, uri, &headers, &wider, &call).await,
                None => Err(StreamableHttpError::InsufficientScope(wanted)),
            },
            answer => answer,
        }
    }

    async fn attempt<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        method: &Method,
        uri: &str,
        headers: &Headers,
        access: &Access,
        call: &impl Fn(Option<String>, Headers) -> F,
    ) -> Result<T, Failure> {
        let Some(dpop) = &access.dpop else { return call(Some(access.token.clone()), headers.clone()).await };
        let url = Url::parse(uri).map_err(AuthError::from)?;
        let made = |method: &Method| -> Result<Headers, AuthError> {
            let proof = dpop.proof(method.as_str(), &url, Some(&access.token)).map_err(LoginError::from)?;
            let value = |text: &str| {
                let mut value =
                    HeaderValue::from_str(text).map_err(|error| AuthError::InternalError(error.to_string()))?;
                value.set_sensitive(true);
                Ok::<_, AuthError>(value)
            };
            let mut all = headers.clone();
            all.insert(AUTHORIZATION, value(&format!("DPoP {}", access.token))?);
            all.insert(HeaderName::from_static(PROOF), value(&proof)?);
            Ok(all)
        };
        match call(None, made(method)?).await {
            Err(StreamableHttpError::AuthRequired(challenge))
                if challenge.www_authenticate_header.contains(WANTS_NONCE) =>
            {
                // The response with the nonce is not available here, so a request without effect fetches one.
                let proven = made(&Method::POST)?.into_iter().collect();
                let asked = client::ask(self.requests.http(), uri, proven).await;
                let wants_more = |answer: &HeaderMap| answer.contains_key(WWW_AUTHENTICATE);
                match asked.filter(|answer| dpop.store_nonce(&url, answer) || !wants_more(answer)) {
                    Some(_) => call(None, made(method)?).await,
                    None => Err(StreamableHttpError::AuthRequired(challenge)),
                }
            }
            answer => answer,
        }
    }
}

impl StreamableHttpClient for Authorized {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.with_token(Method::POST, &uri, custom_headers, |token, headers| {
            let (message, session) = (message.clone(), session_id.clone());
            self.requests.post_message_with_response_limits(uri.clone(), message, session, token, headers, limits)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.with_token(Method::DELETE, &uri, custom_headers, |token, headers| {
            self.requests.delete_session(uri.clone(), session_id.clone(), token, headers)
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.with_token(Method::GET, &uri, custom_headers, |token, headers| {
            let (session, last) = (session_id.clone(), last_event_id.clone());
            self.requests.get_stream_with_max_sse_event_size(
                uri.clone(),
                session,
                last,
                token,
                headers,
                max_sse_event_size,
            )
        })
        .await
    }
}
