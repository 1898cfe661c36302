//! The patterns that are no progress.

use deepagents_core::event::LoopPattern;
use deepagents_core::message::Messages;

use super::edits::{self, Undone};
use super::policy::{LoopPolicy, LoopThreshold};
use super::turns::{Turn, latest_first};

/// Turns of the longest alternation that is looked for.
const LONGEST: usize = 3;
/// Turns that are looked at for changes of files.
const EDIT_WINDOW: usize = 60;

/// A pattern that has come to its first threshold.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) pattern: LoopPattern,
    pub(super) times: u32,
    pub(super) threshold: LoopThreshold,
    /// How many of them the last turn has added.
    step: u32,
    /// Whether the last turn ends a round.
    complete: bool,
    /// The tools that are called.
    pub(super) tools: Vec<String>,
}

impl Finding {
    fn at(pattern: LoopPattern, times: u32, threshold: LoopThreshold, tools: Vec<String>) -> Option<Self> {
        (times >= threshold.note()).then_some(Self { pattern, times, threshold, step: 1, complete: true, tools })
    }

    /// Whether something is to be said now.
    fn is_due(&self) -> bool {
        let before = self.times.saturating_sub(self.step);
        self.complete && (before < self.threshold.note() || self.times >= self.threshold.stop())
    }
}

/// Looks for a pattern at the end of a conversation.
pub(super) fn find(messages: &Messages, policy: &LoopPolicy) -> Option<Finding> {
    let last = latest_first(messages).next()?;
    // Only after its results does a turn say whether it has brought anything.
    if last.calls.iter().any(|call| call.result.is_none()) {
        return None;
    }
    // What is said of one pattern is not said again of another that the same turns make.
    let found = repeated(messages, policy, &last)
        .or_else(|| undone(messages, policy, &last))
        .or_else(|| failing(messages, policy, &last));
    found.filter(Finding::is_due)
}

/// The same turn, or the same few turns, again and again.
fn repeated(messages: &Messages, policy: &LoopPolicy, last: &Turn<'_>) -> Option<Finding> {
    if last.calls.iter().any(|call| policy.ignored_tools.contains(call.name)) {
        return None;
    }
    let recent: Vec<Turn<'_>> = latest_first(messages).take(LONGEST + 1).collect();
    let period = (1..=LONGEST).find(|period| recent.get(*period).is_some_and(|earlier| earlier.is_same(last)))?;
    let (pattern, threshold) = match period {
        1 => (LoopPattern::SameCalls, policy.same_calls?),
        _ => (LoopPattern::Alternation, policy.alternation?),
    };
    let most = period.saturating_mul(usize::try_from(threshold.stop()).unwrap_or(usize::MAX));
    let pairs = latest_first(messages).zip(latest_first(messages).skip(period));
    let same = pairs.take(most).take_while(|(later, earlier)| later.is_same(earlier)).count();
    let turns = same + period;
    let times = u32::try_from(turns / period).unwrap_or(u32::MAX);
    let mut tools: Vec<String> = recent.iter().take(period).rev().flat_map(Turn::tools).collect();
    tools.dedup();
    let found = Finding::at(pattern, times, threshold, tools)?;
    // Something is said when a round is complete, so that each is looked at once.
    Some(Finding { complete: turns.is_multiple_of(period), ..found })
}

/// Changes of a file that take each other back.
fn undone(messages: &Messages, policy: &LoopPolicy, last: &Turn<'_>) -> Option<Finding> {
    let threshold = policy.undone_edits?;
    if last.calls.iter().any(|call| policy.ignored_tools.contains(call.name)) {
        return None;
    }
    let Undone { times, step, tools } = edits::undone(latest_first(messages).take(EDIT_WINDOW), threshold.stop())?;
    Some(Finding { step, ..Finding::at(LoopPattern::UndoneEdits, times, threshold, tools)? })
}

/// Nothing but errors.
fn failing(messages: &Messages, policy: &LoopPolicy, last: &Turn<'_>) -> Option<Finding> {
    let threshold = policy.errors?;
    if !last.failed() {
        return None;
    }
    let most = usize::try_from(threshold.stop()).unwrap_or(usize::MAX);
    let times = latest_first(messages).take(most).take_while(Turn::failed).count();
    Finding::at(LoopPattern::Errors, u32::try_from(times).unwrap_or(u32::MAX), threshold, last.tools())
}
