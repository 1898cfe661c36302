//! Moves results that are too large for the conversation to files.

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Block;
use deepagents_core::middleware::ToolResponse;
use deepagents_core::state::{MessagesChannel, Update};
use deepagents_core::tool::ToolContext;
use deepagents_fs::{Backend, FsError, VPath, WriteMode};

use crate::channels::{StoredResults, file_reference};
use crate::digest::sha256_hex;
use crate::text;
use crate::tokens;
use crate::workspace::{self, RESULTS};

/// Number of lines at each end of a preview.
const PREVIEW_LINES: usize = 5;
/// Maximum number of characters per preview line.
const PREVIEW_CHARS: usize = 1_000;
/// Maximum number of bytes of a file name made from an id.
const MAX_NAME_BYTES: usize = 128;

/// Moves a result that weighs more than `limit` quarters of a token to a file and leaves a preview. If it cannot be
/// stored, it is truncated and the model is told.
pub(super) async fn evict(
    mut response: ToolResponse,
    limit: usize,
    backend: &dyn Backend,
    cx: &ToolContext,
) -> ToolResponse {
    let text = text::of_blocks(&response.content);
    if tokens::quarters(&text) <= limit {
        return response;
    }
    let (chars, lines) = (text.chars().count(), text.lines().count());
    let (call, tool) = (cx.provider_call_id().to_owned(), cx.tool_name());
    let (event, end, update) = match store(&text, &response.update, backend, cx).await {
        Ok((path, update)) => {
            let place = file_reference(&path);
            let end =
                format!(". {place} read it in parts with read_file and its offset and limit, or search it with grep");
            let event = MiddlewareEvent::LargeResultStored { call: call.clone(), path: path.to_string(), chars };
            (event, end, update.and(Update::new::<StoredResults>((call, path))))
        }
        Err(error) => {
            let end = format!(" and could not be stored: {error}. What is not shown here is lost; ask for less");
            (MiddlewareEvent::LargeResultLost { call, chars, error: error.to_string() }, end, Update::none())
        }
    };
    cx.report(event);
    let head = format!("The result of {tool} is too large to show ({chars} characters, {lines} lines){end}.");
    let shown = Block::text(format!("{head} Its beginning and end:\n\n{}", preview(&text)));
    response.content.retain(|block| block.as_text().is_none());
    response.content.insert(0, shown);
    response.with_update(update)
}

/// Writes the text to a new file.
async fn store(
    text: &str,
    update: &Update,
    backend: &dyn Backend,
    cx: &ToolContext,
) -> Result<(VPath, Update), FsError> {
    // The tool's own changes come first.
    let mut state = cx.state().clone();
    let (_, rest) = update.clone().split::<MessagesChannel>();
    let applied = state.apply(&rest);
    let state = if applied.is_ok() { &state } else { cx.state() };
    let name = file_name(cx);
    for suffix in 1u32.. {
        let name = if suffix == 1 { name.clone() } else { format!("{name}-{suffix}") };
        let path = VPath::parse(&format!("{RESULTS}/{name}")).unwrap_or_default();
        match workspace::store_file(backend, state, &path, text.to_owned().into(), WriteMode::Create).await {
            Ok(written) => return Ok((path, written.update)),
            Err(FsError::AlreadyExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(FsError::AlreadyExists(VPath::root()))
}

/// Returns the name of the file for a call. Calls of one turn do not see each other's files, so they never share a
/// name.
fn file_name(cx: &ToolContext) -> String {
    let id = cx.provider_call_id();
    let name = readable(id);
    let turn = cx.state().messages().iter().rev().find_map(|message| message.as_assistant());
    let shared = |other: &str| other != id && readable(other) == name;
    if name != id && turn.is_some_and(|turn| turn.tool_calls().any(|call| shared(&call.id))) {
        return format!("call-{}", sha256_hex(id, 32));
    }
    name
}

/// Returns an id without characters that are invalid in names, so two ids may become the same; a long id becomes its
/// digest.
fn readable(id: &str) -> String {
    if id.is_empty() || id.len() > MAX_NAME_BYTES {
        return format!("call-{}", sha256_hex(id, 32));
    }
    id.chars().map(|c| if matches!(c, '.' | '/' | '\\' | '\0') { '_' } else { c }).collect()
}

/// Returns the first and last lines with line numbers, truncating long ones.
pub(super) fn preview(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let show = |(number, line): (usize, &&str)| {
        format!("{:>6}\t{}\n", number + 1, text::truncated(line, PREVIEW_CHARS, " [line cut]"))
    };
    let numbered = lines.iter().enumerate();
    if lines.len() <= 2 * PREVIEW_LINES {
        return numbered.map(show).collect();
    }
    let head: String = numbered.clone().take(PREVIEW_LINES).map(show).collect();
    let tail: String = numbered.skip(lines.len() - PREVIEW_LINES).map(show).collect();
    format!("{head}... [{} lines left out] ...\n{tail}", lines.len() - 2 * PREVIEW_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_whatever_the_id() {
        assert_eq!(readable("call_1"), "call_1");
        assert_eq!(readable("../../etc/passwd"), "______etc_passwd");
        assert_eq!(readable(&"x".repeat(MAX_NAME_BYTES)), "x".repeat(MAX_NAME_BYTES));
        assert!(readable(&"x".repeat(MAX_NAME_BYTES + 1)).len() <= MAX_NAME_BYTES);
        for id in ["", "a\0b", "日本語", "..", "/", "\\"] {
            let path = VPath::parse(&format!("{RESULTS}/{}", readable(id))).unwrap();
            assert_eq!(path.parent(), Some(VPath::parse(RESULTS).unwrap()), "{id}");
        }
    }

    #[test]
    fn a_preview_shows_both_ends() {
        let text: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let shown = preview(&text);
        assert!(shown.starts_with("     1\tline 1\n") && shown.ends_with("    20\tline 20\n"), "{shown}");
        assert!(shown.contains("... [10 lines left out] ..."));
        assert!(preview(&"y".repeat(5000)).contains(" [line cut]"));
    }
}
