//! Rewrites requests for the server.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Version};

use crate::sandbox::hosts::Target;

/// Returns the target of a request with an absolute URI, and the request to send to it.
pub(super) fn for_server<B>(request: Request<B>) -> Result<(Target, Request<B>), &'static str> {
    let (mut parts, body) = request.into_parts();
    let (Some(scheme), Some(authority)) = (parts.uri.scheme_str(), parts.uri.authority()) else {
        return Err("this is a proxy: ask for a whole http:// address");
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("plain requests are for http:// addresses; use CONNECT for others");
    }
    let target = Target::parse(authority.as_str(), Some(80))?;
    let headers = &mut parts.headers;
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !headers.get_all(TRANSFER_ENCODING).iter().all(is_chunked) {
        return Err("the only transfer encoding is `chunked`");
    }
    if headers.get_all(TRANSFER_ENCODING).iter().chain(headers.get_all(CONTENT_LENGTH)).count() > 1 {
        return Err("the length of the body is given twice");
    }
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    remove_hop_by_hop(headers);
    // Both describe the body as sent to the proxy.
    headers.remove(CONTENT_LENGTH);
    headers.remove(EXPECT);
    if chunked {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let host = if target.port == 80 { target.host.to_string() } else { target.to_string() };
    headers.insert(HOST, HeaderValue::try_from(host).map_err(|_| "the host is not one")?);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
    parts.version = Version::HTTP_11;
    Ok((target, Request::from_parts(parts, body)))
}

/// Removes hop-by-hop headers, including those that `Connection` names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.into_iter().chain([CONNECTION, TRANSFER_ENCODING, UPGRADE]) {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"] {
        headers.remove(name);
    }
}
