//! Tool calls as shown in editors: kind, title, locations and diffs.

use std::path::{Path, PathBuf};

use deepagents::channels::{Todo, TodoStatus};
use deepagents::core::message::{Media, MediaSource};
use deepagents::core::state::State;
use deepagents::escape::{escaped, escaped_lines};
use deepagents::fs::{Backend, ByteRange, VPath};
use deepagents::middleware::filesystem::exit_failure;
use deepagents::{ActionRequest, Block};
use serde_json::Value;

use crate::editor::on_disk;
use crate::wire;

/// Maximum size of a file in a diff, in bytes.
const MAX_DIFF_BYTES: u64 = 512 << 10;
/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 120;
/// Maximum length of a result shown, in characters.
const MAX_RESULT_CHARS: usize = 32 << 10;

/// What is shown of a call before it runs.
pub(crate) struct Described {
    pub(crate) kind: wire::ToolKind,
    pub(crate) title: String,
    pub(crate) locations: Vec<wire::ToolCallLocation>,
    /// Changes of files, as far as the arguments show them.
    pub(crate) diffs: Vec<wire::Diff>,
}

impl Described {
    pub(crate) fn new(tool: &str, args: &Value, root: &Path) -> Self {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let at = |name: &str| file(args, name, root);
        let named = |verb: &str, name: &str| {
            let path = VPath::parse(text(name)).map_or_else(|_| text(name).to_owned(), |path| path.to_string());
            let path = path.strip_prefix('/').filter(|path| !path.is_empty()).unwrap_or(".");
            format!("{verb} {path}")
        };
        let (kind, title, place) = match tool {
            "read_file" => (wire::ToolKind::Read, named("Read", "file_path"), at("file_path")),
            "ls" => (wire::ToolKind::Read, named("List", "path"), at("path")),
            "write_file" => (wire::ToolKind::Edit, named("Write", "file_path"), at("file_path")),
            "edit_file" => (wire::ToolKind::Edit, named("Edit", "file_path"), at("file_path")),
            "apply_patch" => (wire::ToolKind::Edit, "Change files".to_owned(), None),
            "delete" => (wire::ToolKind::Delete, named("Delete", "file_path"), at("file_path")),
            "glob" => (wire::ToolKind::Search, format!("Find {}", text("pattern")), at("path")),
            "grep" => (wire::ToolKind::Search, format!("Search for {}", text("pattern")), at("path")),
            "execute" => (wire::ToolKind::Execute, text("command").to_owned(), None),
            "task" => {
                let agent = if text("subagent_type").is_empty() { "sub-agent" } else { text("subagent_type") };
                (wire::ToolKind::Think, format!("{agent}: {}", text("description")), None)
            }
            "write_todos" => (wire::ToolKind::Think, "Update the plan".to_owned(), None),
            "read_todos" => (wire::ToolKind::Think, "Read the plan".to_owned(), None),
            other => (kind_by_name(other), other.to_owned(), None),
        };
        let line = args.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
        let place = place.map(|path| {
            let location = wire::ToolCallLocation::new(path);
            if tool == "read_file" { location.line(line.map(|line| line.max(1))) } else { location }
        });
        Self { kind, title: short(&title), locations: place.into_iter().collect(), diffs: edits(tool, args, root) }
    }
}

/// Returns the status of a finished call. A command with a non-zero exit code is not an error for the model, but the
/// editor shows it as failed.
pub(crate) fn ended(tool: &str, is_error: bool, text: &str) -> wire::ToolCallStatus {
    match is_error || exit_failure(tool, text).is_some() {
        true => wire::ToolCallStatus::Failed,
        false => wire::ToolCallStatus::Completed,
    }
}

/// Guesses the kind of a tool that is not built in, such as an MCP tool, from its name.
fn kind_by_name(tool: &str) -> wire::ToolKind {
    let has = |words: &[&str]| words.iter().any(|word| tool.split(['_', '-']).any(|part| part == *word));
    match () {
        () if has(&["fetch", "download", "browse"]) => wire::ToolKind::Fetch,
        () if has(&["search", "find", "query", "lookup"]) => wire::ToolKind::Search,
        () if has(&["read", "get", "list", "show"]) => wire::ToolKind::Read,
        () => wire::ToolKind::Other,
    }
}

/// Returns the path on disk of a path argument.
fn file(args: &Value, name: &str, root: &Path) -> Option<PathBuf> {
    let given = args.get(name).and_then(Value::as_str)?;
    VPath::parse(given).ok().map(|path| on_disk(root, &path))
}

