//! Messages grouped into the turns that the API takes, with their cache marks.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde_json::Value;

use crate::extra::Extra;

/// One message of the request's body.
pub(super) struct Turn<'a> {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part<'a>>,
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
pub(super) fn turns<'a>(request: &'a ModelRequest, origin: &Origin) -> Result<Vec<Turn<'a>>, ModelError> {
    let mut marks: Vec<(usize, CacheTtl)> = request.cache.messages.clone();
    if let Some((index, _)) = marks.iter().find(|(index, _)| *index >= request.messages.len()) {
        return Err(ModelError::invalid(format!(
            "there is a cache mark on message {index} but there are only {} messages",
            request.messages.len()
        )));
    }
    marks.sort_unstable();
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut parts = Vec::new();
    for (index, message) in request.messages.iter().enumerate() {
        let role = match &**message {
            Message::User(user) => {
                check_media(&user.content)?;
                parts.extend(user.content.iter().filter_map(spoken));
                "user"
            }
            Message::Tool(result) => {
                check_media(&result.content)?;
                parts.push(Item::Result(result));
                "user"
            }
            Message::Assistant(said) => {
                parts.extend(replayed(said, origin));
                "assistant"
            }
            _ => return Err(ModelError::invalid("a message has a role that the Messages API does not know")),
        };
        if parts.is_empty() {
            continue;
        }
        let mark = marks.iter().rev().find(|(at, _)| *at == index).map(|(_, ttl)| *ttl);
        let marked = mark.and_then(|ttl| Some((parts.iter().rposition(Item::takes_mark)?, ttl)));
        let new = parts.drain(..).enumerate().map(|(at, item)| {
            let mark = marked.filter(|(marked, _)| *marked == at).map(|(_, ttl)| ttl);
            Part { item, mark }
        });
        match turns.last_mut() {
            Some(turn) if turn.role == "user" && role == "user" => turn.parts.extend(new),
            _ => turns.push(Turn { role, parts: new.collect() }),
        }
    }
    for turn in &mut turns {
        turn.parts.sort_by_key(|part| !matches!(part.item, Item::Result(_)));
    }
    if turns.is_empty() {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    Ok(turns)
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
pub(super) fn check_marks(request: &ModelRequest, turns: &[Turn<'_>], extra: Extra<'_>) -> Result<(), ModelError> {
    let tools = request.cache.tools.filter(|_| !request.tools.is_empty());
    let system = request.system.iter().filter(|block| !block.text.trim().is_empty()).filter_map(|block| block.cache);
    let parts = turns.iter().flat_map(|turn| turn.parts.iter().filter_map(|part| part.mark));
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
