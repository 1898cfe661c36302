//! Groups messages into the turns of the API, with their cache marks.

use std::ops::Range;

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde::Serialize;
use serde_json::Value;

use super::Messages;
use crate::body::{self, Head, has_own_call, is_from, is_thought_by, is_wire_name, last_answer, mark_on, own_item};
use crate::json::{is_given, text};

/// Messages of the request body, with their content in one list: a long conversation has thousands of turns with a
/// single part.
pub(super) struct Turns<'a> {
    parts: Vec<Part<'a>>,
    turns: Vec<Span>,
}

/// Range of a turn's parts.
struct Span {
    role: Role,
    parts: Range<usize>,
    /// Number of messages of the conversation up to its end.
    upto: usize,
}

/// Role of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Assistant,
}

/// A message of the body.
#[derive(Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) content: &'a [Part<'a>],
    /// Number of messages of the conversation up to its end.
    #[serde(skip)]
    pub(super) upto: usize,
}

impl<'a> Turns<'a> {
    /// Iterates over the turns in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Turn<'_>> {
        self.turns.iter().map(|span| Turn {
            role: span.role,
            content: self.parts.get(span.parts.clone()).unwrap_or_default(),
            upto: span.upto,
        })
    }
}

impl Turn<'_> {
    /// Returns whether the turn is encoded the same way in every request with the same messages up to its end. A user
    /// turn may be merged with the next user message, and marks move.
    pub(super) fn is_settled(&self) -> bool {
        // Whether a server tool call at its end is kept depends on what follows.
        self.role == Role::Assistant && !self.content.last().is_some_and(|part| part.item.is_servers_call())
    }
}

/// A content item.
pub(super) struct Part<'a> {
    pub(super) item: Item<'a>,
    pub(super) mark: Option<CacheTtl>,
}

/// Source of a content item.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// A block in canonical form.
    Block(&'a Block),
    /// The provider's own item.
    Verbatim(&'a Value),
    /// Text added by this encoder.
    Text(&'a str),
    /// A tool result, and whether its call is the provider's own item, whose ID stays unchanged.
    Result(&'a ToolMessage, bool),
}

impl Item<'_> {
    /// Returns a field of the provider's own item.
    fn field(&self, name: &str) -> Option<&Value> {
        if let Self::Verbatim(item) = self { item.get(name) } else { None }
    }

    fn is_thought(&self) -> bool {
        matches!(text(self.field("type")), "thinking" | "redacted_thinking")
    }

    /// Returns whether this is a call that the provider executes itself.
    fn is_servers_call(&self) -> bool {
        matches!(text(self.field("type")), "server_tool_use" | "mcp_tool_use")
    }
}

/// Groups the messages from a position on into turns. Tool results and subsequent user messages form one turn, results
/// first. An assistant message without content is not sent, but separates the turns around it.
pub(super) fn turns<'a>(request: &'a ModelRequest, from: usize, origin: &Origin) -> Result<Turns<'a>, ModelError> {
    let bare = |item| Part { item, mark: None };
    let rest = request.messages.len().saturating_sub(from);
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(rest);
    let mut turns: Vec<Span> = Vec::with_capacity(rest);
    let mut silent = false;
    let mut last = last_answer(request, from);
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let from = parts.len();
        let role = match &**message {
            Message::User(user) => {
                check_media(&user.content)?;
                parts.extend(user.content.iter().filter_map(sendable).map(bare));
                Role::User
            }
            Message::Tool(result) => {
                check_media(&result.content)?;
                // Most IDs are encoded the same way in either case.
                let own = !is_wire_name(&result.call_id)
                    && last.is_some_and(|answer| has_own_call(answer, origin, &result.call_id));
                parts.push(bare(Item::Result(result, own)));
                Role::User
            }
            Message::Assistant(assistant) => {
                last = Some(assistant);
                let ongoing = !request.messages.get(index + 1).is_some_and(|next| matches!(**next, Message::User(_)));
                parts.extend(replayed(assistant, origin, ongoing).into_iter().map(bare));
                Role::Assistant
            }
            _ => return Err(ModelError::invalid("a message has a role that the Messages API does not know")),
        };
        let new = parts.get_mut(from..).unwrap_or_default();
        if new.is_empty() {
            silent |= role == Role::Assistant;
            continue;
        }
        // Thinking cannot carry a cache breakpoint.
        if let Some(ttl) = mark_on(request, index)
            && let Some(part) = new.iter_mut().rfind(|part| !part.item.is_thought())
        {
            part.mark = Some(ttl);
        }
        // Text before an empty assistant message remains a separate turn, so that a provider's cache stays valid.
        let apart = std::mem::take(&mut silent);
        match turns.last_mut() {
            Some(last) if role == Role::User && last.role == Role::User && !apart => {
                (last.parts.end, last.upto) = (parts.len(), index + 1);
            }
            _ => turns.push(Span { role, parts: from..parts.len(), upto: index + 1 }),
        }
    }
    for span in &turns {
        let turn = parts.get_mut(span.parts.clone()).unwrap_or_default();
        turn.sort_by_key(|part| !matches!(part.item, Item::Result(..)));
    }
    Ok(Turns { parts, turns })
}

