//! Formats a conversation for the judge.

use deepagents_core::message::{Author, Block, Message, Messages};

use crate::text::truncated;

/// Number of messages at the end to show.
const MAX_MESSAGES: usize = 30;
/// Maximum number of characters per message.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Returns the first message of a person and the last messages, truncating long ones.
pub(super) fn of(messages: &Messages) -> String {
    let from = messages.len().saturating_sub(MAX_MESSAGES);
    let is_task = |message: &Message| message.as_user().is_some_and(|said| said.author == Author::Human);
    let first = messages.iter().position(|message| is_task(message)).filter(|at| *at < from);
    let shown = first.into_iter().chain(from..messages.len()).filter_map(|at| messages.get(at));
    shown.map(|message| line(message)).collect::<Vec<_>>().join("\n")
}

fn line(message: &Message) -> String {
    let who = match message {
        Message::Assistant(_) => "assistant".to_owned(),
        Message::Tool(result) => format!("tool:{}", result.name),
        _ => "user".to_owned(),
    };
    let parts: Vec<String> = message.content().iter().filter_map(part).collect();
    format!("[{who}] {}", truncated(&parts.join("\n"), MAX_MESSAGE_CHARS, "...(truncated)"))
}

fn part(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(text) => text.text.clone(),
        Block::ToolCall(call) => format!("<tool_call name={} args={}/>", call.name, call.args),
        Block::InvalidToolCall(call) => format!("<tool_call name={} args=(unreadable)/>", call.name),
        Block::Media(media) => format!("({})", media.mime),
        _ => return None,
    })
}