/// Returns the changes requested by `edit_file`.
fn edits(tool: &str, args: &Value, root: &Path) -> Vec<wire::Diff> {
    let (true, Some(path)) = (tool == "edit_file", file(args, "file_path", root)) else { return Vec::new() };
    let more = args.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |edit: &Value, name: &str| edit.get(name).and_then(Value::as_str).map(str::to_owned);
    let diff = |edit: &Value| {
        let (old, new) = (text(edit, "old_string")?, text(edit, "new_string")?);
        Some(wire::Diff::new(path.clone(), new).old_text(old))
    };
    std::iter::once(args).chain(more).filter_map(diff).collect()
}

/// Returns the change made by `write_file`. `old` is the previous content, or `None` if there was no file.
pub(crate) fn written(args: &Value, old: Option<String>, root: &Path) -> Option<wire::Diff> {
    let new = args.get("content").and_then(Value::as_str)?;
    Some(wire::Diff::new(file(args, "file_path", root)?, new).old_text(old))
}

/// Returns the current content of the file that `write_file` is to write, if it exists and is text of a size that can
/// be shown.
pub(crate) async fn old_text(workspace: &dyn Backend, state: &State, args: &Value) -> Option<String> {
    let path = VPath::parse(args.get("file_path").and_then(Value::as_str)?).ok()?;
    let file = workspace.read(state, &path, ByteRange::first(MAX_DIFF_BYTES + 1)).await.ok()?;
    if file.bytes.len() as u64 > MAX_DIFF_BYTES {
        return None;
    }
    String::from_utf8(file.bytes.into()).ok()
}

/// Returns everything that a call would do, with invisible characters escaped, except the file changes that are shown
/// already. Returns `None` if those are everything.
pub(crate) fn full_text(question: &ActionRequest) -> Option<String> {
    let shown: &[&str] = match question.tool.as_str() {
        "write_file" => &["file_path", "content"],
        "edit_file" => &["file_path", "old_string", "new_string"],
        _ => &[],
    };
    let mut lines = Vec::new();
    for (name, value) in question.args.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let hides = || escaped_lines(&text).ne(text.strip_suffix('\n').unwrap_or(&text).split('\n').map(str::to_owned));
        if shown.contains(&name.as_str()) && !hides() {
            continue;
        }
        lines.push(format!("{}:", escaped(name)));
        lines.extend(escaped_lines(&text).map(|line| format!("    {line}")));
    }
    lines.extend(question.leads_to.iter().map(|path| format!("The path leads to {}", escaped(path))));
    lines.extend(question.rule.iter().map(|rule| format!("Asked by {}", escaped(rule))));
    lines.extend(question.agent.iter().map(|agent| format!("Called by the sub-agent {}", escaped(agent))));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Converts a todo list to a plan.
pub(crate) fn plan(todos: &[Todo]) -> wire::SessionUpdate {
    let entries = todos.iter().map(|todo| {
        let status = match todo.status {
            TodoStatus::Pending => wire::PlanEntryStatus::Pending,
            TodoStatus::InProgress => wire::PlanEntryStatus::InProgress,
            TodoStatus::Completed => wire::PlanEntryStatus::Completed,
        };
        wire::PlanEntry::new(todo.content.clone(), wire::PlanEntryPriority::Medium, status)
    });
    wire::SessionUpdate::Plan(wire::Plan::new(entries.collect()))
}

/// Converts a text to call content, uncut, for a call that a person decides on.
pub(crate) fn full_content(text: String) -> wire::ToolCallContent {
    wire::ToolCallContent::Content(wire::Content::new(wire::ContentBlock::from(text)))
}

/// Converts a text to call content, cut if too long.
pub(crate) fn content(text: &str) -> wire::ToolCallContent {
    wire::ToolCallContent::Content(wire::Content::new(wire::ContentBlock::from(bounded(text))))
}

/// Converts an image to a content block. Returns `None` for other media and for references.
pub(crate) fn image(media: &Media) -> Option<wire::ContentBlock> {
    match &media.source {
        MediaSource::Base64(data) if media.mime.starts_with("image/") => {
            Some(wire::ContentBlock::Image(wire::ImageContent::new(data.clone(), media.mime.clone())))
        }
        _ => None,
    }
}

/// Returns the images of a result as call content.
pub(crate) fn images(content: &[Block]) -> impl Iterator<Item = wire::ToolCallContent> {
    let shown = content.iter().filter_map(|block| match block {
        Block::Media(media) => image(media),
        _ => None,
    });
    shown.map(|image| wire::ToolCallContent::Content(wire::Content::new(image)))
}

/// Cuts the middle out of a text that is too long to show.
fn bounded(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_RESULT_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_RESULT_CHARS / 2).collect();
    let tail: String = text.chars().skip(length - MAX_RESULT_CHARS / 2).collect();
    format!("{head}\n… {} characters are not shown …\n{tail}", length - MAX_RESULT_CHARS)
}

/// Returns the first line, cut if too long.
pub(crate) fn short(text: &str) -> String {
    let line = escaped(text.trim().lines().next().unwrap_or_default());
    let mut short: String = line.chars().take(MAX_TITLE_CHARS).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
