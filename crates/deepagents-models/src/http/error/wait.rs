//! Reads how long a provider asks to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use super::header;

/// Reads `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let value = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)?;
        Duration::try_from_secs_f64(value * unit).ok()
    };
    if let Some(pause) = header(headers, "retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(pause);
    }
    let text = header(headers, "retry-after")?;
    seconds(text, 1.0).or_else(|| {
        // A date is relative to the server's own clock, which nearly every response includes.
        #[allow(clippy::disallowed_methods, reason = "the server means the time of the world")]
        let here = SystemTime::now;
        let now = header(headers, "date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(here);
        let at = httpdate::parse_http_date(text).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    })
}
