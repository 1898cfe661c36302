//! What is looked for in texts.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::shared::Shared;

type Find = dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync;

/// What is looked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Detector {
    /// Addresses of mail.
    Email,
    /// Numbers of 13 to 19 digits, with single blanks or hyphens between, whose check digit is right.
    CreditCard,
    /// Addresses of IPv4 and IPv6.
    Ip,
    /// Hardware addresses, with `:` or `-`.
    MacAddress,
    /// Addresses of the web, with a scheme, or beginning with `www.`, or with a path.
    Url,
    /// Keys and tokens by the forms of services (`sk-…`, `ghp_…`, `AKIA…`, `AIza…`, `xox…`, JSON web tokens), and values
    /// that are named `api_key`, `secret`, `token` or `password`.
    ApiKey,
    /// Private keys in PEM.
    PrivateKey,
    /// What matches an expression.
    Pattern(Regex),
    /// What a function finds: ranges of bytes of the text. Ranges that are no part of the text are passed over.
    Function(FunctionDetector),
}

/// A function that finds what is looked for; see [`Detector::function`].
#[derive(Clone, Debug)]
pub struct FunctionDetector(Shared<Find>);

/// An expression that is part of the program, and is tested; nothing where it cannot be read.
macro_rules! expression {
    ($name:ident = $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

expression!(EMAIL = r"\b[\w.%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}\b");
expression!(CARD = r"\b\d(?:[ -]?\d){12,18}\b");
expression!(IPV4 = r"\b\d{1,3}(?:\.\d{1,3}){3}\b");
expression!(IPV6 = r"[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*");
expression!(MAC = r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b");
expression!(
    URL = r#"(?i)\b(?:https?://[^\s<>"{}|\\^`\[\]]+|www\.[^\s<>"{}|\\^`\[\]]+|(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s<>"{}|\\^`\[\]]*)"#
);
expression!(
    KEY = r#"(?x)
    \b(?: sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,} | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{40,}
        | glpat-[A-Za-z0-9_-]{20,} | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[A-Za-z0-9_-]{35} | xox[abprs]-[A-Za-z0-9-]{10,}
        | hf_[A-Za-z0-9]{30,} | npm_[A-Za-z0-9]{36} | (?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}
        | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,} )
    | (?i:\b(?:[a-z0-9]+[_-])*(?:api[_-]?key|secret|token|password|passwd)["']?\s?[:=]\s?["']?)(?P<value>[^\s"',;]{8,})
    "#
);
expression!(KEY_BEGIN = r#"(?i)(?:api[_-]?key|secret|token|password|passwd)["']?\s?(?:[:=]\s?["']?)?\S*\z"#);
expression!(PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)");
expression!(PEM_WHOLE = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY-----");
expression!(PEM_BEGIN = r"-----BEGIN (?:[A-Z0-9 ]*\z|[A-Z0-9 ]*PRIVATE KEY)");

fn all(expression: &LazyLock<Option<Regex>>, text: &str) -> Vec<Range<usize>> {
    expression.iter().flat_map(|expression| expression.find_iter(text).map(|found| found.range())).collect()
}

/// Where the last word of a text begins.
pub(super) fn word(text: &str) -> usize {
    text.char_indices().rev().find(|(_, c)| c.is_whitespace()).map_or(0, |(at, c)| at + c.len_utf8())
}

impl Detector {
    /// What matches an expression in the syntax of the crate `regex`: whole matches.
    ///
    /// # Errors
    /// When the expression cannot be read.
    pub fn pattern(expression: &str) -> Result<Self, regex::Error> {
        Ok(Self::Pattern(Regex::new(expression)?))
    }

    /// What a function finds, as ranges of bytes.
    pub fn function(find: impl Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'static) -> Self {
        Self::Function(FunctionDetector(Shared(Arc::new(find))))
    }

    /// The name in marks and events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::CreditCard => "credit_card",
            Self::Ip => "ip",
            Self::MacAddress => "mac_address",
            Self::Url => "url",
            Self::ApiKey => "api_key",
            Self::PrivateKey => "private_key",
            Self::Pattern(_) | Self::Function(_) => "custom",
        }
    }

    /// Where it is in a text, in order.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        match self {
            Self::Email => all(&EMAIL, text),
            Self::CreditCard => all(&CARD, text).into_iter().filter(|range| passes_luhn(part(range))).collect(),
            Self::Ip => {
                let v4 = all(&IPV4, text).into_iter().filter(|range| part(range).parse::<IpAddr>().is_ok());
                let v6 = all(&IPV6, text).into_iter().filter_map(|range| address_in(text, range));
                v4.chain(v6).collect()
            }
            Self::MacAddress => all(&MAC, text),
            Self::Url => all(&URL, text).into_iter().map(|range| without_end(text, range)).collect(),
            Self::ApiKey => {
                let found = KEY.iter().flat_map(|key| key.captures_iter(text));
                found.filter_map(|found| found.name("value").or_else(|| found.get(0)).map(|m| m.range())).collect()
            }
            Self::PrivateKey => all(&PEM, text),
            Self::Pattern(expression) => {
                expression.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
            }
            Self::Function(FunctionDetector(find)) => {
                let ranges = find.0(text).into_iter();
                ranges.filter(|range| !range.is_empty() && text.get(range.clone()).is_some()).collect()
            }
        }
    }

    /// Whether it is the application that says what is looked for.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self, Self::Pattern(_) | Self::Function(_))
    }

    /// From where on a text may hold the beginning of something that is not complete: what comes before can be shown while
    /// the text grows. `longest` is the length in bytes of the longest that an expression or a function finds.
    pub(super) fn open_from(&self, text: &str, longest: usize) -> usize {
        match self {
            Self::CreditCard => {
                let number = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ' || c == '-').len();
                word(text.get(..number).unwrap_or_default())
            }
            Self::ApiKey => {
                let named = KEY_BEGIN.iter().find_map(|begin| begin.find(text)).map(|begin| begin.start());
                named.map_or(text.len(), |at| word(text.get(..at).unwrap_or_default())).min(word(text))
            }
            Self::PrivateKey => {
                let complete = all(&PEM_WHOLE, text).last().map_or(0, |range| range.end);
                let rest = text.get(complete..).unwrap_or_default();
                let begun = PEM_BEGIN.iter().find_map(|begin| begin.find(rest)).map(|begin| complete + begin.start());
                begun.map_or(text.len(), |at| word(text.get(..at).unwrap_or_default())).min(word(text))
            }
            Self::Pattern(_) | Self::Function(_) => {
                let mut at = text.len().saturating_sub(longest);
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                word(text.get(..at).unwrap_or_default())
            }
            _ => word(text),
        }
    }
}

