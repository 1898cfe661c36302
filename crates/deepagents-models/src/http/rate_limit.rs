//! Determines when an exceeded limit resets, from response headers.

use std::time::Duration;

use reqwest::header::HeaderMap;

use super::error::header;

/// Prefixes of headers with the remainder of a limit. The next word tells which limit: requests, tokens; some servers
/// omit it.
const REMAINING: [&str; 3] = ["anthropic-ratelimit-", "x-ratelimit-remaining", "ratelimit-remaining"];

/// From this value on, a number of seconds is a Unix timestamp rather than a duration.
const MIN_TIMESTAMP_SECONDS: f64 = 1e9;
/// From this value on, it is a timestamp in milliseconds.
const MIN_TIMESTAMP_MILLIS: f64 = 1e12;

/// Returns the longest time until the reset of an exhausted limit.
pub(super) fn resets_after(headers: &HeaderMap) -> Option<Duration> {
    // Timestamps are relative to the server's own clock, which every response includes.
    let now = header(headers, "date").and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now.and_then(|now| now.duration_since(std::time::UNIX_EPOCH).ok());
    let used_up = headers.iter().filter(|(name, value)| {
        let is_rest =
            name.as_str().contains("remaining") && REMAINING.iter().any(|start| name.as_str().starts_with(start));
        is_rest && value.to_str().is_ok_and(|left| left.trim() == "0")
    });
    let reset =
        |name: &str| header(headers, &name.replace("remaining", "reset")).and_then(|reset| time_until(reset, now));
    used_up.filter_map(|(name, _)| reset(name.as_str())).max()
}

/// Extracts the delay from a message such as "Please try again in 1m3.5s" or "retry after 34 seconds".
pub(super) fn delay_in_message(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    let after = ["try again in ", "retry in ", "retry after "].iter().find_map(|lead| words.split_once(lead))?.1;
    let mut after = after.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ';', ')']));
    let (time, unit) = (after.next()?, after.next().unwrap_or_default());
    match time.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number * seconds_per(unit)?).ok(),
        Err(_) => parts(time),
    }
}

/// Parses a duration such as `6m0.5s`, `20ms` or `3` (seconds), or the time until a timestamp: Unix seconds or
/// milliseconds, or a date.
fn time_until(text: &str, now: Option<Duration>) -> Option<Duration> {
    let until = |moment: Duration| Some(moment.saturating_sub(now?));
    if let Ok(number) = text.parse::<f64>() {
        return match number {
            _ if number < 0.0 => None,
            _ if number < MIN_TIMESTAMP_SECONDS => Duration::try_from_secs_f64(number).ok(),
            _ if number < MIN_TIMESTAMP_MILLIS => until(Duration::try_from_secs_f64(number).ok()?),
            _ => until(Duration::try_from_secs_f64(number / 1000.0).ok()?),
        };
    }
    parts(text).or_else(|| until(rfc3339(text)?))
}

/// Parses numbers with units, as in `1h2m3.5s`.
fn parts(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(unit_at)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        sum += number.parse::<f64>().ok()? * seconds_per(unit)?;
        rest = next;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(sum).ok() }
}

fn seconds_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}

/// Returns the Unix time of a timestamp such as `2026-11-23T06:00:00Z`.
fn rfc3339(text: &str) -> Option<Duration> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Duration::try_from(moment.duration_since(jiff::Timestamp::UNIX_EPOCH)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        resets_after(&headers.collect())
    }

    const DATE: (&str, &str) = ("date", "Mon, 23 Nov 2026 06:00:00 GMT");

    #[test]
    fn the_reset_time_of_an_exhausted_limit_is_parsed_in_many_services_formats() {
        let openai = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1m0.5s"),
            ("x-ratelimit-remaining-tokens", "5000"),
            ("x-ratelimit-reset-tokens", "6h"),
        ];
        assert_eq!(after(&openai), Some(Duration::from_millis(60_500)));
        let anthropic = [
            DATE,
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-23T06:00:07Z"),
        ];
        assert_eq!(after(&anthropic), Some(Duration::from_secs(7)));
        let openrouter = [DATE, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795413609000")];
        assert_eq!(after(&openrouter), Some(Duration::from_secs(9)));
        assert_eq!(after(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "20")]), Some(Duration::from_secs(20)));
        let long = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "20ms"), openai[0], openai[1]];
        assert_eq!(after(&long), Some(Duration::from_millis(60_500)));
    }

    #[test]
    fn unreadable_and_past_reset_times_delay_nobody() {
        let reset = |text| after(&[DATE, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", text)]);
        for nonsense in ["", "soon", "-5", "1x", "1.2.3s", "s", "NaN", "inf", "1e400", "99999999999999999999d"] {
            assert_eq!(reset(nonsense), None, "{nonsense}");
        }
        assert_eq!(reset("1000000001"), Some(Duration::ZERO));
        assert_eq!(after(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795413609")]), None, "no clock");
        assert_eq!(after(&[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "9s")]), None);
    }
}
