//! Checks of the `Host` and `Origin` of requests: by default only local programs may call the server.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::Access;
use crate::error::ApiError;

/// The hosts under which the server may be called and the origins whose pages may call it, in addition to those of this
/// machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    pub(crate) hosts: Vec<String>,
    /// Origins as browsers send them. `*` allows all.
    pub(crate) origins: Vec<String>,
}

impl Guard {
    /// Whether a host name belongs to this machine or is configured.
    pub(crate) fn knows(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        matches!(&*host, "localhost" | "127.0.0.1" | "[::1]")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(&host))
    }

    /// Whether pages of an origin may call the server.
    pub(crate) fn takes_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known == "*" || known.trim_end_matches('/') == origin) {
            return true;
        }
        host_name(origin).is_some_and(|host| self.knows(&host))
    }

    fn accepts(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        // A header that is there twice, or is no text, is no header of a browser.
        let text = |name: HeaderName| {
            let mut values = headers.get_all(name).iter();
            let first = values.next().map(|value| value.to_str().ok().filter(|_| values.next().is_none()));
            first.map(Option::unwrap_or_default)
        };
        let host = match text(HOST) {
            Some(host) => host_name(&format!("http://{host}")).unwrap_or_default(),
            None => uri.host().unwrap_or_default().to_owned(),
        };
        let is_known = self.knows(&host) || (host.is_empty() && headers.get(HOST).is_none());
        is_known && text(ORIGIN).is_none_or(|origin| self.takes_origin(origin))
    }
}

/// Returns the host of an address, unless the address also names a user.
fn host_name(address: &str) -> Option<String> {
    let address = address.parse::<Uri>().ok()?;
    let authority = address.authority()?;
    (!authority.as_str().contains('@')).then(|| authority.host().to_owned())
}

/// Rejects requests from pages of other origins and requests for unknown host names (DNS rebinding). A browser sends
/// whatever a page tells it to.
pub(crate) async fn guard(
    State((guard, access)): State<(Arc<Guard>, Arc<Access>)>,
    request: Request,
    next: Next,
) -> Response {
    if guard.accepts(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    let what = (request.method().clone(), request.uri().path().to_owned());
    access.request(what, None).answered(StatusCode::FORBIDDEN);
    let detail = "this server only accepts requests under its own host name, and from pages on its own machine; allow others when you start it";
    ApiError::new(StatusCode::FORBIDDEN, detail).into_response()
}
