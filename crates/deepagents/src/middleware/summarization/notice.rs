//! Replacement texts for content that is not shown.

use deepagents_core::message::{Messages, ToolMessage};
use deepagents_core::run::Context;
use deepagents_fs::VPath;

use super::sections::SummaryText;
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

/// Returns the file that a result shows, if its call was `read_file`.
pub(super) fn file_read(thread: &Messages, index: usize, result: &ToolMessage) -> Option<String> {
    let turn = (0..index).rev().find_map(|before| thread.get(before)?.as_assistant())?;
    let call = turn.tool_calls().find(|call| call.id == result.call_id && call.name == "read_file")?;
    call.args.get("file_path")?.as_str().map(str::to_owned)
}
