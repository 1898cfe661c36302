//! Replays an earlier conversation.

use std::collections::HashMap;
use std::path::Path;

use deepagents::channels::Todos;
use deepagents::core::message::{AssistantMessage, Author, ToolMessage};
use deepagents::core::run::interrupted_words;
use deepagents::{Block, Message, State};
use serde_json::json;

use super::calls::{Described, content, ended, image, images, plan, written};
use super::spending::{Spending, usage_update};
use crate::editor::Editor;
use crate::wire;

/// Sends the conversation of a thread from the beginning, each call with its result, followed by the plan and the
/// context usage.
pub(crate) fn replay(editor: &Editor, root: &Path, state: &State, window: Option<u64>, spending: &Spending) {
    let messages: Vec<_> = state.messages().iter().collect();
    for (at, message) in messages.iter().enumerate() {
        match &***message {
            Message::User(user) if user.author == Author::Human => {
                let id = wire::MessageId::new(user.id.clone());
                for block in user.content.iter().filter_map(shown) {
                    let chunk = wire::ContentChunk::new(block).message_id(id.clone());
                    editor.update(wire::SessionUpdate::UserMessageChunk(chunk));
                }
            }
            Message::Assistant(answer) => {
                let after = messages.iter().skip(at + 1);
                let results = after.map_while(|message| message.as_tool());
                let results: HashMap<&str, &ToolMessage> =
                    results.map(|result| (result.call_id.as_str(), result)).collect();
                answered(editor, root, answer, &results);
            }
            _ => {}
        }
    }
    if let Some(todos) = state.get::<Todos>().filter(|todos| !todos.is_empty()) {
        editor.update(plan(todos));
    }
    let used = messages.iter().rev().find_map(|message| message.as_assistant()?.usage);
    usage_update(editor, window, used.map(|used| used.total()).unwrap_or_default(), spending);
}

/// Sends a model response, block by block.
fn answered(editor: &Editor, root: &Path, answer: &AssistantMessage, results: &HashMap<&str, &ToolMessage>) {
    let id = wire::MessageId::new(answer.id.clone());
    let chunk = |text: &str| wire::ContentChunk::new(wire::ContentBlock::from(text)).message_id(id.clone());
    for (index, block) in answer.content.iter().enumerate() {
        match block {
            Block::Text(text) if !text.text.is_empty() => {
                let words = interrupted_words(&text.text).unwrap_or(&text.text);
                editor.update(wire::SessionUpdate::AgentMessageChunk(chunk(words)));
            }
            Block::Reasoning(thought) if !thought.text.is_empty() => {
                editor.update(wire::SessionUpdate::AgentThoughtChunk(chunk(&thought.text)));
            }
            Block::ToolCall(call) => {
                let Described { kind, title, locations, diffs } = Described::new(&call.name, &call.args, root);
                let mut whole: Vec<_> = diffs.into_iter().map(wire::ToolCallContent::Diff).collect();
                let result = results.get(call.id.as_str());
                let failed = result.is_none_or(|result| result.is_error);
                if call.name == "write_file" && !failed {
                    // The previous content of the file is not stored.
                    whole.extend(written(&call.args, None, root).map(wire::ToolCallContent::Diff));
                }
                let text = result.map(|result| Message::Tool((**result).clone()).text()).unwrap_or_default();
                if (failed || whole.is_empty()) && !text.is_empty() {
                    whole.push(content(&text));
                }
                whole.extend(result.into_iter().flat_map(|result| images(&result.content)));
                let status = ended(&call.name, failed, &text);
                // Unique, because a message is sent only once per session.
                let name = format!("{}/{index}", answer.id);
                let call = wire::ToolCall::new(name, title)
                    .name(call.name.clone())
                    .kind(kind)
                    .status(status)
                    .content(whole)
                    .locations(locations)
                    .raw_input(call.args.clone())
                    .raw_output(json!({"text": text}));
                editor.update(wire::SessionUpdate::ToolCall(call));
            }
            _ => {}
        }
    }
}

/// Converts a block of a person's message.
fn shown(block: &Block) -> Option<wire::ContentBlock> {
    match block {
        Block::Text(text) if !text.text.is_empty() => Some(wire::ContentBlock::from(text.text.as_str())),
        Block::Media(media) => Some(image(media).unwrap_or_else(|| {
            wire::ContentBlock::from(format!("[{}]", media.name.as_deref().unwrap_or(&media.mime)))
        })),
        _ => None,
    }
}
