//! Replacements for matches.

use std::borrow::Cow;

use super::Detector;

/// Masks a match, except for a part that helps to recognize it.
pub(in super::super) fn mask(detector: &Detector, value: &str) -> String {
    let last = |count: usize| -> String {
        let skipped = value.chars().count().saturating_sub(count);
        value.chars().skip(skipped).collect()
    };
    match detector {
        Detector::Email => {
            let (local, domain) = value.split_once('@').unwrap_or((value, ""));
            format!("{local}@****.{}", domain.rsplit('.').next().unwrap_or_default())
        }
        Detector::CreditCard => {
            let mut left = value.chars().filter(char::is_ascii_digit).count();
            let hide = |c: char| {
                if !c.is_ascii_digit() {
                    return c;
                }
                left -= 1;
                if left < 4 { c } else { '*' }
            };
            value.chars().map(hide).collect()
        }
        Detector::Ip if value.contains('.') && !value.contains(':') => {
            format!("*.*.*.{}", value.rsplit('.').next().unwrap_or_default())
        }
        Detector::Ip => format!("****:{}", value.rsplit(':').next().unwrap_or_default()),
        Detector::MacAddress => {
            let separator = if value.contains('-') { "-" } else { ":" };
            format!("{}{}", format!("**{separator}").repeat(5), last(2))
        }
        Detector::Url => "[MASKED_URL]".to_owned(),
        Detector::PrivateKey => "[MASKED_PRIVATE_KEY]".to_owned(),
        // Four characters of a short value would reveal too much.
        Detector::ApiKey if value.chars().count() <= 16 => "****".to_owned(),
        _ if value.chars().count() <= 4 => "****".to_owned(),
        _ => format!("****{}", last(4)),
    }
}

/// Returns a name as used in marks.
pub(in super::super) fn upper(name: &str) -> Cow<'_, str> {
    if name.chars().any(char::is_lowercase) { name.to_uppercase().into() } else { name.into() }
}
