//! Redaction rules and strategies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::detector::{self, Detector};
use super::span::{Found, Span, pass};
use crate::blocked::RedactionBlocked;

/// Number of bytes of a hash that its mark shows.
const HASH_BYTES: usize = 4;

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

/// A detector with its name and strategy.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) detector: Detector,
    pub(super) strategy: Strategy,
}

impl Rule {
    /// Returns a fingerprint of the detector and strategy.
    fn fingerprint(&self) -> String {
        let sought = match &self.detector {
            Detector::Pattern(expression) => Cow::Borrowed(expression.as_str()),
            Detector::Function(function) => Cow::Owned(function.id()),
            other => Cow::Borrowed(other.name()),
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

    /// Returns the replacement that shows nothing of a value.
    pub(super) fn mark(&self) -> String {
        format!("[REDACTED_{}]", detector::upper(&self.name))
    }

    pub(super) fn replacement(&self, value: &str) -> String {
        match &self.strategy {
            Strategy::Redact | Strategy::Block => self.mark(),
            Strategy::Mask => detector::mask(&self.detector, value),
            Strategy::Hash(key) => {
                let digest = Hmac::<Sha256>::new_from_slice(&key.0).map(|mut mac| {
                    mac.update(value.as_bytes());
                    mac.finalize().into_bytes()
                });
                let hex: String = digest.iter().flatten().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
                format!("{}{hex}>", self.hash_start())
            }
        }
    }

    fn hash_start(&self) -> String {
        format!("<{}_hash:", self.name)
    }

    /// Returns the ranges of the marks and hashes of this rule in a text.
    fn marks_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut marks: Vec<_> = text.match_indices(&self.mark()).map(|(at, mark)| at..at + mark.len()).collect();
        if matches!(self.strategy, Strategy::Hash(_)) {
            let is_hash =
                |rest: &str| rest.strip_suffix('>').is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
            let start = self.hash_start();
            let starts = text.match_indices(&start).map(|(at, start)| (at, at + start.len()));
            let whole = starts.map(|(at, hex)| (at, hex, hex + 2 * HASH_BYTES + 1));
            let hashes = whole.filter(|&(_, hex, end)| text.get(hex..end).is_some_and(is_hash));
            marks.extend(hashes.map(|(at, _, end)| at..end));
        }
        marks
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// The maximum length in bytes of the matches of an expression or a function.
    pub(super) max_match_bytes: usize,
}

impl Rules {
    /// Returns a fingerprint that differs for different rules.
    pub(super) fn fingerprint(&self) -> String {
        self.rules.iter().map(Rule::fingerprint).collect::<Vec<_>>().join(" ")
    }

    /// Returns the same rules, with matches redacted that would be blocked.
    pub(super) fn without_blocking(&self) -> Self {
        let mut rules = self.clone();
        for rule in rules.rules.iter_mut().filter(|rule| matches!(rule.strategy, Strategy::Block)) {
            rule.strategy = Strategy::Redact;
        }
        rules
    }

    /// Returns the matches of a rule. Those of the application's detectors within a mark are left out: text that is
    /// checked again would change each time.
    fn matches(&self, rule: &Rule, text: &str) -> Vec<Range<usize>> {
        let mut found = rule.detector.find(text);
        if found.is_empty() || !rule.detector.is_custom() {
            return found;
        }
        let mut marks: Vec<Range<usize>> = self.rules.iter().flat_map(|rule| rule.marks_in(text)).collect();
        marks.sort_by_key(|mark| mark.start);
        let before = |at: usize| marks.partition_point(|mark| mark.start <= at).checked_sub(1);
        found.retain(|at| before(at.start).and_then(|index| marks.get(index)).is_none_or(|mark| at.end > mark.end));
        found
    }

    /// Returns the parts to hide, in order and without overlaps. Overlapping matches are merged, and the rule of the
    /// first one comes first, or of the longer if two start together.
    fn spans(&self, text: &str) -> Vec<Span<'_>> {
        let mut matches: Vec<(Range<usize>, &Rule)> =
            self.rules.iter().flat_map(|rule| self.matches(rule, text).into_iter().map(move |at| (at, rule))).collect();
        matches.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        let mut apart: Vec<Span<'_>> = Vec::new();
        for (at, rule) in matches {
            match apart.last_mut() {
                Some(last) if at.start < last.at.end => last.merge(&at, rule),
                _ => apart.push(Span::of(at, rule)),
            }
        }
        apart
    }

    /// Returns the whole of a value as the part to hide, if a rule finds that its name indicates a secret.
    fn named_span(&self, name: &str, value: &str) -> Option<Span<'_>> {
        let whole = 0..value.len();
        let mut named = self.rules.iter().filter(|rule| rule.detector.finds_under(name, value));
        let mut span = Span::of(whole.clone(), named.next()?);
        let within = self.spans(value).into_iter().flat_map(|span| span.rules);
        named.chain(within).for_each(|rule| span.merge(&whole, rule));
        Some(span)
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
        for span in spans {
            out.push_str(text.get(end..span.at.start).unwrap_or_default());
            out.push_str(&span.hide(text.get(span.at.clone()).unwrap_or_default(), found, &mut blocked));
            end = span.at.end;
        }
        out.push_str(text.get(end..).unwrap_or_default());
        pass(blocked).map(|()| Some(out))
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
        let redacted = match name.and_then(|name| self.named_span(name, &written)) {
            Some(span) => {
                let mut blocked = Found::new();
                let hidden = span.hide(&written, found, &mut blocked);
                pass(blocked).map(|()| Some(hidden))?
            }
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
            let across = spans.iter().map(|span| &span.at).find(|at| at.start < cut && cut < at.end).map(|at| at.start);
            let next =
                across.map_or(cut, |start| detector::word(text.get(..start).unwrap_or_default())).min(open(false, cut));
            if next >= cut {
                return cut;
            }
            cut = next;
        }
    }
}
