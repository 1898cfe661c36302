//! Encodes the messages of a Chat Completions body directly from ours.

use std::borrow::Cow;

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use super::Chat;
use super::assistant::{Assistant, provider_call_id};
use super::dialect::{CallIds, Dialect};
use crate::blocks::media;
use crate::body::{ATTACHED_BELOW, TextPart, Turn, attached_to, is_from, joined, lacks_error, last_answer, mark_on};
use crate::client::Target;

/// A message of the body.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    /// A system or user message, or a tool result.
    Plain {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<Cow<'a, str>>,
        content: Content<'a>,
    },
    /// An assistant message.
    Assistant(Assistant<'a>),
}

/// The content of a message.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
    Null,
}

/// An item of a content array.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    Text(TextPart<'a>),
    Media(MediaPart<'a>),
    /// The service's own item.
    Verbatim(Cow<'a, Value>),
}

impl<'a> Item<'a> {
    pub(super) fn plain(role: &'static str, content: Content<'a>) -> Self {
        Self::Plain { role, tool_call_id: None, content }
    }
}

/// Encodes the conversation from message `from` on, which is the first or follows an assistant message.
pub(super) fn items<'a>(
    chat: &'a Target<Chat>,
    request: &'a ModelRequest,
    from: usize,
    first_marked: usize,
) -> Result<Vec<Turn<Item<'a>>>, ModelError> {
    let dialect = &chat.wire.0;
    let mut items = Vec::with_capacity(request.messages.len().saturating_sub(from));
    // Media of the preceding results, which a result cannot contain.
    let mut attached: Vec<Part<'a>> = Vec::new();
    let mut last = last_answer(request, from);
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let upto = index + 1;
        let mark = mark_on(request, index).filter(|_| dialect.cache_marks);
        if !matches!(&**message, Message::Tool(_)) && !attached.is_empty() {
            let item = Item::plain("user", Content::Parts(std::mem::take(&mut attached)));
            items.push(Turn { item, upto: index, settled: false });
        }
        match &**message {
            Message::User(user) if user.content.is_empty() => {}
            Message::User(user) => {
                let item = Item::plain("user", user_content(&user.content, mark)?);
                items.push(Turn { item, upto, settled: false });
            }
            Message::Assistant(answer) => {
                last = Some(answer);
                let own = is_from(answer, &chat.origin);
                let item = Assistant::new(&answer.content, own, dialect).map(Item::Assistant);
                items.extend(item.map(|item| Turn { item, upto, settled: index < first_marked }));
            }
            Message::Tool(result) => {
                let own = dialect.call_ids != CallIds::Any
                    && last.is_some_and(|answer| {
                        is_from(answer, &chat.origin) && answer.call_ids().any(|id| id == result.call_id)
                    });
                items.push(Turn { item: tool_result(result, own, dialect, mark), upto, settled: false });
                attach(result, &mut attached)?;
            }
            _ => return Err(ModelError::invalid("a message has a role that Chat Completions does not know")),
        }
    }
    if !attached.is_empty() {
        let item = Item::plain("user", Content::Parts(attached));
        items.push(Turn { item, upto: request.messages.len(), settled: false });
    }
    Ok(items)
}

/// Encodes a user's content: as a single text if possible.
fn user_content(content: &[Block], mark: Option<CacheTtl>) -> Result<Content<'_>, ModelError> {
    if mark.is_none() && content.iter().all(|block| block.as_text().is_some()) {
        return Ok(Content::Text(joined(content)));
    }
    let last_text = content.iter().rposition(|block| block.as_text().is_some());
    let mut parts = Vec::with_capacity(content.len());
    for (at, block) in content.iter().enumerate() {
        match block {
            Block::Text(text) if !text.text.is_empty() => {
                let mark = mark.filter(|_| last_text == Some(at));
                parts.push(Part::Text(TextPart::new(&text.text, mark)));
            }
            Block::Media(media) => parts.push(Part::Media(MediaPart::new(media)?)),
            Block::ProviderItem(opaque) => parts.push(Part::Verbatim(Cow::Borrowed(opaque.native.value()))),
            _ => {}
        }
    }
    Ok(Content::Parts(parts))
}

/// Encodes a tool result as text. The API has no error flag, so the text says so.
fn tool_result<'a>(result: &'a ToolMessage, own: bool, dialect: &Dialect, mark: Option<CacheTtl>) -> Item<'a> {
    let mut text = joined(&result.content);
    let has_media = media(&result.content).next().is_some();
    if lacks_error(result, &text) {
        text = Cow::Owned(format!("Error: {text}"));
    } else if text.is_empty() && has_media {
        text = Cow::Borrowed(ATTACHED_BELOW);
    }
    let content = match mark {
        Some(_) => Content::Parts(vec![Part::Text(TextPart::new(text, mark))]),
        None => Content::Text(text),
    };
    Item::Plain { role: "tool", tool_call_id: Some(provider_call_id(&result.call_id, own, dialect)), content }
}

/// Collects a result's media, which follow in a user message.
fn attach<'a>(result: &'a ToolMessage, attached: &mut Vec<Part<'a>>) -> Result<(), ModelError> {
    attached.extend(attached_to(result).map(|text| Part::Text(TextPart::new(text, None))));
    media(&result.content).try_for_each(|media| MediaPart::new(media).map(|part| attached.push(Part::Media(part))))
}

/// A medium as a part of a user message.
#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MediaPart<'a> {
    ImageUrl { image_url: Link<'a> },
    VideoUrl { video_url: Link<'a> },
    InputAudio { input_audio: Audio<'a> },
    File { file: File<'a> },
}

#[derive(serde::Serialize)]
pub(super) struct Link<'a> {
    url: Address<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct Audio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum File<'a> {
    Uploaded { file_id: &'a str },
    Inline { filename: &'a str, file_data: Address<'a> },
}

/// Location of the data as text: a URL, or the data itself.
pub(super) struct Address<'a>(&'a Media);

impl Serialize for Address<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.source {
            MediaSource::Base64(data) => serializer.collect_str(&format_args!("data:{};base64,{data}", self.0.mime)),
            MediaSource::Url(url) => serializer.serialize_str(url),
            _ => Err(serde::ser::Error::custom("only documents can be given as the id of an uploaded file here")),
        }
    }
}

impl<'a> MediaPart<'a> {
    fn new(media: &'a Media) -> Result<Self, ModelError> {
        let url = Address(media);
        Ok(match (media.kind, &media.source) {
            (MediaKind::Image, _) => Self::ImageUrl { image_url: Link { url } },
            (MediaKind::Video, _) => Self::VideoUrl { video_url: Link { url } },
            (MediaKind::Audio, MediaSource::Base64(data)) => {
                let is_wav = media.mime.ends_with("wav") || media.mime.ends_with("wave");
                Self::InputAudio { input_audio: Audio { data, format: if is_wav { "wav" } else { "mp3" } } }
            }
            (MediaKind::File, MediaSource::FileId(file_id)) => Self::File { file: File::Uploaded { file_id } },
            (MediaKind::File, _) => {
                let filename = media.name.as_deref().unwrap_or("document.pdf");
                Self::File { file: File::Inline { filename, file_data: url } }
            }
            _ => return Err(ModelError::invalid(format!("{} content cannot be sent this way", media.mime))),
        })
    }
}
