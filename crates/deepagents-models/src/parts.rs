//! Small parts of requests that several providers write alike.

use std::borrow::Cow;

use deepagents_core::message::{AssistantMessage, Origin};
use deepagents_core::model::CacheTtl;
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

/// Whether an answer came from this provider through this wire, so that its items go back as they came.
pub(crate) fn is_from(answer: &AssistantMessage, origin: &Origin) -> bool {
    answer.origin.as_ref().is_some_and(|from| from.api == origin.api && from.provider == origin.provider)
}
