//! Makes a request fit, with the least costly measures first.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Message, Messages};
use deepagents_core::model::{ChatModel, ModelRequest, ToolChoice};
use deepagents_core::run::Context;
use deepagents_core::state::Update;

use super::archive::{self, Archive};
use super::count::{self, Count};
use super::cut::{cut, suffix};
use super::event::{Compaction, CompactionEvent, CompactionState, Compactions, CutPoint};
use super::options::{CacheReuse, Settled};
use super::summary::{self, Summariser};
use super::threshold::{Length, Size};
use super::view::{Lens, has_long_args};
use super::{RunCounts, notice, render};

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
                let index = index.filter(|_| !before.clipped.contains_key(message.id()));
                messages.put(index.map_or_else(|| message.clone(), |index| new.show(message, index)));
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

    /// Replaces the beginning of the conversation with a summary after storing it, and returns the number of evicted
    /// messages. Keeps at most `keep` and, if given, at most `room` tokens. `forced` compacts even if little is gained.
    pub(super) async fn compact(
        &mut self,
        keep: Size,
        room: Option<u64>,
        forced: bool,
    ) -> Result<Option<usize>, String> {
        let thread = self.cx.messages();
        let lens = Lens::new(&self.state, thread, self.options.args.as_ref());
        let (base, head): (usize, u64) = (lens.base, lens.head().map(|m| count::of_message(m)).sum());
        let shown: HashMap<&str, &Arc<Message>> = self.request.messages.iter().map(|m| (m.id(), m)).collect();
        let as_shown = |message: &Arc<Message>| Arc::clone(shown.get(message.id()).copied().unwrap_or(message));
        let estimate = |index: usize| thread.get(index).map_or(0, |m| count::of_message(&as_shown(m)));
        let tokens = |index: usize| self.count.corrected(estimate(index));
        let wished = cut(thread, base, keep, self.window, tokens);
        let needed = room.and_then(|room| cut(thread, base, Size::Tokens(room), None, tokens));
        let Some(at) = wished.max(needed) else { return Ok(None) };
        let evicted: Vec<Arc<Message>> = thread.tail(base).take(at - base).cloned().collect();
        let tokens_evicted: u64 = (base..at).map(tokens).sum();
        let human = (0..thread.len()).rev().find(|&index| is_human(thread, index)).filter(|index| *index < at);
        // The message that is kept is not a gain.
        let gain = tokens_evicted.saturating_sub(human.filter(|index| *index >= base).map_or(0, tokens));
        let little = self.options.trigger.counts_tokens() && self.counts.tally.share(gain) < self.count.tokens / 20;
        if gain == 0 || (little && !forced) {
            return Ok(None);
        }
        // An explicit request, or a limit on messages, is met whatever the size of the summary.
        let for_room = room.is_some() || (!forced && self.options.trigger.counts_tokens());
        let replaced = self.count.corrected(head) + tokens_evicted;
        if for_room && self.counts.unhelpful_size.is_some_and(|tried| replaced < tried.saturating_mul(2)) {
            return Ok(None);
        }
        if let Some(before) = &self.options.given.before {
            before(self.cx, self.manual).await?;
        }

        let stored = self.archive.media(&evicted).await.map_err(unstored)?;
        let numbered = || evicted.iter().enumerate();
        let text = |place, message: &Message| render::message(message, base + place + 1, place, &stored);
        let body: String = numbered().map(|(place, m)| text(place, m) + "\n").collect();
        let head = format!("\n## Summarized at {}\n\n", self.cx.clock().now());
        let name = archive::history_name(self.cx);
        let part = self.state.last.as_ref().map_or(1, |last| last.part);
        let (file, part) = self.archive.append(&name, part, &head, &body).await.map_err(unstored)?;

        let earlier = self.state.last.clone().filter(|_| base > 0);
        let summariser = Summariser {
            cx: self.cx,
            options: self.options,
            main: &self.model,
            earlier: earlier.as_ref().map(|last| &last.summary),
            texts: numbered().map(|(place, m)| text(place, &as_shown(m))).collect(),
            correction: self.count.correction,
        };
        let inline = self.reuses_prefix(tokens_evicted).then(|| summary::inline(&self.request, self.options));
        let over_prefix = inline.is_some();
        let summary = summariser.run(inline).await.map_err(|error| format!("no summary could be made: {error}"))?;

        let pinned = human.and_then(|index| thread.get(index)).map(as_shown);
        let text = notice::summary(&summary, at, &file, self.cx);
        let mut message = Message::harness(text);
        message.set_id(format!("summary_{}", self.state.compactions + 1));
        let instead = count::of_message(&message) + pinned.as_ref().map_or(0, |m| count::of_message(m));
        if for_room && self.count.corrected(instead) >= self.counts.tally.share(replaced) {
            self.counts.unhelpful_size = Some(replaced);
            return Err("the summary is no shorter than what it was to replace".to_owned());
        }
        self.counts.unhelpful_size = None;
        let before = self.count.tokens;
        self.apply(CompactionEvent::Compacted(Box::new(Compaction {
            cut: CutPoint::at(thread, at),
            summary,
            message: Arc::new(message),
            pinned,
            file: file.clone(),
            part,
            made_at: thread.len(),
        })));
        self.cx.report(MiddlewareEvent::ConversationCompacted {
            evicted: evicted.len(),
            kept: thread.len() - at,
            file: file.to_string(),
            tokens_before: before,
            tokens_evicted,
            over_cached_prefix: over_prefix,
        });
        Ok(Some(evicted.len()))
    }

    /// Compacts; if that fails, reports it and continues with everything in place.
    pub(super) async fn try_compact(&mut self, room: Option<u64>, forced: bool) -> bool {
        let is_done = match self.compact(self.options.keep, room, forced).await {
            Ok(done) => done.is_some(),
            Err(error) => {
                self.cx.report(MiddlewareEvent::CompactionFailed { error: error.clone() });
                self.note(CompactionEvent::Failed { at: self.cx.messages().len() });
                self.problem = Some(error);
                false
            }
        };
        // Immediately, because the run may be cancelled during the rest.
        self.keep();
        is_done
    }

    /// Returns `true` if the summary is requested with the cached prefix.
    fn reuses_prefix(&self, evicted: u64) -> bool {
        let request = &self.request;
        let needed = self.count.tokens + self.options.given.max_summary_tokens + 1_000;
        let fits = self.window.is_none_or(|window| needed <= window);
        // A structured answer, or one that must be a call, cannot be a summary.
        let free =
            request.output_schema.is_none() && matches!(request.tool_choice, ToolChoice::Auto | ToolChoice::None);
        if self.options.given.model.is_some() || !fits || !free {
            return false;
        }
        match self.options.given.prefix {
            CacheReuse::Never => false,
            CacheReuse::Always => true,
            CacheReuse::WhereCheaper => self.count.reported.is_some_and(|usage| {
                let cached = usage.cache_read.saturating_add(usage.cache_write);
                // Cache reads cost about a tenth.
                cached > 0 && cached / 10 + self.count.tokens.saturating_sub(cached) < evicted
            }),
        }
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

fn is_human(thread: &Messages, index: usize) -> bool {
    thread.get(index).and_then(|m| m.as_user()).is_some_and(|user| user.author == Author::Human)
}

pub(super) fn unstored(error: impl std::fmt::Display) -> String {
    format!("what was to be evicted could not be stored: {error}")
}
