//! The conversation as a file, for hooks that ask for it.

use std::io;
use std::path::{Path, PathBuf};

use deepagents_core::message::{Author, Block, Message};
use deepagents_core::run::Context;
use deepagents_fs::locked_file::replace_secret;
use serde_json::{Value, json};

use super::names;
use crate::digest::sha256_hex;

/// Maximum length of a thread's id that is used as a file name.
const MAX_NAME_CHARS: usize = 100;

/// Returns the file for the conversation of a thread.
fn path(directory: &Path, thread: &str) -> PathBuf {
    let is_name = thread.len() <= MAX_NAME_CHARS
        && thread.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !thread.is_empty();
    let name = if is_name { thread.to_owned() } else { sha256_hex(thread, 32) };
    directory.join(name + ".jsonl")
}

/// Writes the conversation of the main agent so far. Returns the file, or `None` if the conversation is not stored in a
/// thread, since then none of it stays on disk.
pub(super) async fn write(directory: &Path, cx: &Context, root: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let Some(thread) = cx.root_thread() else { return Ok(None) };
    if !cx.path().is_empty() {
        // The conversation is that of the main agent, whose hooks have it written.
        return Ok(written(directory, thread).await);
    }
    let (file, directory) = (path(directory, thread), directory.to_owned());
    let (messages, thread, root) = (cx.messages().clone(), thread.to_owned(), root.map(Path::to_owned));
    let to = file.clone();
    let written = tokio::task::spawn_blocking(move || {
        create_private(&directory)?;
        let lines: String = messages.iter().map(|message| line(message, &thread, root.as_deref())).collect();
        replace_secret(&to, lines.as_bytes())
    });
    written.await.map_err(io::Error::other)??;
    Ok(Some(file))
}

/// Returns the file for the conversation of a thread if it has been written.
pub(super) async fn written(directory: &Path, thread: &str) -> Option<PathBuf> {
    let file = path(directory, thread);
    let found = tokio::task::spawn_blocking(move || is_file(&file).then_some(file)).await;
    found.ok().flatten()
}

/// Removes the conversation of a thread.
pub(super) async fn remove(directory: &Path, thread: &str) {
    let file = path(directory, thread);
    // A file that cannot be removed is replaced by the next session of the thread.
    let _ = tokio::task::spawn_blocking(move || remove_file(&file)).await;
}

#[allow(clippy::disallowed_methods, reason = "the user's own transcripts, no files of a workspace")]
fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[allow(clippy::disallowed_methods, reason = "the user's own transcripts, no files of a workspace")]
fn is_file(file: &Path) -> bool {
    file.is_file()
}

#[allow(clippy::disallowed_methods, reason = "the user's own transcripts, no files of a workspace")]
fn remove_file(file: &Path) -> io::Result<()> {
    std::fs::remove_file(file)
}

/// Returns a message as a line of JSON in the form of Claude Code's transcripts.
fn line(message: &Message, thread: &str, root: Option<&Path>) -> String {
    let blocks = |content: &[Block]| content.iter().filter_map(|block| shown(block, root)).collect::<Vec<_>>();
    let (role, content) = match message {
        Message::Assistant(answer) => ("assistant", blocks(&answer.content)),
        Message::Tool(result) => {
            let content = blocks(&result.content);
            let is_error = result.is_error;
            let result =
                json!({"type": "tool_result", "tool_use_id": result.call_id, "content": content, "is_error": is_error});
            ("user", vec![result])
        }
        other => ("user", other.as_user().map(|user| blocks(&user.content)).unwrap_or_default()),
    };
    let is_meta = message.as_user().is_some_and(|user| user.author != Author::Human);
    let line = json!({
        "type": role, "uuid": message.id(), "sessionId": thread, "isMeta": is_meta,
        "message": {"role": role, "content": content},
    });
    format!("{line}\n")
}

/// Returns a block as hooks read it; media without their bytes.
fn shown(block: &Block, root: Option<&Path>) -> Option<Value> {
    Some(match block {
        Block::Text(text) => json!({"type": "text", "text": text.text}),
        Block::Reasoning(reasoning) => json!({"type": "thinking", "thinking": reasoning.text}),
        Block::Media(media) => json!({"type": "text", "text": format!("[{}]", media.mime)}),
        Block::ToolCall(call) => json!({
            "type": "tool_use", "id": call.id, "name": names::on_wire(&call.name),
            "input": names::args_on_wire(&call.name, &call.args, root),
        }),
        Block::InvalidToolCall(call) => {
            json!({"type": "tool_use", "id": call.id, "name": names::on_wire(&call.name), "input": {}})
        }
        _ => return None,
    })
}
