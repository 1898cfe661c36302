//! Messages grouped into the turns that the API takes, with their cache marks.

use std::ops::Range;
use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde_json::Value;

use crate::extra::Extra;

/// The messages of the request's body, their content in one list: a long conversation has thousands of turns with one
/// part each.
pub(super) struct Turns<'a> {
    parts: Vec<Part<'a>>,
    turns: Vec<(&'static str, Range<usize>)>,
    /// The message that a turn is made of alone.
    alone: Vec<Option<&'a Arc<Message>>>,
}

impl<'a> Turns<'a> {
    /// Role and content of each message.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &[Part<'a>])> {
        self.turns.iter().map(|(role, range)| (*role, self.parts.get(range.clone()).unwrap_or_default()))
    }

    /// Role and content of one message.
    pub(super) fn get(&self, at: usize) -> (&'static str, &[Part<'a>]) {
        let turn = self.turns.get(at);
        turn.map_or(("user", &[]), |(role, range)| (*role, self.parts.get(range.clone()).unwrap_or_default()))
    }

    /// The message behind each turn that is made of it alone, and looks the same in every request.
    pub(super) fn lasting(&self) -> impl Iterator<Item = Option<&'a Arc<Message>>> {
        let lasts = |part: &Part<'_>| part.mark.is_none() && !matches!(part.item, Item::Block(Block::Media(_)));
        self.iter().zip(&self.alone).map(move |((_, parts), message)| message.filter(|_| parts.iter().all(lasts)))
    }
}

/// One content item.
pub(super) struct Part<'a> {
    pub(super) item: Item<'a>,
    pub(super) mark: Option<CacheTtl>,
}

/// What a content item is written from.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// A block, from its canonical view.
    Block(&'a Block),
    /// The provider's own item.
    Verbatim(&'a Value),
    /// The result of a call.
    Result(&'a ToolMessage),
}

impl Item<'_> {
    /// Thinking cannot carry a breakpoint.
    fn takes_mark(&self) -> bool {
        match self {
            Self::Verbatim(item) => {
                !matches!(item.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
            }
            Self::Block(_) | Self::Result(_) => true,
        }
    }
}

/// Groups the messages: results first, then what the user says, as one turn.
pub(super) fn turns<'a>(request: &'a ModelRequest, origin: &Origin) -> Result<Turns<'a>, ModelError> {
    let mut marks: Vec<(usize, CacheTtl)> = request.cache.messages.clone();
    if let Some((index, _)) = marks.iter().find(|(index, _)| *index >= request.messages.len()) {
        return Err(ModelError::invalid(format!(
            "there is a cache mark on message {index} but there are only {} messages",
            request.messages.len()
        )));
    }
    marks.sort_unstable();
    let bare = |item| Part { item, mark: None };
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(request.messages.len());
    let mut turns: Vec<(&'static str, Range<usize>)> = Vec::with_capacity(request.messages.len());
    let mut alone = Vec::with_capacity(request.messages.len());
    for (index, message) in request.messages.iter().enumerate() {
        let from = parts.len();
        let role = match &**message {
            Message::User(user) => {
                check_media(&user.content)?;
                parts.extend(user.content.iter().filter_map(spoken).map(bare));
                "user"
            }
            Message::Tool(result) => {
                check_media(&result.content)?;
                parts.push(bare(Item::Result(result)));
                "user"
            }
            Message::Assistant(said) => {
                parts.extend(replayed(said, origin).map(bare));
                "assistant"
            }
            _ => return Err(ModelError::invalid("a message has a role that the Messages API does not know")),
        };
        let new = parts.get_mut(from..).unwrap_or_default();
        if new.is_empty() {
            continue;
        }
        if let Some((_, ttl)) = marks.iter().rev().find(|(at, _)| *at == index)
            && let Some(part) = new.iter_mut().rfind(|part| part.item.takes_mark())
        {
            part.mark = Some(*ttl);
        }
        match turns.last_mut() {
            Some(("user", range)) if role == "user" => {
                range.end = parts.len();
                alone.pop();
                alone.push(None);
            }
            _ => {
                turns.push((role, from..parts.len()));
                alone.push(Some(message));
            }
        }
    }
    for (_, range) in &turns {
        let turn = parts.get_mut(range.clone()).unwrap_or_default();
        turn.sort_by_key(|part| !matches!(part.item, Item::Result(_)));
    }
    if turns.is_empty() {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    Ok(Turns { parts, turns, alone })
}

/// A block of a user's message, if it can be sent.
fn spoken(block: &Block) -> Option<Item<'_>> {
    match block {
        Block::Text(text) if text.text.trim().is_empty() => None,
        Block::Text(_) | Block::Media(_) => Some(Item::Block(block)),
        Block::Opaque(opaque) => Some(Item::Verbatim(opaque.native.value())),
        _ => None,
    }
}

/// What of an assistant's message goes back: its own items to their origin, the canonical view to anyone else.
fn replayed<'a>(said: &'a AssistantMessage, origin: &Origin) -> impl Iterator<Item = Item<'a>> {
    let own = said.origin.as_ref().is_some_and(|from| from.api == origin.api && from.provider == origin.provider);
    said.content.iter().filter_map(move |block| match block {
        Block::Text(text) if text.text.trim().is_empty() => None,
        Block::Text(_) | Block::ToolCall(_) | Block::InvalidToolCall(_) => {
            Some(block.native().filter(|_| own).map_or(Item::Block(block), |native| Item::Verbatim(native.value())))
        }
        _ => block.native().filter(|_| own).map(|native| Item::Verbatim(native.value())),
    })
}

/// The media that a list of blocks holds must be of a kind the API takes.
fn check_media(content: &[Block]) -> Result<(), ModelError> {
    content.iter().try_for_each(|block| match block {
        Block::Media(media) if !takes(media) => Err(ModelError::invalid(format!(
            "the Messages API takes images, PDF documents and uploaded files, not {} content",
            media.mime
        ))),
        _ => Ok(()),
    })
}

fn takes(media: &Media) -> bool {
    match media.kind {
        MediaKind::Image => true,
        MediaKind::File => !matches!(media.source, MediaSource::Base64(_)) || media.mime == "application/pdf",
        _ => false,
    }
}

/// Refuses more breakpoints than the API takes, and a longer time after a shorter one.
pub(super) fn check_marks(request: &ModelRequest, turns: &Turns<'_>, extra: Extra<'_>) -> Result<(), ModelError> {
    let tools = request.cache.tools.filter(|_| !request.tools.is_empty());
    let system = request.system.iter().filter(|block| !block.text.trim().is_empty()).filter_map(|block| block.cache);
    let parts = turns.parts.iter().filter_map(|part| part.mark);
    let mut count = usize::from(extra.get("cache_control").is_some_and(|mark| !mark.is_null()));
    let mut short = false;
    for mark in tools.into_iter().chain(system).chain(parts) {
        count += 1;
        if short && mark == CacheTtl::OneHour {
            return Err(ModelError::invalid(
                "a cache mark of one hour follows one of five minutes; put the longer ones first",
            ));
        }
        short |= mark == CacheTtl::FiveMinutes;
    }
    if count > 4 {
        return Err(ModelError::invalid(format!("there are {count} cache marks and the API takes four; drop some")));
    }
    Ok(())
}
