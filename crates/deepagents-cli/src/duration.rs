//! Durations as people write and read them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Parses `90`, `1.5`, `90s`, `1m30s`, `1.5h`, `30d` or `250ms`; a bare number is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let seconds = || Duration::try_from_secs_f64(text.trim().parse().ok()?).ok();
    let units = || {
        let span = text.trim().parse::<Span>().ok()?;
        Duration::try_from(span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?).ok()
    };
    let time = seconds().or_else(units).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("`{text}` is not a duration; give seconds, or units as in 1m30s or 30d"))
}

/// Formats a duration: `40 ms`, `0.4 s`, `12.3 s`, `2m05s`, `1h02m`.
pub(crate) fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time < Duration::from_millis(100) => format!("{} ms", time.as_millis()),
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_parsed_as_seconds_and_with_units() {
        let millis = |text: &str| parse(text).map(|time| time.as_millis());
        assert_eq!(millis("90"), Ok(90_000));
        assert_eq!(millis("0.25"), Ok(250));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("2h"), Ok(7_200_000));
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!((millis("1.5h"), millis("30d"), millis("2min 5s")), (Ok(5_400_000), Ok(2_592_000_000), Ok(125_000)));
        for wrong in ["", "0", "-1", "s", "1x", "1m30", "1..2s", "inf", "NaN", "0s", "1e400"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_shown_in_a_few_characters() {
        let show = |millis| show(Duration::from_millis(millis));
        let all = [0, 40, 340, 12_345, 125_000, 3_720_000].map(show);
        assert_eq!(all, ["0 ms", "40 ms", "0.3 s", "12.3 s", "2m05s", "1h02m"]);
    }

    proptest! {
        #[test]
        fn durations_in_whole_units_are_parsed_exactly(h in 0u64..100, m in 0u64..60, s in 1u64..60) {
            prop_assert_eq!(parse(&format!("{h}h{m}m{s}s")), Ok(Duration::from_secs(h * 3600 + m * 60 + s)));
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,12}") {
            let _ = parse(&text);
        }
    }
}