/// Returns the index of the first message with a cache mark.
///
/// # Errors
/// Returns an error if a mark is on a message that there is not.
pub(super) fn first_marked(request: &ModelRequest) -> Result<usize, ModelError> {
    let mut marked = request.cache.messages.iter().map(|(index, _)| *index);
    if let Some(index) = marked.find(|index| *index >= request.messages.len()) {
        return Err(ModelError::invalid(format!(
            "there is a cache mark on message {index} but there are only {} messages",
            request.messages.len()
        )));
    }
    Ok(body::first_marked(request))
}

/// Returns an item for a block of a user message or result; `None` for empty text, which the API rejects.
pub(super) fn sendable(block: &Block) -> Option<Item<'_>> {
    match block {
        Block::Text(text) if text.text.trim().is_empty() => None,
        Block::Text(_) | Block::Media(_) => Some(Item::Block(block)),
        Block::ProviderItem(opaque) => Some(Item::Verbatim(opaque.native.value())),
        _ => None,
    }
}

/// Returns the parts of an assistant message that are sent back: its own items to the provider they came from,
/// reasoning to the same model, and the canonical form to all others. `ongoing` means that the user has not replied, so
/// a server tool may still be running.
fn replayed<'a>(answer: &'a AssistantMessage, origin: &Origin, ongoing: bool) -> Vec<Item<'a>> {
    let (own, thought_by) = (is_from(answer, origin), is_thought_by(answer, origin));
    let mut items = Vec::with_capacity(answer.content.len());
    for block in &answer.content {
        let item = own_item(block, own);
        match block {
            Block::Text(text) if text.text.trim().is_empty() => {}
            Block::Text(_) | Block::ToolCall(_) | Block::InvalidToolCall(_) => {
                items.push(item.map_or(Item::Block(block), Item::Verbatim));
            }
            _ => items.extend(item.map(Item::Verbatim)),
        }
    }
    // Gateways to other models do not sign reasoning, but expect it back.
    let signs = origin.model.contains("claude");
    items.retain(|item| {
        let is_unsigned = signs && item.field("signature").is_some_and(|signature| signature == "");
        !item.is_thought() || (thought_by && !is_unsigned)
    });
    if !ongoing && !answer.has_calls() {
        let answered: Vec<Value> = items.iter().filter_map(|item| item.field("tool_use_id").cloned()).collect();
        items.retain(|item| !item.is_servers_call() || item.field("id").is_some_and(|id| answered.contains(id)));
    }
    // A response that was cut off in its reasoning must not end with reasoning.
    while items.pop_if(|item| item.is_thought()).is_some() {}
    items
}

/// Checks that media are of types the API accepts.
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

/// Rejects more breakpoints than the API accepts, and a longer TTL after a shorter one.
pub(super) fn check_marks(head: &Head<'_, Messages>, turns: &Turns<'_>) -> Result<(), ModelError> {
    let tools = head.request.cache.tools.filter(|_| head.has_tools());
    let system = head.system().filter_map(|block| block.cache);
    let parts = turns.parts.iter().filter_map(|part| part.mark);
    let mut count = usize::from(is_given(head.extra.get("cache_control")));
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
