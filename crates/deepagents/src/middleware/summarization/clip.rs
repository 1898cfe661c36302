//! Truncation of large results.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Block, MessageId, ToolMessage};

use super::event::CompactionEvent;
use super::view::{Lens, is_inline};
use super::work::{Work, unstored};
use super::{count, notice};
use crate::artifacts;

/// Number of characters to show of a truncated result.
const CLIPPED_CHARS: usize = 4_000;

/// What is large in a result.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Its text.
    Text,
    /// Its images and other media.
    Media,
}

/// A part of a result that can be shortened.
struct Large<'a> {
    tokens: u64,
    /// Size of media, whose tokens are estimated roughly.
    bytes: usize,
    part: Part,
    index: usize,
    result: &'a ToolMessage,
}

impl Work<'_> {
    /// Truncates large results and replaces their media, the largest first, until the request has at most this many
    /// tokens. What is left out is stored first.
    pub(super) async fn clip(&mut self, target: u64) -> bool {
        // Borrows the context, not the work.
        let cx = self.cx;
        let thread = cx.messages();
        let chars = self.window.map_or(CLIPPED_CHARS, |window| {
            usize::try_from(window / 2).unwrap_or(CLIPPED_CHARS).clamp(200, CLIPPED_CHARS)
        });
        let base = Lens::new(&self.state, thread, self.options.args.as_ref()).base;
        let results = (base..thread.len()).filter_map(|index| Some((index, thread.get(index)?.as_tool()?)));
        let mut large: Vec<Large<'_>> =
            results.flat_map(|(index, result)| self.large_parts(index, result, chars)).collect();
        large.sort_by_key(|large| Reverse((large.tokens, large.bytes)));
        let mut texts: BTreeMap<MessageId, Arc<str>> = BTreeMap::new();
        let mut media: BTreeMap<MessageId, Vec<Arc<str>>> = BTreeMap::new();
        let mut tokens = self.count.tokens;
        for large in large {
            if tokens <= target {
                break;
            }
            let id = large.result.id.clone();
            let saved = match large.part {
                Part::Text => {
                    let text = thread.get(large.index).map(|message| message.text()).unwrap_or_default();
                    let Some(place) = self.where_whole(large.index, large.result, &text).await else { continue };
                    let short = notice::clipped(&text, chars, &place);
                    let left = count::of_text(&short);
                    texts.insert(id, short.into());
                    large.tokens.saturating_sub(left)
                }
                Part::Media => {
                    let Some(shown) = self.media_texts(large.index, large.result).await else { continue };
                    let left: u64 = shown.iter().map(|text| count::of_text(text)).sum();
                    media.insert(id, shown);
                    large.tokens.saturating_sub(left)
                }
            };
            tokens = tokens.saturating_sub(self.count.corrected(saved));
        }
        let results = texts.keys().chain(media.keys().filter(|id| !texts.contains_key(*id))).count();
        if results == 0 {
            return false;
        }
        let (tokens_before, made_at) = (self.count.tokens, thread.len());
        if !texts.is_empty() {
            self.apply(CompactionEvent::ResultsClipped { shown: texts, made_at });
        }
        if !media.is_empty() {
            self.apply(CompactionEvent::MediaReplaced { shown: media, made_at });
        }
        let tokens_after = self.count.tokens;
        self.cx.report(MiddlewareEvent::ResultsClipped { results, tokens_before, tokens_after });
        true
    }

    /// Returns what is large in a result and not shortened yet.
    fn large_parts<'r>(&self, index: usize, result: &'r ToolMessage, chars: usize) -> Vec<Large<'r>> {
        // Another middleware may have replaced it with less already.
        let Some(shown) = self.request.messages.by_id(&result.id) else { return Vec::new() };
        let mut parts = Vec::new();
        let text = shown.text();
        // The replacement takes some space itself.
        if !self.state.clipped.contains_key(&result.id) && text.chars().count() > chars + 200 {
            parts.push(Large { tokens: count::of_text(&text), bytes: text.len(), part: Part::Text, index, result });
        }
        let inline = shown.content().iter().filter(|block| is_inline(block));
        let weights = inline.map(|block| match block {
            Block::Media(media) => (count::of_media(media), artifacts::inline_data(media).map_or(0, str::len)),
            _ => (0, 0),
        });
        let (tokens, bytes) = weights.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        if !self.state.replaced_media.contains_key(&result.id) && tokens > 0 {
            parts.push(Large { tokens, bytes, part: Part::Media, index, result });
        }
        parts
    }

    /// Returns how the whole text of a result can be read: in the file that it shows, or stored in one.
    async fn where_whole(&mut self, index: usize, result: &ToolMessage, text: &str) -> Option<String> {
        if let Some(path) = notice::file_read(index, result, self.cx) {
            return Some(format!("read {path} again with `offset` and `limit`"));
        }
        match self.archive.result(&result.id, text).await {
            Ok(path) => Some(notice::stored(&path, self.archive.readers(&path, self.cx))),
            Err(error) => {
                self.fail(unstored(error));
                None
            }
        }
    }

    /// Stores the inline media of a result and returns the texts in their place.
    async fn media_texts(&mut self, index: usize, result: &ToolMessage) -> Option<Vec<Arc<str>>> {
        let message = self.cx.messages().get(index)?.clone();
        let file = notice::file_read(index, result, self.cx);
        let stored = match file {
            Some(_) => BTreeMap::new(),
            None => match self.archive.media(&[message]).await {
                Ok(stored) => stored,
                Err(error) => {
                    self.fail(unstored(error));
                    return None;
                }
            },
        };
        let texts = result.content.iter().enumerate().filter(|(_, block)| is_inline(block)).map(|(at, block)| {
            let Block::Media(media) = block else { return Arc::from("") };
            let path = file.clone().or_else(|| stored.get(&(0, at)).map(ToString::to_string));
            notice::replaced_media(media, path.as_deref()).into()
        });
        Some(texts.collect())
    }

    fn fail(&mut self, error: String) {
        self.cx.report(MiddlewareEvent::CompactionFailed { error: error.clone() });
        self.problem = Some(error);
    }
}
