//! The middleware that authenticates every request.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Serialize;

use super::caller::CALLER;
use super::limits::RateLimiter;
use super::{DynAuthenticate, Identity, LimitTable, Presented, Refusal};
use crate::error::ApiError;
use crate::ids;

/// An audit record of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When the response was sent or the client was gone, RFC 3339.
    pub at: String,
    /// The id of the caller. `None` if the caller was not admitted or authentication is off.
    pub identity: Option<String>,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the response. 499 if the client closed the connection before it.
    pub status: u16,
}

/// The status of a request whose client closed the connection before the response, as other servers log it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Receives a record of each request that changed something or was rejected.
type AuditLog = dyn Fn(&AuditEntry) + Send + Sync;

/// The configured authenticators, limits and audit log.
#[derive(Default)]
pub(crate) struct Access {
    /// Tried in order until one knows the caller. If empty, everybody has access.
    pub(crate) authenticate: Vec<Arc<dyn DynAuthenticate>>,
    pub(crate) audit: Option<Box<AuditLog>>,
    pub(crate) limits: Arc<LimitTable>,
    rates: RateLimiter,
}

impl Access {
    async fn admit(&self, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Response> {
        if self.authenticate.is_empty() {
            return Ok(None);
        }
        let identity = match self.identify(Presented { headers }).await {
            Ok(identity) => identity,
            Err(refusal) => return Err(refused(&refusal)),
        };
        let limits = identity.own_limits().clone().or(&self.limits.of(identity.id()));
        let identity = identity.limits(limits);
        self.take_request(&identity).map_err(IntoResponse::into_response)?;
        Ok(Some(Arc::new(identity)))
    }

    /// Counts a request of a caller, or refuses it if the caller has made too many.
    pub(crate) fn take_request(&self, identity: &Identity) -> Result<(), ApiError> {
        let Some(per_minute) = identity.own_limits().requests_per_minute else { return Ok(()) };
        self.rates.take(identity.id(), per_minute, Instant::now()).map_err(|wait| {
            let detail = format!("more than {per_minute} requests in a minute; try again later");
            ApiError::too_many(detail, wait)
        })
    }

    /// Begins the audit record of a request.
    pub(crate) fn request<'a>(&'a self, what: (Method, String), identity: Option<&'a Identity>) -> AuditedRequest<'a> {
        AuditedRequest { access: self, what, identity, status: CLIENT_CLOSED_REQUEST }
    }

    async fn identify(&self, presented: Presented<'_>) -> Result<Identity, Refusal> {
        let mut refusal = Refusal::Unknown("the caller could not be identified".to_owned());
        for authenticate in &self.authenticate {
            match authenticate.check(presented).await {
                Ok(identity) => return Ok(identity),
                // If no other authenticator knows the caller, the error says that this one was unavailable.
                Err(refused) if !matches!(refusal, Refusal::Unavailable(_)) => refusal = refused,
                Err(_) => {}
            }
        }
        Err(refusal)
    }
}

/// A request that is recorded in the audit log if it changed something or was rejected, even if the client closes the
/// connection before the response.
pub(crate) struct AuditedRequest<'a> {
    access: &'a Access,
    what: (Method, String),
    identity: Option<&'a Identity>,
    status: u16,
}

impl AuditedRequest<'_> {
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for AuditedRequest<'_> {
    fn drop(&mut self) {
        let Some(note) = &self.access.audit else { return };
        let (method, path) = &self.what;
        if method.is_safe() && (self.status < 400 || self.status == CLIENT_CLOSED_REQUEST) {
            return;
        }
        note(&AuditEntry {
            at: ids::now(),
            identity: self.identity.map(|identity| identity.id().to_owned()),
            method: method.to_string(),
            path: path.clone(),
            status: self.status,
        });
    }
}

fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::Unknown(_) => StatusCode::UNAUTHORIZED,
        Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
        Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = ApiError::new(status, refusal.to_string()).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
    response
}

/// Ends a stream when the identity expires.
fn until_expiry(response: Response, identity: &Identity) -> Response {
    let is_stream =
        response.headers().get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return response;
    }
    let expired = Box::pin(identity.expired());
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(expired)))
}

/// Middleware that authenticates the caller and runs the request under that identity.
pub(crate) async fn authenticate(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let what = (request.method().clone(), request.uri().path().to_owned());
    let headers = request.headers().clone();
    match access.admit(&headers).await {
        Ok(identity) => {
            let mut audited = access.request(what, identity.as_deref());
            // For connections that carry several requests.
            request.extensions_mut().insert(access.clone());
            let response = CALLER.scope(identity.clone(), next.run(request)).await;
            audited.answered(response.status());
            match &identity {
                Some(identity) if identity.can_expire() => until_expiry(response, identity),
                _ => response,
            }
        }
        Err(response) => {
            access.request(what, None).answered(response.status());
            response
        }
    }
}
