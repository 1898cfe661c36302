//! Moves results that are too large for the conversation to files.

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Block, Media};
use deepagents_core::middleware::ToolResponse;
use deepagents_core::state::{MessagesChannel, State, Update};
use deepagents_core::tool::ToolContext;
use deepagents_fs::{Backend, FsError, VPath, WriteMode};

use crate::artifacts::{self, Artifacts, Readers};
use crate::channels::{StoredResults, file_reference};
use crate::digest::sha256_hex;
use crate::text;
use crate::tokens;

/// Number of lines at each end of a preview.
const PREVIEW_LINES: usize = 5;
/// Maximum number of characters per preview line.
const PREVIEW_CHARS: usize = 1_000;
/// Maximum number of bytes of a file name made from an id.
const MAX_NAME_BYTES: usize = 128;
/// Maximum number of media in a result.
const MAX_MEDIA: usize = 20;
/// Maximum number of bytes of all media in a result.
const MAX_MEDIA_BYTES: usize = 20 << 20;

/// Where the parts of a result go that are too large to show.
pub(super) struct Store<'a> {
    pub(super) artifacts: &'a Artifacts,
    pub(super) backend: &'a dyn Backend,
    /// The tools with which the agent can read them there.
    pub(super) readers: Readers,
    pub(super) cx: &'a ToolContext,
}

impl Store<'_> {
    /// Moves a text that weighs more than `limit` quarters of a token to a file and leaves a preview, and does the same
    /// with media beyond their limits. If the text cannot be stored, or the agent could not read it, it is truncated
    /// and the model is told.
    pub(super) async fn evict(&self, response: ToolResponse, limit: usize) -> ToolResponse {
        let mut response = self.bound_media(response).await;
        let text = text::of_blocks(&response.content);
        if tokens::quarters(&text) <= limit {
            return response;
        }
        let (chars, lines) = (text.chars().count(), text.lines().count());
        let (call, tool) = (self.cx.provider_call_id().to_owned(), self.cx.tool_name());
        let head = format!("The result of {tool} is too large to show ({chars} characters, {lines} lines)");
        let lost = |error: String| MiddlewareEvent::LargeResultLost { call: call.clone(), chars, error };
        let (event, shown, update) = if self.readers.any() {
            match self.store("", text.clone().into(), &response.update).await {
                Ok((path, update)) => {
                    let (place, advice) = (file_reference(&path), self.readers.advice());
                    let shown = format!("{head}. {place} {advice}. Its beginning and end:\n\n{}", preview(&text));
                    let stored = Update::new::<StoredResults>((call.clone(), path.clone()));
                    let event = MiddlewareEvent::LargeResultStored { call, path: path.to_string(), chars };
                    (event, shown, update.and(stored))
                }
                Err(error) => {
                    let end =
                        format!(" and could not be stored: {error}. What is not shown here is lost; ask for less");
                    let shown = format!("{head}{end}. Its beginning and end:\n\n{}", preview(&text));
                    (lost(error.to_string()), shown, Update::none())
                }
            }
        } else {
            let end = ". What is not shown here is lost; ask for less. Its beginning and end:\n\n";
            let shown = format!("{head}{end}{}", both_ends(&text, limit));
            (lost("the agent has no tool to read a file".to_owned()), shown, Update::none())
        };
        self.cx.report(event);
        response.content.retain(|block| block.as_text().is_none());
        response.content.insert(0, Block::text(shown));
        response.with_update(update)
    }

    /// Replaces the media of a result beyond their limits with texts, and stores them if they can be read again.
    async fn bound_media(&self, mut response: ToolResponse) -> ToolResponse {
        let (mut media, mut bytes, mut updates) = (0, 0, Update::none());
        for block in &mut response.content {
            let Block::Media(medium) = block else { continue };
            let Some(size) = artifacts::inline_data(medium).map(|data| data.len() / 4 * 3) else { continue };
            if media < MAX_MEDIA && bytes + size <= MAX_MEDIA_BYTES {
                media += 1;
                bytes += size;
                continue;
            }
            let (text, update) = self.unattached(medium, &response.update.clone().and(updates.clone())).await;
            *block = Block::text(text);
            updates = updates.and(update);
        }
        response.with_update(updates)
    }

    async fn unattached(&self, media: &Media, before: &Update) -> (String, Update) {
        let head =
            format!("[{} ({}) was not attached: the result has too many", artifacts::media_label(media), media.mime);
        let data = artifacts::inline_bytes(media).filter(|_| self.readers.can_attach());
        let Some(data) = data else { return (format!("{head}; ask for less]"), Update::none()) };
        let end = format!(".{}", artifacts::extension(&media.mime));
        match self.store(&end, data, before).await {
            Ok((path, update)) => (format!("{head}; it is in {path}]"), update),
            Err(error) => (format!("{head} and it could not be stored: {error}; ask for less]"), Update::none()),
        }
    }

    /// Writes a new file, whose name ends with `end`. The tool's own changes come first.
    async fn store(&self, end: &str, data: Vec<u8>, before: &Update) -> Result<(VPath, Update), FsError> {
        let mut state: State = self.cx.state().clone();
        let (_, rest) = before.clone().split::<MessagesChannel>();
        let applied = state.apply(&rest);
        let state = if applied.is_ok() { &state } else { self.cx.state() };
        let (name, data) = (file_name(self.cx), bytes::Bytes::from(data));
        for suffix in 1u32.. {
            let number = if suffix == 1 { String::new() } else { format!("-{suffix}") };
            let path = self.artifacts.results().join(&format!("{name}{number}{end}")).unwrap_or_default();
            match self.artifacts.store(self.backend, state, &path, data.clone(), WriteMode::Create).await {
                Ok(written) => return Ok((path, written.update)),
                Err(FsError::AlreadyExists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FsError::AlreadyExists(VPath::root()))
    }
}

/// Returns the beginning and the end of a text that together weigh at most `limit` quarters of a token.
fn both_ends(text: &str, limit: usize) -> String {
    let head = tokens::head(text, limit / 2);
    let tail = tokens::tail(text.get(head.len()..).unwrap_or_default(), limit / 2);
    let left_out = text.get(head.len()..text.len() - tail.len()).unwrap_or_default();
    format!("{head}\n... [{} characters left out] ...\n{tail}", left_out.chars().count())
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
            let results = Artifacts::default().results().clone();
            assert_eq!(results.join(&readable(id)).unwrap().parent(), Some(results), "{id}");
        }
    }

    #[test]
    fn both_ends_together_keep_the_limit() {
        let text: String = ('a'..='z').chain('α'..='ω').collect();
        assert_eq!(both_ends(&text, 8), "abcd\n... [45 characters left out] ...\nψω");
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
