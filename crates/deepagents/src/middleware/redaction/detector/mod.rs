//! What is looked for in texts.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::scripts::{Unspaced, is_unspaced};
use crate::shared::Shared;

type Find = dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync;

/// What is looked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Detector {
    /// Addresses of mail.
    Email,
    /// Numbers of 13 to 19 digits, with single blanks or hyphens between, that begin as issuers' numbers do and whose check
    /// digit is right.
    CreditCard,
    /// Addresses of IPv4 and IPv6.
    Ip,
    /// Hardware addresses, with `:` or `-`.
    MacAddress,
    /// Addresses of the web, with a scheme, or beginning with `www.`, or with a path.
    Url,
    /// Keys and tokens by the forms of services (`sk-…`, `ghp_…`, `AKIA…`, `AIza…`, `xox…`, JSON web tokens), what is sent to
    /// be authorised (`Bearer …`, `//user:…@host`), and values under a name with a secret in it (`api_key`, `access_key`,
    /// `secret`, `token`, `password`), in texts and in structured data. Types, calls, numbers and placeholders are none.
    ApiKey,
    /// Private keys in PEM and OpenPGP's armour, also those that are cut off.
    PrivateKey,
    /// What matches an expression.
    Pattern(Regex),
    /// What a function finds: ranges of bytes of the text. Ranges that are no part of the text are passed over.
    Function(FunctionDetector),
}

/// A function that finds what is looked for; see [`Detector::function`].
#[derive(Clone, Debug)]
pub struct FunctionDetector(Shared<Find>);

/// Letters and punctuation of scripts that put no blanks between words, as they stand in a class of an expression. They end
/// words, and are no part of an address, a number or a key.
const UNSPACED: Unspaced = Unspaced;

/// What comes before something that is found. A line break or a tab that is written as in JSON borders on it too: its letter
/// is not one of the word.
const BORDER: &str = r"(?:^|[^A-Za-z0-9]|\\[ntr])";

/// An expression that is part of the program, and is tested; nothing where it cannot be read.
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

/// Where the group that an expression captures, the first that is there, is found.
fn captured(expression: &LazyLock<Option<Regex>>, text: &str) -> Vec<Range<usize>> {
    let found = expression.iter().flat_map(|expression| expression.captures_iter(text));
    found.filter_map(|found| found.iter().skip(1).flatten().next().map(|group| group.range())).collect()
}

/// Whether nothing that belongs to a number or a name follows.
fn ends_at(text: &str, end: usize) -> bool {
    !text.get(end..).unwrap_or_default().starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether a letter ends the word before it.
pub(super) fn ends_word(c: char) -> bool {
    c.is_whitespace() || is_unspaced(c)
}

fn last(text: &str, ends: fn(char) -> bool) -> usize {
    text.char_indices().rev().find(|(_, c)| ends(*c)).map_or(0, |(at, c)| at + c.len_utf8())
}

/// Where the last word of a text begins.
pub(super) fn word(text: &str) -> usize {
    last(text, ends_word)
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
            Self::Function(FunctionDetector(find)) => {
                let ranges = find.0(text).into_iter();
                ranges.filter(|range| !range.is_empty() && text.get(range.clone()).is_some()).collect()
            }
        }
    }

    /// Whether what stands under a name in structured data is to be hidden as a whole, such as a password.
    pub(super) fn finds_under(&self, name: &str, value: &str) -> bool {
        matches!(self, Self::ApiKey) && named::is_secret(name, value)
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
            Self::ApiKey => word(text.get(..keys::open_from(text)).unwrap_or_default()),
            Self::PrivateKey => word(text.get(..armour::open_from(text)).unwrap_or_default()).min(word(text)),
            Self::Pattern(_) | Self::Function(_) => {
                let mut at = text.len().saturating_sub(longest);
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                // What stands before it may matter to an expression, whichever script it is in.
                last(text.get(..at).unwrap_or_default(), char::is_whitespace)
            }
            _ => word(text),
        }
    }
}
