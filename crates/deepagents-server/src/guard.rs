//! Who may call: programs of this machine, and what the owner of the server names.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::AuditLog;
use crate::error::ApiError;

/// The hosts under which the server may be called, and those whose pages may call it, beside those of this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    pub(crate) hosts: Vec<String>,
    /// Origins as browsers send them; `*` is all.
    pub(crate) origins: Vec<String>,
}

impl Guard {
    /// Whether a name is this machine's or was named.
    pub(crate) fn knows(&self, host: &str) -> bool {
        matches!(host, "localhost" | "127.0.0.1" | "[::1]") || self.hosts.iter().any(|known| known == host)
    }

    /// Whether pages of an origin may call.
    pub(crate) fn takes_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known == "*" || known.trim_end_matches('/') == origin) {
            return true;
        }
        origin.parse::<Uri>().is_ok_and(|origin| origin.host().is_some_and(|host| self.knows(host)))
    }

    fn takes(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = match text(HOST) {
            Some(host) => format!("http://{host}").parse::<Uri>().ok().and_then(|host| host.host().map(str::to_owned)),
            None => uri.host().map(str::to_owned),
        };
        host.is_none_or(|host| self.knows(&host)) && text(ORIGIN).is_none_or(|origin| self.takes_origin(origin))
    }
}

/// Refuses pages of strangers, and names that only look like this machine's: a browser sends whatever a page tells it to.
pub(crate) async fn guard(
    State((guard, audit)): State<(Arc<Guard>, Option<AuditLog>)>,
    request: Request,
    next: Next,
) -> Response {
    if guard.takes(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    let detail =
        "this server is called under its own name, and by pages of its own machine; name others when it is started";
    if let Some(audit) = audit {
        audit.note((request.method().clone(), request.uri().path().to_owned()), None, StatusCode::FORBIDDEN);
    }
    ApiError::new(StatusCode::FORBIDDEN, detail).into_response()
}
