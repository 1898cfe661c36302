//! Redaction rules and strategies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::detector::{self, Detector};

/// What happens to a match.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Replaced by `[REDACTED_EMAIL]`.
    #[default]
    Redact,
    /// Hidden except for a part that helps to recognize it, such as the last four digits of a card.
    Mask,
    /// Replaced by `<email_hash:1f3a…>`, the same for the same value and key.
    Hash(HashKey),
    /// The run fails with [`RedactionBlocked`] if a person or the model wrote it; a tool result is withheld.
    Block,
}

/// The secret key of hashes. Without it, nobody can test which value a hash stands for.
#[derive(Clone)]
pub struct HashKey(Vec<u8>);

impl HashKey {
    /// Creates a key. Use as many random bytes as the hash has: 32.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// An error: a text contains data that must not be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this contains something that must not be passed on: {}", listed(.found))]
#[non_exhaustive]
pub struct RedactionBlocked {
    /// Number of matches by kind, without the matches themselves.
    pub found: BTreeMap<String, usize>,
}

/// Formats kinds with their numbers.
pub(super) fn listed(found: &BTreeMap<String, usize>) -> String {
    found.iter().map(|(kind, count)| format!("{kind} ({count})")).collect::<Vec<_>>().join(", ")
}

/// A detector with its name and strategy.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) detector: Detector,
    pub(super) strategy: Strategy,
}

impl Rule {
    /// Returns the replacement for a whole value.
    ///
    /// # Errors
    /// Returns an error if the rule blocks it.
    fn hide(&self, value: &str, found: &mut Found) -> Result<String, RedactionBlocked> {
        *found.entry(self.name.clone()).or_default() += 1;
        match self.strategy {
            Strategy::Block => Err(RedactionBlocked { found: [(self.name.clone(), 1)].into() }),
            _ => Ok(self.replacement(value)),
        }
    }

    /// Returns a fingerprint of the detector and strategy.
    fn fingerprint(&self) -> String {
        let sought = match &self.detector {
            Detector::Pattern(expression) => expression.as_str(),
            other => other.name(),
        };
        let strategy = match &self.strategy {
            Strategy::Redact => "redact".to_owned(),
            Strategy::Mask => "mask".to_owned(),
            Strategy::Block => "block".to_owned(),
            // The key is a secret; the hash of a fixed word identifies it.
            Strategy::Hash(_) => self.replacement("fingerprint"),
        };
        format!("{:?}", (&self.name, sought, strategy))
    }

    fn replacement(&self, value: &str) -> String {
        match &self.strategy {
            Strategy::Redact | Strategy::Block => format!("[REDACTED_{}]", detector::upper(&self.name)),
            Strategy::Mask => detector::mask(&self.detector, value),
            Strategy::Hash(key) => {
                let digest = Hmac::<Sha256>::new_from_slice(&key.0).map(|mut mac| {
                    mac.update(value.as_bytes());
                    mac.finalize().into_bytes()
                });
                let hex: String = digest.iter().flatten().take(8).map(|byte| format!("{byte:02x}")).collect();
                format!("<{}_hash:{hex}>", self.name)
            }
        }
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// The maximum length in bytes of the matches of an expression or a function.
    pub(super) max_match_bytes: usize,
}

/// Number of matches by kind.
pub(super) type Found = BTreeMap<String, usize>;

impl Rules {
    /// Returns a fingerprint that differs for different rules.
    pub(super) fn fingerprint(&self) -> String {
        self.rules.iter().map(Rule::fingerprint).collect::<Vec<_>>().join(" ")
    }

    /// Returns the matches with their rules, in order and without overlaps. Overlapping matches are merged under the
    /// rule of the first one, or of the longer if two start together.
    fn spans(&self, text: &str) -> Vec<(Range<usize>, &Rule)> {
        let mut spans: Vec<(Range<usize>, &Rule)> =
            self.rules.iter().flat_map(|rule| rule.detector.find(text).into_iter().map(move |at| (at, rule))).collect();
        spans.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        let mut apart: Vec<(Range<usize>, &Rule)> = Vec::new();
        for (at, rule) in spans {
            match apart.last_mut() {
                Some((last, _)) if at.start < last.end => last.end = last.end.max(at.end),
                _ => apart.push((at, rule)),
            }
        }
        apart
    }