/// Whether the digits of a number fit its check digit.
fn passes_luhn(number: &str) -> bool {
    let digits: Vec<u32> = number.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = digits.iter().rev().zip([1, 2].into_iter().cycle()).map(|(digit, factor)| digit * factor);
    let sum: u32 = doubled.map(|digit| if digit > 9 { digit - 9 } else { digit }).sum();
    (13..=19).contains(&digits.len()) && digits.iter().any(|digit| *digit != 0) && sum.is_multiple_of(10)
}

/// The address of IPv6 at a place that looks like one, without the punctuation after it.
fn address_in(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let mut end = range.end;
    while end > range.start {
        let candidate = text.get(range.start..end)?;
        // `::` alone, and times of day, are no addresses of anybody.
        if candidate.len() > 3 && candidate.parse::<std::net::Ipv6Addr>().is_ok() {
            return Some(range.start..end);
        }
        let last = candidate.chars().next_back()?;
        if !matches!(last, ':' | '.') {
            return None;
        }
        end -= last.len_utf8();
    }
    None
}

/// An address of the web without the punctuation of the sentence around it.
fn without_end(text: &str, range: Range<usize>) -> Range<usize> {
    let url = text.get(range.clone()).unwrap_or_default();
    let mut kept = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']);
    if kept.ends_with(')') && !kept.contains('(') {
        kept = kept.trim_end_matches(')').trim_end_matches(['.', ',', ';', ':', '!', '?']);
    }
    range.start..range.start + kept.len()
}

/// What hides a match but for a part that helps to recognise it.
pub(super) fn mask(detector: &Detector, value: &str) -> String {
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
        // Of a short value four characters would be too much.
        Detector::ApiKey if value.chars().count() <= 16 => "****".to_owned(),
        _ if value.chars().count() <= 4 => "****".to_owned(),
        _ => format!("****{}", last(4)),
    }
}

/// A name as it stands in a mark.
pub(super) fn upper(name: &str) -> Cow<'_, str> {
    if name.chars().any(char::is_lowercase) { name.to_uppercase().into() } else { name.into() }
}
