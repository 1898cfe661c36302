//! What every request passes.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::caller::CALLER;
use super::limits::RateLimiter;
use super::{AuditEntry, AuditLog, DynAuthenticate, Identity, Presented, Refusal};
use crate::error::ApiError;
use crate::ids;

/// Who is asked, and what is noted.
#[derive(Default)]
pub(crate) struct Access {
    pub(crate) authenticate: Option<Arc<dyn DynAuthenticate>>,
    pub(crate) audit: Option<AuditLog>,
    rates: RateLimiter,
}

impl Access {
    async fn admit(&self, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Response> {
        let Some(authenticate) = &self.authenticate else { return Ok(None) };
        let presented = Presented { headers };
        let identity = match authenticate.check(presented).await {
            Ok(identity) => identity,
            Err(refusal) => return Err(refused(&refusal)),
        };
        if let Some(per_minute) = identity.own_limits().requests_per_minute
            && let Err(wait) = self.rates.take(identity.id(), per_minute, Instant::now())
        {
            let mut response = ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("more than {per_minute} requests in a minute; come again later"),
            )
            .into_response();
            response.headers_mut().insert("retry-after", HeaderValue::from(wait.as_secs() + 1));
            return Err(response);
        }
        Ok(Some(Arc::new(identity)))
    }

    fn note(&self, request: (Method, String), identity: Option<&Identity>, status: StatusCode) {
        let Some(AuditLog(note)) = &self.audit else { return };
        let (method, path) = request;
        if method.is_safe() && status.is_success() {
            return;
        }
        note(&AuditEntry {
            at: ids::now(),
            identity: identity.map(|identity| identity.id().to_owned()),
            method: method.to_string(),
            path,
            status: status.as_u16(),
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

/// Lets a request in as who sent it.
pub(crate) async fn authenticate(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let what = (request.method().clone(), request.uri().path().to_owned());
    let headers = request.headers().clone();
    match access.admit(&headers).await {
        Ok(identity) => {
            let response = CALLER.scope(identity.clone(), next.run(request)).await;
            access.note(what, identity.as_deref(), response.status());
            response
        }
        Err(response) => {
            access.note(what, None, response.status());
            response
        }
    }
}
