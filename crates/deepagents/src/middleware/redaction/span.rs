//! Parts of a text to hide.

use std::collections::BTreeMap;
use std::ops::Range;

use super::rules::{Rule, Strategy};
use crate::blocked::RedactionBlocked;

/// Number of matches by kind.
pub(super) type Found = BTreeMap<String, usize>;

/// A part of a text to hide.
pub(super) struct Span<'a> {
    pub(super) at: Range<usize>,
    /// The rules that found something in it; the first one decides how it is hidden.
    pub(super) rules: Vec<&'a Rule>,
    /// Whether it is more than one match of the first rule.
    is_merged: bool,
}

impl<'a> Span<'a> {
    pub(super) fn of(at: Range<usize>, rule: &'a Rule) -> Self {
        Self { at, rules: vec![rule], is_merged: false }
    }

    /// Adds a match that overlaps it.
    pub(super) fn merge(&mut self, at: &Range<usize>, rule: &'a Rule) {
        let is_known = self.rules.iter().any(|known| std::ptr::eq(*known, rule));
        self.is_merged |= !is_known || at.end > self.at.end;
        self.at.end = self.at.end.max(at.end);
        if !is_known {
            self.rules.push(rule);
        }
    }

    /// Returns the replacement for the value, and counts what was found in it and what blocks it.
    pub(super) fn hide(&self, value: &str, found: &mut Found, blocked: &mut Found) -> String {
        for rule in &self.rules {
            *found.entry(rule.name.clone()).or_default() += 1;
            if matches!(rule.strategy, Strategy::Block) {
                *blocked.entry(rule.name.clone()).or_default() += 1;
            }
        }
        // What the mask of one match leaves readable may be the secret of another.
        let is_unsafe = self.is_merged && self.rules.iter().any(|rule| matches!(rule.strategy, Strategy::Mask));
        let replacement = |rule: &&Rule| if is_unsafe { rule.mark() } else { rule.replacement(value) };
        self.rules.first().map(replacement).unwrap_or_default()
    }
}

/// Returns an error if something is blocked.
pub(super) fn pass(blocked: Found) -> Result<(), RedactionBlocked> {
    if blocked.is_empty() { Ok(()) } else { Err(RedactionBlocked { found: blocked }) }
}
