//! `ls` and `read_file`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use deepagents_core::message::{Block, Media, MediaKind, MediaSource};
use deepagents_core::state::Update;
use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
use deepagents_fs::lines::{self, LineRange};
use deepagents_fs::{Backend, ByteRange, ContentKind, FileRead, FsError, Kind, Stat, VPath, classify};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Answered, failed, failed_at, no_place, unnameable_note};
use crate::middleware::filesystem::seen::SeenFiles;
use crate::middleware::filesystem::{Filesystem, FilesystemOptions, render};
use crate::tokens;

#[derive(Deserialize, JsonSchema)]
pub(super) struct LsArgs {
    /// Absolute path of a directory.
    path: String,
}

pub(super) async fn ls(files: Arc<Filesystem>, args: LsArgs, cx: ToolContext) -> Answered {
    let path = files.reach(&args.path, &cx).await?;
    let backend = files.workspace.backend_for(&cx);
    let listing = match backend.list(cx.state(), &path).await {
        Ok(listing) => listing,
        Err(error) if !backend.capabilities().directories => return no_place("files", error),
        Err(error) => return Err(failed_at(&path)(error)),
    };
    let mut lines: Vec<String> = listing
        .entries
        .iter()
        .map(|entry| format!("{}{}", entry.path.quoted(), if entry.kind == Kind::Directory { "/" } else { "" }))
        .collect();
    if lines.is_empty() {
        lines.push("No files found".to_owned());
    }
    Ok(files.bounded(&lines, unnameable_note(listing.unnameable).as_slice()).into())
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadArgs {
    /// Absolute path.
    file_path: String,
    /// Lines to skip.
    #[serde(default)]
    offset: i64,
    /// Lines to read.
    #[serde(default = "default_limit")]
    limit: i64,
    /// Characters of the first line to skip.
    #[serde(default)]
    column: u64,
}

/// Default number of lines for `read_file`.
fn default_limit() -> i64 {
    100
}

/// Number of bytes read to classify a file. Most text files are read entirely by this.
const CLASSIFY_BYTES: u64 = 64 << 10;

/// A file that is being read.
struct Reading<'a> {
    options: &'a FilesystemOptions,
    path: &'a VPath,
    backend: &'a dyn Backend,
    cx: &'a ToolContext,
}

pub(super) async fn read_file(files: Arc<Filesystem>, args: ReadArgs, cx: ToolContext) -> Answered {
    let path = files.reach(&args.file_path, &cx).await?;
    let backend = files.workspace.backend_for(&cx);
    let reading = Reading { options: &files.options, path: &path, backend: &*backend, cx: &cx };
    let head = backend.read(cx.state(), &path, ByteRange::first(CLASSIFY_BYTES)).await.map_err(failed_at(&path))?;
    let whole = head.bytes.len() as u64 == head.stat.size;
    let seen = Update::new::<SeenFiles>(vec![(path.clone(), head.stat.version.clone())]);
    if head.stat.size == 0 {
        return Ok(ToolOutput::text("The file exists but is empty.").with_update(seen));
    }
    let output = match classify::classify(&path, &head.bytes, whole) {
        // Nothing of it was seen.
        (ContentKind::Text, _) if args.limit <= 0 => {
            return Ok(format!("No lines of {} were read, as limit was {}.", path.quoted(), args.limit).into());
        }
        (ContentKind::Text, _) => reading.text(&args, head, Vec::new()).await?,
        (ContentKind::Binary, _) if args.limit > 0 && classify::is_older_text(&head.bytes) => {
            let notices = vec!["it is not UTF-8, so edit_file cannot change it".to_owned()];
            reading.text(&args, head, notices).await?
        }
        (ContentKind::Binary, mime)
            if args.limit > 0
                && (head.bytes.starts_with(b"\xff\xfe") || head.bytes.starts_with(b"\xfe\xff"))
                && head.stat.size <= files.options.max_media_bytes =>
        {
            let read = reading.whole().await?;
            match classify::utf16_text(&read.bytes) {
                Some(decoded) => {
                    let notices = vec!["it is UTF-16, shown as text; edit_file cannot change it".to_owned()];
                    let stat = Stat { size: decoded.len() as u64, ..read.stat };
                    let decoded = FileRead { bytes: decoded.into(), stat };
                    reading.text(&args, decoded, notices).await?
                }
                None => reading.media(ContentKind::Binary, mime, head.stat.size).await?,
            }
        }
        (kind, mime) => reading.media(kind, mime, head.stat.size).await?,
    };
    Ok(output.with_update(seen))
}

impl Reading<'_> {
    async fn whole(&self) -> Result<FileRead, ToolError> {
        self.backend.read(self.cx.state(), self.path, ByteRange::ALL).await.map_err(failed)
    }

    /// Shows a part of a text whose beginning was read.
    async fn text(&self, args: &ReadArgs, head: FileRead, mut notices: Vec<String>) -> Answered {
        let path = self.path;
        let offset = u64::try_from(args.offset).unwrap_or(0);
        let limit = u64::try_from(args.limit).unwrap_or(0);
        let budget = tokens::limit(self.options.result_tokens);
        let mut range = LineRange { column: args.column, ..LineRange::new(offset, limit) };
        if let Some(quarters) = budget {
            // No character has more than four bytes per quarter of a token.
            range.max_bytes = quarters.saturating_mul(4);
        }
        let window = if head.bytes.len() as u64 == head.stat.size {
            lines::window(&head.bytes, range, head.stat.version)
        } else {
            self.backend.read_lines(self.cx.state(), path, range).await.map_err(failed)?
        };
        if window.lines.is_empty() {
            let length = window.total.map(|total| format!(", which has {total} lines")).unwrap_or_default();
            return Err(failed(format!("offset {offset} is past the end of {}{length}", path.quoted())));
        }
        let blank = args.column == 0 && window.lines.iter().all(|line| line.trim().is_empty());
        if let Some(lines) = window.total.filter(|_| blank && offset == 0 && window.next.is_none() && !window.cut) {
            return Ok(format!("The file exists but holds nothing but white space: {lines} lines of it.").into());
        }
        let early = || format!("offset {} is before the start of the file; line 1 is the first", args.offset);
        notices.extend((args.offset < 0).then(early));
        let shown = render::Shown { format: self.options.read_format, budget, column: args.column, notices };
        Ok(render::window(&window, shown).into())
    }

    /// Attaches a file that is not text.
    async fn media(&self, kind: ContentKind, mime: &str, size: u64) -> Answered {
        let limit = self.options.max_media_bytes;
        if size > limit {
            return Err(failed(FsError::TooLarge { path: self.path.clone(), size, limit }));
        }
        let kind = match kind {
            ContentKind::Image => MediaKind::Image,
            ContentKind::Audio => MediaKind::Audio,
            ContentKind::Video => MediaKind::Video,
            _ => MediaKind::File,
        };
        let source = MediaSource::Base64(BASE64.encode(&self.whole().await?.bytes));
        let (mime, name) = (mime.to_owned(), self.path.name().map(str::to_owned));
        Ok(ToolOutput::blocks(vec![Block::Media(Media { kind, mime, source, name })]))
    }
}
