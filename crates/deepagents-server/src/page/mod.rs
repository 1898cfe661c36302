//! The web page served at the server's address.
//!
//! Its sources are in `web`. The build output is in `page` and part of the library, so compiling the crate does not
//! need Node.
//!
//! Every file is stored plain and in two compressed forms. Files whose names contain a hash of their content can be
//! cached for ever; the others are revalidated and answered with 304 if unchanged.

mod assets;
mod facts;

use std::sync::Arc;

use axum::Router;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};

use self::assets::ASSETS;
use crate::app::App;
use crate::ids;

/// The content security policy. The page may run its own scripts, call its own server, and show images that are part of
/// a message. Inline scripts and styles are blocked, so model output that ended up as HTML could not do anything.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct Asset {
    path: &'static str,
    media_type: &'static str,
    identity: &'static [u8],
    gzip: &'static [u8],
    brotli: &'static [u8],
}

/// Includes a file in all encodings. A macro, because only literals can be included.
macro_rules! asset {
    ($path:literal, $media_type:literal, $file:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            identity: include_bytes!($file),
            gzip: include_bytes!(concat!($file, ".gz")),
            brotli: include_bytes!(concat!($file, ".br")),
        }
    };
}
use asset;

/// Routes for the files, which need no authentication. The page asks for a key before it calls the API.
pub(crate) fn files() -> Router<Arc<App>> {
    ASSETS.iter().fold(Router::new(), |routes, asset| routes.route(asset.path, served(asset)))
}

/// Routes that the page needs in addition to the API. They require authentication.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/models", get(facts::model)).route("/page/agents/{graph}", get(facts::agent))
}

fn served(asset: &'static Asset) -> MethodRouter<Arc<App>> {
    let version = ids::derived(&[&String::from_utf8_lossy(asset.identity)]);
    let tag = HeaderValue::try_from(format!("\"{}\"", version.simple())).ok();
    get(move |headers: HeaderMap| async move { answer(asset, tag.as_ref(), &headers) })
}

fn answer(asset: &Asset, tag: Option<&HeaderValue>, asked: &HeaderMap) -> Response {
    let encoding = Encoding::accepted(asked.get_all(ACCEPT_ENCODING));
    let mut headers = HeaderMap::new();
    // The names of files in this folder contain a hash of their content.
    let is_hashed = asset.path.starts_with("/page/");
    let kept = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    for (name, value) in [
        (CONTENT_TYPE, asset.media_type),
        (CACHE_CONTROL, kept),
        (VARY, "accept-encoding"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(tag) = tag {
        headers.insert(ETAG, tag.clone());
        let has = |known: &HeaderValue| {
            known.to_str().is_ok_and(|list| list.split(',').any(|one| one.trim().as_bytes() == tag.as_bytes()))
        };
        if asked.get(IF_NONE_MATCH).is_some_and(has) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
    }
    let body = match encoding {
        Encoding::Identity => asset.identity,
        Encoding::Gzip => asset.gzip,
        Encoding::Brotli => asset.brotli,
    };
    if let Some(name) = encoding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    (headers, body).into_response()
}

/// A stored encoding, in ascending order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Encoding {
    Identity,
    Gzip,
    Brotli,
}

impl Encoding {
    /// Returns the best encoding that the client's `Accept-Encoding` allows.
    fn accepted<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let lists = headers.into_iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).filter_map(Self::read).max().unwrap_or(Self::Identity)
    }

    /// Parses an item such as `br` or `gzip;q=0.5`. Returns `None` if `q=0` rules the encoding out.
    fn read(item: &str) -> Option<Self> {
        let mut parts = item.split(';').map(str::trim);
        let encoding = match parts.next()?.to_ascii_lowercase().as_str() {
            "br" => Self::Brotli,
            "gzip" | "x-gzip" => Self::Gzip,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse().ok());
        weight.is_some_and(|weight: f64| weight > 0.0).then_some(encoding)
    }

    /// Returns its name in `Content-Encoding`.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
        }
    }
}