    /// Returns the redacted text, or `None` if there are no matches.
    ///
    /// # Errors
    /// Returns an error if a rule blocks a match.
    pub(super) fn redact(&self, text: &str, found: &mut Found) -> Result<Option<String>, RedactionBlocked> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Ok(None);
        }
        let mut blocked = Found::new();
        let (mut out, mut end) = (String::with_capacity(text.len()), 0);
        for (at, rule) in spans {
            if matches!(rule.strategy, Strategy::Block) {
                *blocked.entry(rule.name.clone()).or_default() += 1;
            }
            *found.entry(rule.name.clone()).or_default() += 1;
            out.push_str(text.get(end..at.start).unwrap_or_default());
            out.push_str(&rule.replacement(text.get(at.clone()).unwrap_or_default()));
            end = at.end;
        }
        out.push_str(text.get(end..).unwrap_or_default());
        if blocked.is_empty() { Ok(Some(out)) } else { Err(RedactionBlocked { found: blocked }) }
    }

    /// Redacts the strings and the keys of a value, at any depth, and returns whether anything changed.
    ///
    /// # Errors
    /// Returns an error if a rule blocks a match.
    pub(super) fn redact_value(&self, value: &mut Value, found: &mut Found) -> Result<bool, RedactionBlocked> {
        self.redact_under(None, value, found)
    }

    /// Redacts a value under a key, which may indicate a secret.
    fn redact_under(&self, name: Option<&str>, value: &mut Value, found: &mut Found) -> Result<bool, RedactionBlocked> {
        let written = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            // A card number may be written as a number.
            Value::Number(number) => Cow::Owned(number.to_string()),
            Value::Array(items) => {
                return items
                    .iter_mut()
                    .try_fold(false, |changed, item| Ok(self.redact_under(name, item, found)? || changed));
            }
            Value::Object(fields) => return self.redact_fields(fields, found),
            Value::Null | Value::Bool(_) => return Ok(false),
        };
        let named = name.and_then(|name| self.rules.iter().find(|rule| rule.detector.finds_under(name, &written)));
        let redacted = match named {
            Some(rule) => Some(rule.hide(&written, found)?),
            None => self.redact(&written, found)?,
        };
        let changed = redacted.is_some();
        if let Some(redacted) = redacted {
            *value = Value::String(redacted);
        }
        Ok(changed)
    }

    fn redact_fields(&self, fields: &mut Map<String, Value>, found: &mut Found) -> Result<bool, RedactionBlocked> {
        let mut changed = false;
        for (name, field) in fields.iter_mut() {
            changed |= self.redact_under(Some(name), field, found)?;
        }
        if !fields.keys().any(|name| !self.spans(name).is_empty()) {
            return Ok(changed);
        }
        let mut renamed = Map::new();
        // The last number used for each mark: very many keys may have the same mark.
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (name, field) in std::mem::take(fields) {
            let hidden = self.redact(&name, found)?.unwrap_or(name);
            let mut free = hidden.clone();
            if renamed.contains_key(&free) {
                let number = numbers.entry(hidden.clone()).or_insert(1);
                while renamed.contains_key(&free) {
                    *number += 1;
                    free = format!("{hidden} ({number})");
                }
            }
            renamed.insert(free, field);
        }
        *fields = renamed;
        Ok(true)
    }

    /// Returns the position from which a growing text must not be shown yet: no match, or possible match, spans it.
    pub(super) fn open_from(&self, text: &str) -> usize {
        let open = |custom: bool, until: usize| {
            let text = text.get(..until).unwrap_or_default();
            let rules = self.rules.iter().filter(|rule| rule.detector.is_custom() == custom);
            rules.map(|rule| rule.detector.open_from(text, self.max_match_bytes)).min().unwrap_or(until)
        };
        let spans = self.spans(text);
        let mut cut = open(true, text.len());
        loop {
            let across = spans.iter().find(|(at, _)| at.start < cut && cut < at.end).map(|(at, _)| at.start);
            let next =
                across.map_or(cut, |start| detector::word(text.get(..start).unwrap_or_default())).min(open(false, cut));
            if next >= cut {
                return cut;
            }
            cut = next;
        }
    }
}
