//! Blocks of the system prompt.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CacheTtl, ModelRequest};
use crate::message::{Author, Block, Media, Message, Messages, UserMessage};

/// A part of the system prompt: text, or media such as an image.
///
/// Most providers accept only text in system prompts. Unless a model's [profile](super::ModelProfile::system_media)
/// says otherwise, the media of a system prompt are therefore sent in a message before the conversation.
///
/// ```
/// use deepagents_core::model::{CacheTtl, SystemBlock};
/// let rules = SystemBlock::new("You draw floor plans.").cached(CacheTtl::OneHour);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemBlock {
    /// The text; empty blocks are not sent.
    pub text: Arc<str>,
    /// Media in place of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Arc<Media>>,
    /// A cache breakpoint after this block.
    pub cache: Option<CacheTtl>,
}

impl SystemBlock {
    /// Creates a text block without a breakpoint.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a media block without a breakpoint.
    pub fn media(media: Media) -> Self {
        Self { media: Some(Arc::new(media)), ..Self::default() }
    }

    /// Adds a cache breakpoint after the block.
    #[must_use]
    pub fn cached(mut self, ttl: CacheTtl) -> Self {
        self.cache = Some(ttl);
        self
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.media.is_none() && self.text.trim().is_empty()
    }
}

impl From<&str> for SystemBlock {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for SystemBlock {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Media> for SystemBlock {
    fn from(media: Media) -> Self {
        Self::media(media)
    }
}

/// Introduces the media of a system prompt when they are sent in a message.
const INTRODUCTION: &str = "[These belong to the system prompt.]";

impl ModelRequest {
    /// Converts the request for a model whose system prompt is text only: the media of the system prompt move to a
    /// message before the conversation, together with their cache marks.
    pub(crate) fn with_media_in_messages(mut self) -> Self {
        let is_media = |block: &SystemBlock| block.media.is_some();
        if !self.system.iter().any(is_media) {
            return self;
        }
        let (media, system): (Vec<_>, Vec<_>) = std::mem::take(&mut self.system).into_iter().partition(is_media);
        self.system = system;
        let mark = media.iter().filter_map(|block| block.cache).min();
        let shown = media.iter().filter_map(|block| block.media.as_deref()).cloned().map(Block::Media);
        let content = std::iter::once(Block::text(INTRODUCTION)).chain(shown).collect();
        let first = Message::User(UserMessage { content, author: Author::Harness, ..UserMessage::default() });
        let rest = self.messages.iter().cloned();
        self.messages = std::iter::once(Arc::new(first)).chain(rest).collect::<Messages>();
        self.cache.messages.iter_mut().for_each(|(at, _)| *at += 1);
        self.cache.messages.splice(0..0, mark.map(|ttl| (0, ttl)));
        self
    }
}
