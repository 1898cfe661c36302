//! Content blocks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of a message's content.
///
/// ```
/// use deepagents_core::message::Block;
/// use serde_json::json;
/// let content = [Block::text("I look it up."), Block::call("call_1", "get_weather", json!({"city": "Turin"}))];
/// assert_eq!(content[0].as_text(), Some("I look it up."));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// Plain text.
    Text(Text),
    /// What a model thought before it spoke.
    Reasoning(Reasoning),
    /// An image, sound, video or document.
    Media(Media),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// A request to run a tool whose arguments could not be read.
    InvalidToolCall(InvalidToolCall),
    /// Something only its provider understands: a server-side tool, redacted thinking.
    #[serde(rename = "opaque")]
    ProviderItem(ProviderBlock),
}

/// The provider's own item for a block, kept where the block does not say everything the provider said.
///
/// It is replayed to the same origin in place of what would be built from the block. Whoever edits a block drops it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderItem(pub Box<Value>);

impl ProviderItem {
    /// Keeps an item.
    pub fn new(item: Value) -> Self {
        Self(Box::new(item))
    }

    /// The item.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Plain text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Text {
    /// The words.
    pub text: String,
    /// The provider's item, where it says more (citations, annotations).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

/// What a model thought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The readable part; may be empty.
    pub text: String,
    /// The provider's item with its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

/// A request to run a tool.
///
/// ```
/// use deepagents_core::message::ToolCall;
/// let call = ToolCall::new("call_1", "ls", serde_json::json!({"path": "/"}));
/// assert_eq!(call.args["path"], "/");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, for the wire only: some providers repeat ids.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, an object.
    pub args: Value,
    /// The provider's item, where it says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

impl ToolCall {
    /// A call with the id that a provider, or a test, gives it.
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self { id: id.into(), name: name.into(), args, native: None }
    }
}

/// A request to run a tool whose arguments could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// The provider's id.
    pub id: String,
    /// The tool's name; may be empty.
    pub name: String,
    /// The arguments as they came.
    pub raw: String,
    /// What is wrong with them.
    pub error: String,
    /// The provider's item as it goes back, where it says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

/// Something only its provider understands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderBlock {
    /// The item, verbatim.
    pub native: ProviderItem,
}

/// An image, sound, video or document.
///
/// ```
/// use deepagents_core::message::{Block, Media, MediaSource, Message};
/// let drawing = Media::new("image/png", MediaSource::Url("https://example.org/drawing.png".to_owned()));
/// let message = Message::from(vec![Block::text("What is this?"), drawing.into()]);
/// assert_eq!(message.text(), "What is this?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// The MIME type, such as `image/png`.
    pub mime: String,
    /// Where the bytes are.
    pub source: MediaSource,
    /// A file name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Media {
    /// A medium of a MIME type, which says what kind it is of.
    pub fn new(mime: impl Into<String>, source: MediaSource) -> Self {
        let mime = mime.into();
        let kind = match mime.split_once('/').map(|(kind, _)| kind) {
            Some("image") => MediaKind::Image,
            Some("audio") => MediaKind::Audio,
            Some("video") => MediaKind::Video,
            _ => MediaKind::File,
        };
        Self { kind, mime, source, name: None }
    }
}

impl From<Media> for Block {
    fn from(media: Media) -> Self {
        Self::Media(media)
    }
}

/// Kinds of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaKind {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// A document, such as a PDF.
    File,
}

/// Where the bytes of a medium are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaSource {
    /// The bytes in standard base64.
    Base64(String),
    /// An address the provider can fetch.
    Url(String),
    /// A file uploaded to the provider before.
    FileId(String),
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), native: None })
    }

    /// A tool call.
    pub fn call(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self::ToolCall(ToolCall { id: id.into(), name: name.into(), args, native: None })
    }

    /// The provider's item, if one is kept.
    pub fn native(&self) -> Option<&ProviderItem> {
        match self {
            Self::Text(b) => b.native.as_ref(),
            Self::Reasoning(b) => b.native.as_ref(),
            Self::ToolCall(b) => b.native.as_ref(),
            Self::InvalidToolCall(b) => b.native.as_ref(),
            Self::ProviderItem(b) => Some(&b.native),
            Self::Media(_) => None,
        }
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(b) = self { Some(&b.text) } else { None }
    }
}

pub(crate) fn joined_text(content: &[Block]) -> String {
    let mut texts = content.iter().filter_map(Block::as_text);
    let mut out = texts.next().unwrap_or_default().to_owned();
    for text in texts {
        out.push('\n');
        out.push_str(text);
    }
    out
}
