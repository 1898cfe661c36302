//! Replacement texts for content that is not shown.

use deepagents_core::message::{Media, ToolMessage};
use deepagents_core::run::Context;
use deepagents_fs::VPath;

use super::sections::SummaryText;
use crate::artifacts::{self, Readers};
use crate::channels::Todos;

/// Returns the replacement for evicted messages: the summary, their location, and the current todo list.
pub(super) fn summary(summary: &SummaryText, messages: usize, file: &VPath, cx: &Context) -> String {
    let reads = if cx.tool_names().contains(&"read_file") { "; search or read that file for details" } else { "" };
    let mut out = format!(
        "The first {messages} messages of this conversation are summarised here. They are whole in {file}{reads}.\n\n<summary>\n{}\n</summary>",
        summary.render()
    );
    let todos = cx.get::<Todos>();
    if !todos.is_empty() {
        out.push_str("\n\nThe todo list at this point:");
        for todo in &todos {
            out.push_str(&format!("\n- [{}] {}", todo.status.as_str(), todo.content));
        }
    }
    out
}

/// Returns the beginning of a result, and where the rest is.
pub(super) fn clipped(text: &str, chars: usize, where_whole: &str) -> String {
    let head: String = text.chars().take(chars).collect();
    let more = text.chars().count().saturating_sub(chars);
    format!("{head}\n[{more} more characters are not shown to save room; {where_whole}]")
}

/// Returns where a whole result is stored, and how it can be read if it can.
pub(super) fn stored(path: &VPath, readers: Readers) -> String {
    let advice = if readers.any() { "; " } else { "" };
    format!("it is whole in {path}{advice}{}", readers.advice())
}

/// Returns the text in place of a medium, which is in a file if a path is given.
pub(super) fn replaced_media(media: &Media, path: Option<&str>) -> String {
    let place = path.map(|path| format!("; it is in {path}")).unwrap_or_default();
    format!("[{} ({}) is not shown to save room{place}]", artifacts::media_label(media), media.mime)
}

/// Returns the file that a result shows, if its call was `read_file` and the agent still has that tool.
pub(super) fn file_read(index: usize, result: &ToolMessage, cx: &Context) -> Option<String> {
    let thread = cx.messages();
    if !cx.tool_names().contains(&"read_file") {
        return None;
    }
    let turn = (0..index).rev().find_map(|before| thread.get(before)?.as_assistant())?;
    let call = turn.tool_calls().find(|call| call.id == result.call_id && call.name == "read_file")?;
    call.args.get("file_path")?.as_str().map(str::to_owned)
}
