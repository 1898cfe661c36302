//! Conversions into messages.

use super::{AssistantMessage, Block, Message, ToolMessage, UserMessage};

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl From<&String> for Message {
    fn from(text: &String) -> Self {
        Self::user(text.as_str())
    }
}

/// A user message with several blocks, such as text with an image.
impl From<Vec<Block>> for Message {
    fn from(content: Vec<Block>) -> Self {
        UserMessage { content, ..UserMessage::default() }.into()
    }
}

impl From<UserMessage> for Message {
    fn from(message: UserMessage) -> Self {
        Self::User(message)
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Self {
        Self::Assistant(message)
    }
}

impl From<ToolMessage> for Message {
    fn from(message: ToolMessage) -> Self {
        Self::Tool(message)
    }
}
