//! Detectors of sensitive data in text.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::scripts::{Unspaced, is_unspaced};
use crate::shared::Shared;

type Find = dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync;

/// A kind of data to detect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Detector {
    /// Email addresses.
    Email,
    /// Card numbers: 13 to 19 digits, with single spaces or hyphens in between, with the prefix of an issuer and a
    /// correct check digit.
    CreditCard,
    /// IPv4 and IPv6 addresses.
    Ip,
    /// MAC addresses, with `:` or `-`.
    MacAddress,
    /// URLs that have a scheme, or begin with `www.`, or have a path.
    Url,
    /// Keys and tokens in the formats of services (`sk-…`, `ghp_…`, `AKIA…`, `AIza…`, `xox…`, JSON web tokens),
    /// credentials (`Bearer …`, `//user:…@host`), and values under a name that indicates a secret (`api_key`,
    /// `access_key`, `secret`, `token`, `password`), in text and in structured data. Types, calls, numbers and
    /// placeholders do not match.
    ApiKey,
    /// Private keys in PEM and OpenPGP armour, including truncated ones.
    PrivateKey,
    /// Matches of a regular expression.
    Pattern(Regex),
    /// Byte ranges returned by a function. Ranges outside of the text are ignored.
    Function(FunctionDetector),
}

/// A custom detection function; see [`Detector::function`].
#[derive(Clone, Debug)]
pub struct FunctionDetector {
    find: Shared<Find>,
    /// A random number that clones share, because two functions cannot be compared.
    id: u128,
}

impl FunctionDetector {
    /// Returns an id that no other function has, in any process.
    pub(super) fn id(&self) -> String {
        format!("{:032x}", self.id)
    }
}

/// Letters and punctuation of scripts without spaces between words, for a regex character class. They end words, and
/// are not part of an address, a number or a key.
const UNSPACED: Unspaced = Unspaced;

/// The boundary before a match. Also matches after a JSON-escaped line break or tab, whose letter is not part of the
/// word.
const BORDER: &str = r"(?:^|[^A-Za-z0-9]|\\[ntr])";

/// Defines a built-in, tested regular expression; `None` if it does not compile.
macro_rules! expression {
    ($name:ident = $($text:tt)+) => {
        static $name: std::sync::LazyLock<Option<regex::Regex>> =
            std::sync::LazyLock::new(|| regex::Regex::new(&format!($($text)+)).ok());
    };
}

mod armour;
mod cards;
mod judge;
mod keys;
mod mask;
mod named;
mod places;

pub(super) use mask::{mask, upper};

/// Returns the ranges of the first matching capture group of each match.
fn captured(expression: &LazyLock<Option<Regex>>, text: &str) -> Vec<Range<usize>> {
    let found = expression.iter().flat_map(|expression| expression.captures_iter(text));
    found.filter_map(|found| found.iter().skip(1).flatten().next().map(|group| group.range())).collect()
}

/// Returns `true` if no further character of a number or a name follows.
fn ends_at(text: &str, end: usize) -> bool {
    !text.get(end..).unwrap_or_default().starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns `true` if a character ends the word before it.
pub(super) fn ends_word(c: char) -> bool {
    c.is_whitespace() || is_unspaced(c)
}

fn last(text: &str, ends: fn(char) -> bool) -> usize {
    text.char_indices().rev().find(|(_, c)| ends(*c)).map_or(0, |(at, c)| at + c.len_utf8())
}

/// Returns the position at which the last word of a text begins.
pub(super) fn word(text: &str) -> usize {
    last(text, ends_word)
}

impl Detector {
    /// Detects whole matches of a regular expression in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// Returns an error if the expression is invalid.
    pub fn pattern(expression: &str) -> Result<Self, regex::Error> {
        Ok(Self::Pattern(Regex::new(expression)?))
    }

    /// Detects the byte ranges that a function returns. Because two functions cannot be compared, a thread is checked
    /// again when it continues with another detector than this one or its clones, such as in another process.
    pub fn function(find: impl Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'static) -> Self {
        Self::Function(FunctionDetector { find: Shared(Arc::new(find)), id: fastrand::u128(..) })
    }

    /// Returns the name used in marks and events.
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

    /// Returns the matches in a text, in order.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        match self {
            Self::Email => places::mails(text),
            Self::CreditCard => cards::find(text),
            Self::Ip => places::addresses(text),
            Self::MacAddress => places::hardware(text),
            Self::Url => places::urls(text),
            Self::ApiKey => keys::find(text),
            Self::PrivateKey => armour::find(text),
            Self::Pattern(expression) => {
                expression.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
            }
            Self::Function(function) => {
                let ranges = function.find.0(text).into_iter();
                ranges.filter(|range| !range.is_empty() && text.get(range.clone()).is_some()).collect()
            }
        }
    }

    /// Returns `true` if the value under a name in structured data must be hidden entirely, such as a password.
    pub(super) fn finds_under(&self, name: &str, value: &str) -> bool {
        matches!(self, Self::ApiKey) && named::is_secret(name, value)
    }

    /// Returns `true` if the application defines the detector.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self, Self::Pattern(_) | Self::Function(_))
    }

    /// Returns the position from which a growing text may contain an incomplete match; the text before it can be shown.
    /// `longest` is the maximum length in bytes of the matches of an expression or a function.
    pub(super) fn open_from(&self, text: &str, longest: usize) -> usize {
        match self {
            Self::CreditCard => {
                let number = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ' || c == '-').len();
                word(text.get(..number).unwrap_or_default())
            }
            Self::ApiKey => word(text.get(..keys::open_from(text)).unwrap_or_default()),
            Self::PrivateKey => word(text.get(..armour::open_from(text)).unwrap_or_default()).min(word(text)),
            Self::Pattern(_) | Self::Function(_) => {
                let at = text.floor_char_boundary(text.len().saturating_sub(longest));
                // Preceding text in any script may matter to an expression.
                last(text.get(..at).unwrap_or_default(), char::is_whitespace)
            }
            _ => word(text),
        }
    }
}
