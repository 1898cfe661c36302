//! The patterns that indicate a lack of progress.

use deepagents_core::event::LoopPattern;
use deepagents_core::message::Messages;

use super::edits::{self, UndoneEdits};
use super::policy::{LoopPolicy, LoopThreshold};
use super::turns::{Turn, latest_first};

/// Number of turns of the longest alternation to look for.
const MAX_PERIOD: usize = 3;
/// Number of turns to check for changes to files.
const EDIT_WINDOW: usize = 60;

/// A pattern that has reached its first threshold.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) pattern: LoopPattern,
    pub(super) times: u32,
    pub(super) threshold: LoopThreshold,
    /// Number of repetitions that the last turn has added.
    step: u32,
    /// Whether the last turn completes a round.
    complete: bool,
    /// The tools that are called.
    pub(super) tools: Vec<String>,
}

impl Finding {
    fn at(pattern: LoopPattern, times: u32, threshold: LoopThreshold, tools: Vec<String>) -> Option<Self> {
        (times >= threshold.note()).then_some(Self { pattern, times, threshold, step: 1, complete: true, tools })
    }

    /// Returns `true` if something must be done now.
    fn is_due(&self) -> bool {
        let before = self.times.saturating_sub(self.step);
        self.complete && (before < self.threshold.note() || self.times >= self.threshold.stop())
    }
}

/// Looks for a pattern at the end of a conversation.
pub(super) fn find(messages: &Messages, policy: &LoopPolicy) -> Option<Finding> {
    let last = latest_first(messages).next()?;
    // Whether a turn brought anything new is known only after its results.
    if last.calls.iter().any(|call| call.result.is_none()) {
        return None;
    }
    // Report only one of several patterns in the same turns.
    let is_ignored = last.calls.iter().any(|call| policy.ignored_tools.contains(call.name));
    let repeating =
        if is_ignored { None } else { repeated(messages, policy, &last).or_else(|| undone(messages, policy)) };
    let found = repeating.or_else(|| failing(messages, policy, &last));
    found.filter(Finding::is_due)
}

/// Finds repetitions of the same turn or the same few turns.
fn repeated(messages: &Messages, policy: &LoopPolicy, last: &Turn<'_>) -> Option<Finding> {
    let recent: Vec<Turn<'_>> = latest_first(messages).take(MAX_PERIOD + 1).collect();
    let period = (1..=MAX_PERIOD).find(|period| recent.get(*period).is_some_and(|earlier| earlier.is_same(last)))?;
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
    // Report only complete rounds, so that each round is considered once.
    Some(Finding { complete: turns.is_multiple_of(period), ..found })
}

/// Finds changes to a file that undo each other.
fn undone(messages: &Messages, policy: &LoopPolicy) -> Option<Finding> {
    let threshold = policy.undone_edits?;
    let UndoneEdits { times, last_turn_edits: step, tools } =
        edits::undone(latest_first(messages).take(EDIT_WINDOW), threshold.stop())?;
    Some(Finding { step, ..Finding::at(LoopPattern::UndoneEdits, times, threshold, tools)? })
}

/// Finds turns in which every call failed.
fn failing(messages: &Messages, policy: &LoopPolicy, last: &Turn<'_>) -> Option<Finding> {
    let threshold = policy.errors?;
    if !last.failed() {
        return None;
    }
    let most = usize::try_from(threshold.stop()).unwrap_or(usize::MAX);
    let times = latest_first(messages).take(most).take_while(Turn::failed).count();
    Finding::at(LoopPattern::Errors, u32::try_from(times).unwrap_or(u32::MAX), threshold, last.tools())
}
