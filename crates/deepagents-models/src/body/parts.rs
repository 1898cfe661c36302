//! Small parts of requests that several providers write alike.

use std::borrow::Cow;

use deepagents_core::message::{AssistantMessage, Block, Origin, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelRequest};
use serde::Serialize;

/// A cache breakpoint.
#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(crate) struct CacheControl {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<CacheTtl>,
}

impl From<CacheTtl> for CacheControl {
    /// Five minutes go without saying.
    fn from(ttl: CacheTtl) -> Self {
        Self { ttl: (ttl == CacheTtl::OneHour).then_some(ttl) }
    }
}

/// A text with its cache breakpoint.
#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
pub(crate) struct TextPart<'a> {
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

impl<'a> TextPart<'a> {
    pub(crate) fn new(text: impl Into<Cow<'a, str>>, cache: Option<CacheTtl>) -> Self {
        Self { text: text.into(), cache_control: cache.map(CacheControl::from) }
    }
}

/// The answer that the messages from a position on follow.
pub(crate) fn last_answer(request: &ModelRequest, from: usize) -> Option<&AssistantMessage> {
    request.messages.get(from.checked_sub(1)?)?.as_assistant()
}

/// Whether an answer came from this provider through this wire, so that its items go back as they came.
pub(crate) fn is_from(answer: &AssistantMessage, origin: &Origin) -> bool {
    answer.origin.as_ref().is_some_and(|from| from.api == origin.api && from.provider == origin.provider)
}

/// The texts among some blocks, joined by newlines; borrowed when there is one.
pub(crate) fn joined<'a>(content: impl IntoIterator<Item = &'a Block>) -> Cow<'a, str> {
    let mut texts = content.into_iter().filter_map(Block::as_text);
    let mut text = Cow::Borrowed(texts.next().unwrap_or_default());
    for more in texts {
        let text = text.to_mut();
        text.push('\n');
        text.push_str(more);
    }
    text
}

/// Whether a result of that text is an error that does not say so, for APIs that have no flag for it.
pub(crate) fn lacks_error(result: &ToolMessage, text: &str) -> bool {
    let is_told = || text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("error"));
    result.is_error && !result.is_synthetic && !is_told()
}

/// Whether an answer made a call of this id that is sent as the provider wrote it.
pub(crate) fn has_own_call(answer: &AssistantMessage, origin: &Origin, id: &str) -> bool {
    let made = |block: &Block| match block {
        Block::ToolCall(call) => call.id == id,
        Block::InvalidToolCall(call) => call.id == id,
        _ => false,
    };
    is_from(answer, origin) && answer.content.iter().any(|b| b.native().is_some() && made(b))
}

/// Ids and names of other providers' calls may hold characters that a provider refuses.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    if is_wire_name(name) {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    Cow::Owned(name.chars().map(|c| if is_legal(c) { c } else { '_' }).collect())
}

/// Whether an id or name is written as it is.
pub(crate) fn is_wire_name(name: &str) -> bool {
    // By bytes, since every call and result of a long history passes here for every request.
    !name.is_empty() && name.bytes().all(|byte| is_legal(char::from(byte)))
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
