//! Messages: what people, models and tools say to each other.
//!
//! A [`Message`] is a user's, an assistant's or a tool's. Its content is a list of [`Block`]s. Whatever a provider
//! said that the canonical block does not hold is kept beside it in [`ProviderItem`], so that the same provider can be sent
//! its own words back untouched.

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

pub(crate) use block::joined_text;
pub use block::{
    Block, InvalidToolCall, Media, MediaKind, MediaSource, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall,
};
pub use calls::HistoryError;
pub(crate) use calls::{
    Pending, PendingCall, check, check_last_results, check_results, pending, pending_at, results_at,
};
pub(crate) use depth::{DEEPEST, DEEPEST_ARGUMENTS, is_deeper};
pub use history::{HistoryVersion, Messages};
pub use media::{is_text_type, media_type_of};
pub use ops::MessageOp;
pub use usage::Usage;

/// Identifies a message within a thread; equal ids replace each other.
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
    /// Input to the model: a person's words, or a note of the harness.
    User(UserMessage),
    /// A model's turn.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    Tool(ToolMessage),
}

/// Input to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Empty until the run gives it one.
    #[serde(default)]
    pub id: MessageId,
    /// What is said.
    pub content: Vec<Block>,
    /// Who says it; a reminder of the harness is not a person's instruction.
    #[serde(default, skip_serializing_if = "Author::is_human")]
    pub author: Author,
    /// What whoever sent it keeps with it, in a form of their own. Models are not shown it; whoever edits the content drops
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_sent: Option<Box<serde_json::Value>>,
}

/// Who wrote a user message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The caller.
    #[default]
    Human,
    /// The harness itself: reminders, requests for a corrected answer.
    Harness,
}

impl Author {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
    fn is_human(&self) -> bool {
        matches!(self, Self::Human)
    }
}

/// A model's turn: blocks in the order the model produced them.
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
    /// The provider's id of the answer, or one of ours.
    #[serde(default)]
    pub id: MessageId,
    /// Text, reasoning, tool calls and provider items, in order.
    pub content: Vec<Block>,
    /// Who produced it; [`ProviderItem`] parts of the blocks are replayed to the same origin only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The agent that spoke, when it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens of the call that produced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The result of one tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// Empty until the run gives it one.
    #[serde(default)]
    pub id: MessageId,
    /// The id of the call it answers, as the provider knows it.
    pub call_id: String,
    /// The tool's name.
    #[serde(default)]
    pub name: String,
    /// What the model is shown.
    pub content: Vec<Block>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Whether it stands in for a result that the tool did not give, such as a person's answer or a note that the call
    /// was not made. Its words say so: they are shown as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_synthetic: bool,
    /// Data for the application, never shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Value>,
}

/// Where an assistant message came from.
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
    /// A person's words.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)], ..Default::default() })
    }

    /// A note of the harness, sent in the user's role.
    pub fn harness(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)], author: Author::Harness, ..Default::default() })
    }

    /// A model's plain text, without an origin.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage::new(vec![Block::text(text)]))
    }

    /// The result of a call.
    pub fn tool(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool(ToolMessage::text(call, text))
    }

    /// The message's id; empty before a run has taken it in.
    pub fn id(&self) -> &str {
        match self {
            Self::User(m) => &m.id,
            Self::Assistant(m) => &m.id,
            Self::Tool(m) => &m.id,
        }
    }

    /// Gives the message an id.
    pub fn set_id(&mut self, id: MessageId) {
        match self {
            Self::User(m) => m.id = id,
            Self::Assistant(m) => m.id = id,
            Self::Tool(m) => m.id = id,
        }
    }

    /// The blocks, whatever the role.
    pub fn content(&self) -> &[Block] {
        match self {
            Self::User(m) => &m.content,
            Self::Assistant(m) => &m.content,
            Self::Tool(m) => &m.content,
        }
    }

    /// The text blocks joined by newlines.
    pub fn text(&self) -> String {
        joined_text(self.content())
    }

    /// The message as an assistant's, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let Self::Assistant(m) = self { Some(m) } else { None }
    }

    /// The message as a tool result, if it is one.
    pub fn as_tool(&self) -> Option<&ToolMessage> {
        if let Self::Tool(m) = self { Some(m) } else { None }
    }

    /// The message as a user's, if it is one.
    pub fn as_user(&self) -> Option<&UserMessage> {
        if let Self::User(m) = self { Some(m) } else { None }
    }
}

impl AssistantMessage {
    /// A turn made of these blocks.
    pub fn new(content: Vec<Block>) -> Self {
        Self { content, ..Default::default() }
    }

    /// The text blocks joined by newlines.
    pub fn text(&self) -> String {
        joined_text(&self.content)
    }

    /// The well-formed tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|b| if let Block::ToolCall(call) = b { Some(call) } else { None })
    }

    /// The ids of all calls that a provider expects a result for, malformed ones included, in order.
    pub fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|b| match b {
            Block::ToolCall(call) => Some(call.id.as_str()),
            Block::InvalidToolCall(call) => Some(call.id.as_str()),
            _ => None,
        })
    }

    /// Whether any call, well-formed or not, waits for a result.
    pub fn has_calls(&self) -> bool {
        self.call_ids().next().is_some()
    }
}

impl ToolMessage {
    /// A successful text result.
    pub fn text(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Block::text(text)],
            ..Default::default()
        }
    }

    /// A failed result with a text for the model.
    pub fn error(call_id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            call_id: call_id.into(),
            name: name.into(),
            content: vec![Block::text(text)],
            is_error: true,
            ..Default::default()
        }
    }

    /// What stands in for the result of a call that has none.
    pub fn synthetic(call_id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_synthetic: true, ..Self::error(call_id, name, text) }
    }
}
