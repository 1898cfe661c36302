//! Makes a request fit, with the least costly measures first.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Messages;
use deepagents_core::model::{ChatModel, ModelRequest};
use deepagents_core::run::Context;
use deepagents_core::state::Update;

use super::RunCounts;
use super::archive::Archive;
use super::count::{self, Count};
use super::cut::suffix;
use super::event::{CompactionEvent, CompactionState, Compactions, CutPoint};
use super::options::Settled;
use super::threshold::{Length, Size};
use super::view::{Lens, has_long_args};

/// Number of further messages before another attempt after a failed summary, unless the window is full.
const PAUSE: usize = 10;
/// The assumed maximum ratio of a request's real size to its estimate.
const MISJUDGED: u64 = 2;

/// A request, and the work done to make it fit.
pub(super) struct Work<'a> {
    pub(super) cx: &'a Context,
    pub(super) options: &'a Settled,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) archive: Archive<'a>,
    pub(super) request: ModelRequest,
    pub(super) state: CompactionState,
    pub(super) events: Vec<CompactionEvent>,
    pub(super) counts: RunCounts,
    pub(super) count: Count,
    pub(super) window: Option<u64>,
    /// The last problem, for the error if nothing else helps.
    pub(super) problem: Option<String>,
    /// Whether the model requested the compaction.
    pub(super) manual: bool,
}

