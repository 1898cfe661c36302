//! Replaces the beginning of a conversation with a summary.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Message, Messages};
use deepagents_core::model::ToolChoice;

use super::archive;
use super::count;
use super::cut::cut;
use super::event::{Compaction, CompactionEvent, CutPoint};
use super::options::CacheReuse;
use super::summary::{self, Summariser};
use super::threshold::Size;
use super::view::Lens;
use super::work::{Work, unstored};
use super::{notice, render};

/// The beginning of a conversation, to be replaced with a summary.
struct Eviction {
    /// Index of its first message; those before it are in the previous summary.
    base: usize,
    /// Index of the first message that is kept.
    at: usize,
    messages: Vec<Arc<Message>>,
    tokens: u64,
    /// Index of the last message of a person, if it is evicted: it is kept after the summary.
    pinned: Option<usize>,
    /// Tokens that the summary replaces, including the previous summary.
    replaced: u64,
    /// Whether the summary must be shorter than that.
    must_gain: bool,
}

/// Messages as the request shows them, which may be shorter than those of the thread.
struct Shown<'a>(HashMap<&'a str, &'a Arc<Message>>);

impl<'a> Shown<'a> {
    fn new(messages: &'a Messages) -> Self {
        Self(messages.iter().map(|message| (message.id(), message)).collect())
    }

    fn version<'m>(&'m self, message: &'m Arc<Message>) -> &'m Arc<Message> {
        self.0.get(message.id()).copied().unwrap_or(message)
    }
}

impl Work<'_> {
    /// Replaces the beginning of the conversation with a summary after storing it, and returns the number of evicted
    /// messages. Keeps at most `keep` and, if given, at most `room` tokens. `forced` compacts even if little is gained.
    pub(super) async fn compact(
        &mut self,
        keep: Size,
        room: Option<u64>,
        forced: bool,
    ) -> Result<Option<usize>, String> {
        let Some(eviction) = self.eviction(keep, room, forced) else { return Ok(None) };
        if let Some(before) = &self.options.given.before {
            before(self.cx, self.manual).await?;
        }
        let stored = self.archive.media(&eviction.messages).await.map_err(unstored)?;
        let head = format!("\n## Summarized at {}\n\n", self.cx.clock().now());
        let body: String = eviction.texts(&stored, |message| message).map(|text| text + "\n").collect();
        let name = archive::history_name(self.cx);
        let part = self.state.last.as_ref().map_or(1, |last| last.part);
        let (file, part) = self.archive.append(&name, part, &head, &body).await.map_err(unstored)?;

        let shown = Shown::new(&self.request.messages);
        let summariser = Summariser {
            cx: self.cx,
            options: self.options,
            main: &self.model,
            earlier: self.state.last.as_ref().filter(|_| eviction.base > 0).map(|last| &last.summary),
            texts: eviction.texts(&stored, |message| shown.version(message)).collect(),
            correction: self.count.correction,
        };
        let inline = self.reuses_prefix(eviction.tokens).then(|| summary::inline(&self.request, self.options));
        let over_cached_prefix = inline.is_some();
        let summary = summariser.run(inline).await.map_err(|error| format!("no summary could be made: {error}"))?;

        let thread = self.cx.messages();
        let pinned = eviction.pinned.and_then(|index| thread.get(index)).map(|message| shown.version(message).clone());
        let mut message = Message::harness(notice::summary(&summary, eviction.at, &file, self.cx));
        message.set_id(format!("summary_{}", self.state.compactions + 1));
        let instead = count::of_message(&message) + pinned.as_ref().map_or(0, |m| count::of_message(m));
        if eviction.must_gain && self.count.corrected(instead) >= self.counts.tally.share(eviction.replaced) {
            self.counts.unhelpful_size = Some(eviction.replaced);
            return Err("the summary is no shorter than what it was to replace".to_owned());
        }
        self.counts.unhelpful_size = None;
        let tokens_before = self.count.tokens;
        self.apply(CompactionEvent::Compacted(Box::new(Compaction {
            cut: CutPoint::at(thread, eviction.at),
            summary,
            message: Arc::new(message),
            pinned,
            file: file.clone(),
            part,
            made_at: thread.len(),
        })));
        self.cx.report(MiddlewareEvent::ConversationCompacted {
            evicted: eviction.messages.len(),
            kept: thread.len() - eviction.at,
            file: file.to_string(),
            tokens_before,
            tokens_evicted: eviction.tokens,
            over_cached_prefix,
        });
        Ok(Some(eviction.messages.len()))
    }

    /// Chooses what to evict; `None` if that would not help.
    fn eviction(&self, keep: Size, room: Option<u64>, forced: bool) -> Option<Eviction> {
        let thread = self.cx.messages();
        let lens = Lens::new(&self.state, thread, self.options.args.as_ref());
        let (base, head): (usize, u64) = (lens.base, lens.head().map(|m| count::of_message(m)).sum());
        let shown = Shown::new(&self.request.messages);
        let estimate = |index: usize| thread.get(index).map_or(0, |m| count::of_message(shown.version(m)));
        let tokens = |index: usize| self.count.corrected(estimate(index));
        let wished = cut(thread, base, keep, self.window, tokens);
        let needed = room.and_then(|room| cut(thread, base, Size::Tokens(room), None, tokens));
        let at = wished.max(needed)?;
        let evicted: u64 = (base..at).map(tokens).sum();
        let pinned = (0..thread.len()).rev().find(|&index| is_human(thread, index)).filter(|index| *index < at);
        // The message that is kept is not a gain.
        let gain = evicted.saturating_sub(pinned.filter(|index| *index >= base).map_or(0, tokens));
        let little = self.options.trigger.counts_tokens() && self.counts.tally.share(gain) < self.count.tokens / 20;
        if gain == 0 || (little && !forced) {
            return None;
        }
        // An explicit request, or a limit on messages, is met whatever the size of the summary.
        let must_gain = room.is_some() || (!forced && self.options.trigger.counts_tokens());
        let replaced = self.count.corrected(head) + evicted;
        if must_gain && self.counts.unhelpful_size.is_some_and(|tried| replaced < tried.saturating_mul(2)) {
            return None;
        }
        let messages = thread.tail(base).take(at - base).cloned().collect();
        Some(Eviction { base, at, messages, tokens: evicted, pinned, replaced, must_gain })
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
}

impl Eviction {
    /// Returns the messages as text, in the version that `version` returns.
    fn texts<'m>(
        &'m self,
        stored: &'m render::Stored,
        version: impl Fn(&'m Arc<Message>) -> &'m Arc<Message> + 'm,
    ) -> impl Iterator<Item = String> + 'm {
        let text = move |(place, message)| render::message(version(message), self.base + place + 1, place, stored);
        self.messages.iter().enumerate().map(text)
    }
}

fn is_human(thread: &Messages, index: usize) -> bool {
    thread.get(index).and_then(|m| m.as_user()).is_some_and(|user| user.author == Author::Human)
}
