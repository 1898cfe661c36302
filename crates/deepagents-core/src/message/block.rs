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
    /// A model's reasoning before its answer.
    Reasoning(Reasoning),
    /// An image, audio, video or document.
    Media(Media),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// A request to run a tool with arguments that could not be parsed.
    InvalidToolCall(InvalidToolCall),
    /// An item that only its provider understands: a server-side tool, redacted thinking.
    #[serde(rename = "opaque")]
    ProviderItem(ProviderBlock),
}

/// The provider's own item for a block, stored if it contains more than the block can express.
///
/// It is sent back to the same origin in place of an item built from the block, unless the block's text or arguments
/// differ from those in it. Code that edits a block should drop it, which saves the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderItem(pub Box<Value>);

impl ProviderItem {
    /// Stores an item.
    pub fn new(item: Value) -> Self {
        Self(Box::new(item))
    }

    /// Returns the item.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Plain text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
    /// The provider's item, if it contains more, such as citations or annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

/// A model's reasoning.
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
    /// The provider's id, for use with the provider only: some providers repeat ids.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, an object.
    pub args: Value,
    /// The provider's item, if it contains more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

impl ToolCall {
    /// Creates a call with an id from a provider, or from a test.
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self { id: id.into(), name: name.into(), args, native: None }
    }
}

/// A request to run a tool with arguments that could not be parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// The provider's id.
    pub id: String,
    /// The tool's name; may be empty.
    pub name: String,
    /// The arguments as received.
    pub raw: String,
    /// What is wrong with them.
    pub error: String,
    /// The provider's item to send back, if it contains more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<ProviderItem>,
}

/// An item that only its provider understands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderBlock {
    /// The item, verbatim.
    pub native: ProviderItem,
}

/// An image, audio, video or document.
///
/// ```
/// use deepagents_core::message::{Block, Media, MediaSource, Message};
/// let drawing = Media::new("image/png", MediaSource::Url("https://example.org/drawing.png".to_owned()));
/// let message = Message::from(vec![Block::text("What is this?"), drawing.into()]);
/// assert_eq!(message.text(), "What is this?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// The kind of media.
    pub kind: MediaKind,
    /// The MIME type, such as `image/png`.
    pub mime: String,
    /// The location of the bytes.
    pub source: MediaSource,
    /// A file name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Media {
    /// Creates media of a MIME type, which determines its kind.
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
    /// An image.
    Image,
    /// Audio.
    Audio,
    /// Video.
    Video,
    /// A document, such as a PDF.
    File,
}

/// The location of the bytes of a media block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaSource {
    /// The bytes in standard base64.
    Base64(String),
    /// A URL that the provider can fetch.
    Url(String),
    /// The id of a file uploaded to the provider earlier.
    FileId(String),
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), native: None })
    }

    /// Creates a tool call.
    pub fn call(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self::ToolCall(ToolCall { id: id.into(), name: name.into(), args, native: None })
    }

    /// Returns the provider's item, if there is one.
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

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(b) = self { Some(&b.text) } else { None }
    }
}

/// Returns the text of an answer. Adjacent text blocks are one text, which providers divide at citations; a newline
/// stands for any other block between two.
pub(crate) fn answer_text(content: &[Block]) -> String {
    let mut out = String::new();
    let mut is_apart = false;
    for block in content {
        match block.as_text() {
            Some(text) if !text.is_empty() => {
                if is_apart && !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
                is_apart = false;
            }
            Some(_) => {}
            None => is_apart = true,
        }
    }
    out
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