impl Work<'_> {
    pub(super) fn measure(&mut self) {
        self.count =
            self.counts.tally.count(&self.request, self.cx.messages(), self.state.changed_at, self.model.name());
    }

    /// Asks the provider to count if the estimate is close enough to a limit to be on the wrong side of it.
    pub(super) async fn count_exactly(&mut self) {
        let most = self.count.tokens.saturating_mul(MISJUDGED);
        let matters = self.budget().is_some_and(|budget| most > budget)
            || self.options.trigger.met(Length { tokens: most, ..self.length() });
        if !self.options.given.provider_counts || self.count.reported.is_some() || !matters {
            return;
        }
        // If the provider does not count, use the estimate, as without asking.
        if let Ok(Some(tokens)) = self.model.count_tokens(self.request.clone()).await {
            self.count = self.counts.tally.correct(tokens);
        }
    }

    pub(super) fn length(&self) -> Length {
        let shown = &self.request.messages;
        let pinned = self.state.last.as_ref().and_then(|last| last.pinned.as_ref());
        let pinned = pinned.filter(|words| shown.by_id(words.id()).is_some()).map_or(0, |_| 1);
        Length { messages: shown.len() - pinned, tokens: self.count.tokens, window: self.window }
    }

    /// Returns the number of tokens that the conversation may have while leaving room for the answer.
    pub(super) fn budget(&self) -> Option<u64> {
        let window = self.window.or_else(|| self.state.refused_by(self.model.name()))?;
        let settings = self.request.settings.max_tokens;
        // Without a limit of its own, reserve what answers usually need rather than the maximum.
        let answer = settings.unwrap_or_else(|| self.model.profile().max_output.unwrap_or(0).min(window / 6));
        Some((window / 20 * 19).saturating_sub(answer))
    }

    pub(super) fn is_over(&self) -> bool {
        self.budget().is_some_and(|budget| self.count.tokens > budget)
    }

    /// Returns the hard limit in tokens: a larger request cannot be sent, however uncertain the estimate.
    pub(super) fn limit(&self) -> Option<u64> {
        Some(self.window?.saturating_sub(self.request.settings.max_tokens.unwrap_or(0)))
    }

    /// Returns `true` if a recently failed summary should not be retried yet.
    pub(super) fn is_pausing(&self) -> bool {
        self.state.failed_at.is_some_and(|at| self.cx.messages().len() < at + PAUSE)
    }

    /// Takes the state changes of the work.
    pub(super) fn update(&mut self) -> Update {
        let events = std::mem::take(&mut self.events);
        let files = std::mem::take(&mut self.archive.update);
        if events.is_empty() { files } else { files.with::<Compactions>(events) }
    }

    /// Keeps the changes so far, however the model call ends: they are already paid for.
    pub(super) fn keep(&mut self) {
        let update = self.update();
        if !update.is_empty() {
            self.cx.queue_update(update);
        }
    }

    /// Converts the request, which other middlewares built from an earlier state of the view, to the current one.
    pub(super) fn show_changes_since(&mut self, before: &CompactionState) {
        if self.state != *before {
            self.reproject(before);
        }
    }

    /// Applies an event and updates the request.
    pub(super) fn apply(&mut self, event: CompactionEvent) {
        let before = self.state.clone();
        self.note(event);
        self.reproject(&before);
        self.measure();
    }

    /// Records a rejection or failure; the view does not change.
    pub(super) fn note(&mut self, event: CompactionEvent) {
        self.state.apply(event.clone());
        self.events.push(event);
    }

    /// Converts the request from one state of the view to the current one. Preserves changes that other middlewares
    /// made to single messages.
    fn reproject(&mut self, before: &CompactionState) {
        let thread = self.cx.messages();
        let old = Lens::new(before, thread, self.options.args.as_ref());
        let new = Lens::new(&self.state, thread, self.options.args.as_ref());
        let at: HashMap<&str, usize> =
            (old.base..).zip(thread.tail(old.base)).map(|(index, m)| (m.id(), index)).collect();
        let gone: Vec<&str> = old.head().map(|m| m.id()).collect();
        let mut messages: Messages = new.head().cloned().collect();
        let mut moved: Vec<Option<usize>> = Vec::new();
        for message in self.request.messages.iter() {
            let index = at.get(message.id()).copied();
            let leaves = gone.contains(&message.id()) || index.is_some_and(|index| index < new.base);
            moved.push((!leaves).then_some(messages.len()));
            if !leaves {
                // A result that was shown truncated still is, or another middleware has replaced it.
                let is_shown = before.shortens(message.id()) && before.shows_as(&self.state, message.id());
                let index = index.filter(|_| !is_shown);
                // A truncated message shows nothing of what another middleware has changed, and has lost its own parts.
                let whole = index.filter(|_| before.shortens(message.id())).and_then(|index| thread.get(index));
                messages.put(index.map_or_else(|| message.clone(), |index| new.show(whole.unwrap_or(message), index)));
            }
        }
        self.request.messages = messages;
        let place = |index: usize| moved.get(index).copied().flatten();
        self.request.cache.messages.retain_mut(|(at, _)| place(*at).map(|to| *at = to).is_some());
    }

    /// Returns `true` if arguments of shown calls have been truncated; calls that have grown old since are treated
    /// alike.
    pub(super) fn cuts_args(&self) -> bool {
        let lens = Lens::new(&self.state, self.cx.messages(), self.options.args.as_ref());
        lens.truncated_before > lens.base
    }

    /// Truncates long arguments of calls before the part that is to stay whole, or of all calls if `keep` is `None`.
    pub(super) async fn truncate_args(&mut self, keep: Option<Size>) -> bool {
        let Some(args) = &self.options.args else { return false };
        let thread = self.cx.messages();
        let lens = Lens::new(&self.state, thread, Some(args));
        let tokens = |index: usize| self.count.corrected(thread.get(index).map_or(0, |m| count::of_message(m)));
        // The last message is never a call.
        let boundary = match keep {
            None => thread.len().checked_sub(1),
            Some(Size::Messages(kept)) => thread.len().checked_sub(kept),
            Some(size) => size.tokens(self.window).and_then(|budget| suffix(thread, lens.base, budget, tokens)),
        };
        let from = lens.truncated_before.max(lens.base).max(self.counts.cut_upto);
        let Some(boundary) = boundary.filter(|at| *at > from) else { return false };
        let long = |index: &usize| {
            thread.get(*index).and_then(|m| m.as_assistant()).is_some_and(|answer| has_long_args(answer, args))
        };
        let turns = (from..boundary).filter(long).count();
        self.counts.cut_upto = boundary;
        if turns == 0 {
            return false;
        }
        let before = self.count.tokens;
        self.apply(CompactionEvent::ArgsTruncated { before: CutPoint::at(thread, boundary), made_at: thread.len() });
        let (tokens_before, tokens_after) = (before, self.count.tokens);
        self.cx.report(MiddlewareEvent::ArgumentsTruncated { turns, tokens_before, tokens_after });
        true
    }

    /// Returns the number of tokens of messages that fit in a request of `target` tokens.
    pub(super) fn room(&self, target: u64) -> u64 {
        let summary = self.options.given.max_summary_tokens.min(target / 4);
        target.saturating_sub(self.count.fixed + summary).max(1)
    }

    /// Shrinks the request by all means, down to this many tokens if possible, and returns whether it is smaller.
    pub(super) async fn shrink(&mut self, target: u64) -> bool {
        let before = self.count.tokens;
        self.truncate_args(None).await;
        // A failure would recur immediately.
        if self.count.tokens > target && self.problem.is_none() {
            self.try_compact(Some(self.room(target)), true).await;
        }
        if self.count.tokens > target {
            self.clip(target).await;
        }
        self.count.tokens < before
    }
}

pub(super) fn unstored(error: impl std::fmt::Display) -> String {
    format!("what was to be evicted could not be stored: {error}")
}
