//! Parts of requests that several providers encode the same way.

use std::borrow::Cow;

use deepagents_core::message::{AssistantMessage, Block, Media, Origin, ProviderItem, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde::Serialize;
use serde_json::Value;

use super::edited::is_edited;
use crate::blocks::{as_call, media};

/// A cache breakpoint.
#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(crate) struct CacheControl {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<CacheTtl>,
}

impl From<CacheTtl> for CacheControl {
    /// Five minutes is the default and is omitted.
    fn from(ttl: CacheTtl) -> Self {
        Self { ttl: (ttl == CacheTtl::OneHour).then_some(ttl) }
    }
}

/// A text with an optional cache breakpoint.
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

/// Returns the assistant message directly before a position.
pub(crate) fn last_answer(request: &ModelRequest, from: usize) -> Option<&AssistantMessage> {
    request.messages.get(from.checked_sub(1)?)?.as_assistant()
}

/// Returns whether a message came from this provider and API, so that its items are sent back unchanged.
pub(crate) fn is_from(answer: &AssistantMessage, origin: &Origin) -> bool {
    answer.origin.as_ref().is_some_and(|from| from.api == origin.api && from.provider == origin.provider)
}

/// Returns whether a message came from this very model. Reasoning is signed or encrypted, and other models reject it.
pub(crate) fn is_thought_by(answer: &AssistantMessage, origin: &Origin) -> bool {
    is_from(answer, origin) && answer.origin.as_ref().is_some_and(|from| is_same_model(&from.model, &origin.model))
}

/// Returns whether two names refer to the same model. A date or region in only one of the names is ignored.
fn is_same_model(one: &str, two: &str) -> bool {
    let [one, two] = [one, two].map(|name| {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_suffix("-latest").unwrap_or(name);
        match name.split_once('.') {
            Some(("us" | "eu" | "jp" | "au" | "apac" | "global" | "us-gov", rest)) => rest,
            _ => name,
        }
    });
    one == two || undated(one) == two || one == undated(two)
}

/// Removes the date from a model's name, and a version after it, as in `-20250929-v1:0` and `-2025-08-07`.
fn undated(name: &str) -> &str {
    let name = match name.rsplit_once("-v") {
        Some((head, version)) if version.contains(':') => head,
        _ => name,
    };
    let is_date = |tail: &str| {
        let digits = tail.bytes().filter(u8::is_ascii_digit).count();
        digits == 8
            && tail.starts_with(['-', '@'])
            && tail.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'@'))
    };
    let cut = |length: usize| name.split_at_checked(name.len().checked_sub(length)?);
    [9, 11].into_iter().filter_map(cut).find(|(_, tail)| is_date(tail)).map_or(name, |(head, _)| head)
}

/// Returns the provider's own item of a block, if it is sent back: a block that was changed since is rebuilt. Even the
/// provider that made it rejects a call without a name.
pub(crate) fn own_item(block: &Block, own: bool) -> Option<&Value> {
    let is_unnamed = as_call(block).is_some_and(|(_, name)| name.is_empty());
    let item = block.native().filter(|_| own && !is_unnamed).map(ProviderItem::value)?;
    (!is_edited(block, item)).then_some(item)
}

/// Returns the texts of the blocks, joined by newlines; borrowed if there is only one.
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

/// Encodes the content of a user's message or of a result: text that is not empty, media, and the provider's own items.
pub(crate) fn parts(
    content: &[Block],
    text: impl Fn(&str) -> Value,
    media: impl Fn(&Media) -> Result<Value, ModelError>,
) -> Result<Vec<Value>, ModelError> {
    let part = |block: &Block| match block {
        Block::Text(b) if !b.text.is_empty() => Some(Ok(text(&b.text))),
        Block::Media(b) => Some(media(b)),
        Block::ProviderItem(b) => Some(Ok(b.native.value().clone())),
        _ => None,
    };
    content.iter().filter_map(part).collect()
}

/// Text of a result without text, if its media follow in a user message.
pub(crate) const ATTACHED_BELOW: &str = "(the result is attached below)";

/// Returns the text before a result's media in a user message, if it has media.
pub(crate) fn attached_to(result: &ToolMessage) -> Option<String> {
    media(&result.content).next()?;
    Some(format!("Attached to the result of {} ({}):", result.name, result.call_id))
}

/// Returns the index of the first message with a cache mark.
pub(crate) fn first_marked(request: &ModelRequest) -> usize {
    request.cache.messages.iter().map(|(index, _)| *index).min().unwrap_or(usize::MAX)
}

/// Returns the cache mark of a message.
pub(crate) fn mark_on(request: &ModelRequest, index: usize) -> Option<CacheTtl> {
    request.cache.messages.iter().filter(|(at, _)| *at == index).map(|(_, ttl)| *ttl).max()
}

/// Returns whether a result is an error but its text does not say so, for APIs without an error flag.
pub(crate) fn lacks_error(result: &ToolMessage, text: &str) -> bool {
    let is_told = || text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("error"));
    result.is_error && !result.is_synthetic && !is_told()
}

/// Returns whether a message has a call with this ID that is sent as the provider wrote it.
pub(crate) fn has_own_call(answer: &AssistantMessage, origin: &Origin, id: &str) -> bool {
    let made = |block: &Block| as_call(block).is_some_and(|(made, _)| made == id);
    answer.content.iter().any(|block| made(block) && own_item(block, is_from(answer, origin)).is_some())
}

/// Maximum length of a name or ID for most providers.
const MAX_NAME_LENGTH: usize = 64;

/// Makes a name or ID valid: those from other providers may be too long, or contain characters that a provider rejects.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    wire_name_within(name, MAX_NAME_LENGTH)
}

/// The same with another maximum length, which must be more than 17 characters.
pub(crate) fn wire_name_within(name: &str, most: usize) -> Cow<'_, str> {
    if is_wire_name(name) && name.len() <= most {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '_' });
    if name.chars().nth(most).is_none() {
        return Cow::Owned(legal.collect());
    }
    // A hash keeps names with the same start distinct.
    Cow::Owned(legal.take(most.saturating_sub(17)).chain(format!("_{:016x}", stable_hash(name)).chars()).collect())
}

/// Hash of nothing.
pub(crate) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash by FNV-1a: unlike the standard library's hasher, the same in all releases.
pub(crate) fn fnv1a(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the hash of a text, the same in all releases.
pub(crate) fn stable_hash(text: &str) -> u64 {
    fnv1a(FNV_OFFSET, text)
}

/// Returns whether a name or ID is sent unchanged.
pub(crate) fn is_wire_name(name: &str) -> bool {
    // By bytes, since this runs for every call and result of a long history in every request.
    !name.is_empty() && name.bytes().all(|byte| is_legal(char::from(byte)))
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
