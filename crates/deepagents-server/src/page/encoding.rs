//! Content encodings of the page's files.

use axum::http::HeaderValue;

/// A stored encoding, in ascending order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Brotli,
}

impl Encoding {
    /// Returns the best encoding that the client's `Accept-Encoding` allows.
    pub(super) fn accepted<'a>(headers: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
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
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
        }
    }
}
