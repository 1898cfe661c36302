//! Messages exchanged between people, models and tools.
//!
//! A [`Message`] is from a user, an assistant or a tool. Its content is a list of [`Block`]s. Provider data that a
//! block cannot express is stored with it as a [`ProviderItem`], so that the same provider receives its own items back
//! unchanged.

mod block;
mod calls;
mod depth;
mod from;
mod history;
mod media;
mod ops;
mod usage;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use block::{
    Block, InvalidToolCall, Media, MediaKind, MediaSource, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall,
};
pub(crate) use block::{answer_text, joined_text};
pub use calls::HistoryError;
pub(crate) use calls::{
    Pending, PendingCall, check, check_last_results, check_results, pending, pending_at, results_at,
};
pub(crate) use depth::{MAX_ARGUMENT_DEPTH, MAX_VALUE_DEPTH, is_deeper};
pub use history::{HistoryVersion, Messages};
pub use media::{is_text_type, media_type_of};
pub use ops::MessageOp;
pub use usage::Usage;

/// Identifies a message within a thread. A message replaces an earlier one with the same id.
pub type MessageId = String;

/// One message of a conversation.
///
/// ```
/// use deepagents_core::message::Message;
/// let message = Message::user("What is in README.md?");
/// assert_eq!(message.text(), "What is in README.md?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// Input to the model: from a person, or a note from the harness.
    User(UserMessage),
    /// A model's answer.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    Tool(ToolMessage),
}

/// Input to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The id; empty until a run assigns one.
    #[serde(default)]
    pub id: MessageId,
    /// The content.
    pub content: Vec<Block>,
    /// The author. A reminder from the harness is not an instruction from a person.
    #[serde(default, skip_serializing_if = "Author::is_human")]
    pub author: Author,
    /// Data that the sender stores with the message in its own format. It is not shown to models. Code that edits the
    /// content must drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_sent: Option<Box<serde_json::Value>>,
}

/// Who wrote a user message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The caller, usually a person.
    #[default]
    Human,
    /// The harness itself: reminders, requests to correct an answer.
    Harness,
}

impl Author {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
    fn is_human(&self) -> bool {
        matches!(self, Self::Human)
    }
}

/// A model's answer: blocks in the order in which the model produced them.
///
/// ```
/// use deepagents_core::message::{AssistantMessage, Block, ToolCall};
/// use serde_json::json;
/// let call = ToolCall::new("call_1", "ls", json!({"path": "/"}));
/// let answer = AssistantMessage::new(vec![Block::text("I will look."), Block::ToolCall(call)]);
/// assert_eq!(answer.tool_calls().count(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The id of the answer, from the provider or from the harness.
    #[serde(default)]
    pub id: MessageId,
    /// Text, reasoning, tool calls and provider items, in order.
    pub content: Vec<Block>,
    /// The model that produced it. [`ProviderItem`] parts of the blocks are sent back to the same origin only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The name of the agent that answered, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens used by the call that produced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The result of one tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The id; empty until a run assigns one.
    #[serde(default)]
    pub id: MessageId,
    /// The provider's id of the call that it answers.
    pub call_id: String,
    /// The tool's name.
    #[serde(default)]
    pub name: String,
    /// The content shown to the model.
    pub content: Vec<Block>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Whether it replaces a result that the tool did not return, such as a person's answer or a note that the call was
    /// not made. Its text says so and is shown unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_synthetic: bool,
    /// Data for the application, never shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Value>,
}

/// The origin of an assistant message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The wire format, such as `anthropic-messages` or `openai-chat`.
    pub api: String,
    /// The service, such as `anthropic` or `openrouter`.
    pub provider: String,
    /// The model's name as requested.
    pub model: String,
}

impl Message {
    /// Creates a message from a person.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)], ..Default::default() })
    }

    /// Creates a note from the harness, sent in the user role.
    pub fn harness(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)], author: Author::Harness, ..Default::default() })
    }

    /// Creates a plain text answer of a model, without an origin.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage::new(vec![Block::text(text)]))
    }

    /// Creates the result of a call.
    pub fn tool(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool(ToolMessage::text(call, text))
    }

    /// Returns the message's id; empty before a run has added it to its thread.
    pub fn id(&self) -> &str {
        match self {
            Self::User(m) => &m.id,
            Self::Assistant(m) => &m.id,
            Self::Tool(m) => &m.id,
        }
    }

    /// Sets the message's id.
    pub fn set_id(&mut self, id: MessageId) {
        match self {
            Self::User(m) => m.id = id,
            Self::Assistant(m) => m.id = id,
            Self::Tool(m) => m.id = id,
        }
    }

    /// Returns the content blocks, whatever the role.
    pub fn content(&self) -> &[Block] {
        match self {
            Self::User(m) => &m.content,
            Self::Assistant(m) => &m.content,
            Self::Tool(m) => &m.content,
        }
    }

    /// Returns the text: that of an [answer](AssistantMessage::text), or else the text blocks joined by newlines.
    pub fn text(&self) -> String {
        match self {
            Self::Assistant(answer) => answer.text(),
            Self::User(_) | Self::Tool(_) => joined_text(self.content()),
        }
    }

    /// Returns the assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let Self::Assistant(m) = self { Some(m) } else { None }
    }

    /// Returns the tool result, if it is one.
    pub fn as_tool(&self) -> Option<&ToolMessage> {
        if let Self::Tool(m) = self { Some(m) } else { None }
    }

    /// Returns the user message, if it is one.
    pub fn as_user(&self) -> Option<&UserMessage> {
        if let Self::User(m) = self { Some(m) } else { None }
    }
}

impl AssistantMessage {
    /// Creates an answer from these blocks.
    pub fn new(content: Vec<Block>) -> Self {
        Self { content, ..Default::default() }
    }

    /// Returns the text. Adjacent text blocks are one text, since providers divide an answer at its citations; where
    /// other blocks lie between two, they are joined by a newline.
    ///
    /// ```
    /// use deepagents_core::message::{AssistantMessage, Block};
    /// let cited = ["Turin has ", "850,000", " people."].map(Block::text);
    /// assert_eq!(AssistantMessage::new(cited.to_vec()).text(), "Turin has 850,000 people.");
    /// ```
    pub fn text(&self) -> String {
        answer_text(&self.content)
    }

    /// Iterates over the well-formed tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|b| if let Block::ToolCall(call) = b { Some(call) } else { None })
    }

    /// Iterates over the ids of all calls that a provider expects a result for, including malformed ones, in order.
    pub fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|b| match b {
            Block::ToolCall(call) => Some(call.id.as_str()),
            Block::InvalidToolCall(call) => Some(call.id.as_str()),
            _ => None,
        })
    }

    /// Returns whether there are any calls, well-formed or not.
    pub fn has_calls(&self) -> bool {
        self.call_ids().next().is_some()
    }
}

impl ToolMessage {
    /// Creates a successful text result.
    pub fn text(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Block::text(text)],
            ..Default::default()
        }
    }

    /// Creates an error result with a text for the model.
    pub fn error(call_id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            call_id: call_id.into(),
            name: name.into(),
            content: vec![Block::text(text)],
            is_error: true,
            ..Default::default()
        }
    }

    /// Creates a replacement for the result of a call that has none.
    pub fn synthetic(call_id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_synthetic: true, ..Self::error(call_id, name, text) }
    }
}
