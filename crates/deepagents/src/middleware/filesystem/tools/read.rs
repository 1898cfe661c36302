//! `ls` and `read_file`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use deepagents_core::message::{Block, Media, MediaKind, MediaSource, media_type_of};
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

/// Maximum size of a picture in bytes. Providers refuse larger ones.
const MAX_IMAGE_BYTES: u64 = 5 << 20;

const NO_PICTURE: &str = "holds no picture that models take (PNG, JPEG, GIF or WebP); convert it if you can";

/// A file that is being read.
struct Reading<'a> {
    options: &'a FilesystemOptions,
    path: &'a VPath,
    backend: &'a dyn Backend,
    cx: &'a ToolContext,
}

/// What a file holds, as far as it decides how the file is shown.
enum Content {
    /// Text, at least its beginning, and notes on it.
    Text(FileRead, Vec<String>),
    /// What is not text, with its kind and MIME type.
    Media(ContentKind, &'static str),
}

pub(super) async fn read_file(files: Arc<Filesystem>, args: ReadArgs, cx: ToolContext) -> Answered {
    let path = files.reach(&args.file_path, &cx).await?;
    let backend = files.workspace.backend_for(&cx);
    let reading = Reading { options: &files.options, path: &path, backend: &*backend, cx: &cx };
    let head = backend.read(cx.state(), &path, ByteRange::first(CLASSIFY_BYTES)).await.map_err(failed_at(&path))?;
    let size = head.stat.size;
    let seen = Update::new::<SeenFiles>(vec![(path.clone(), head.stat.version.clone())]);
    if size == 0 {
        return Ok(ToolOutput::text("The file exists but is empty.").with_update(seen));
    }
    let output = match reading.content(head).await? {
        Content::Text(text, notices) if args.limit > 0 => reading.text(&args, text, notices).await?,
        // That a file is blank says more than that nothing was read.
        Content::Text(text, notices) if is_blank(&text) => {
            let all = ReadArgs { offset: 0, limit: i64::MAX, column: 0, ..args };
            reading.text(&all, text, notices).await?
        }
        // Nothing of it was seen.
        Content::Text(..) => {
            return Ok(format!("No lines of {} were read, as limit was {}.", path.quoted(), args.limit).into());
        }
        Content::Media(kind, mime) => reading.media(kind, mime, size).await?,
    };
    Ok(output.with_update(seen))
}

/// Returns whether a file was read to its end and holds nothing but white space.
fn is_blank(read: &FileRead) -> bool {
    let whole = read.bytes.len() as u64 == read.stat.size;
    whole && std::str::from_utf8(&read.bytes).is_ok_and(|text| text.trim().is_empty())
}

impl Reading<'_> {
    async fn whole(&self) -> Result<FileRead, ToolError> {
        self.backend.read(self.cx.state(), self.path, ByteRange::ALL).await.map_err(failed)
    }

    /// Determines what a file holds from its beginning.
    async fn content(&self, head: FileRead) -> Result<Content, ToolError> {
        let whole = head.bytes.len() as u64 == head.stat.size;
        let (kind, mime) = classify::classify(self.path, &head.bytes, whole);
        if kind == ContentKind::Text {
            let extension = self.path.extension().filter(|_| classify::by_extension(self.path).is_some());
            let notice = extension.map(|extension| format!("it is named .{extension} but holds text"));
            return Ok(Content::Text(head, notice.into_iter().collect()));
        }
        if kind != ContentKind::Binary {
            return Ok(Content::Media(kind, mime));
        }
        if classify::is_older_text(&head.bytes) {
            return Ok(Content::Text(head, vec!["it is not UTF-8, so it cannot be edited".to_owned()]));
        }
        let is_marked = head.bytes.starts_with(b"\xff\xfe") || head.bytes.starts_with(b"\xfe\xff");
        if is_marked && head.stat.size <= self.options.max_media_bytes {
            let read = self.whole().await?;
            if let Some(text) = classify::utf16_text(&read.bytes) {
                let stat = Stat { size: text.len() as u64, ..read.stat };
                let text = FileRead { bytes: text.into(), stat };
                return Ok(Content::Text(text, vec!["it is UTF-16, shown as text; it cannot be edited".to_owned()]));
            }
        }
        Ok(Content::Media(kind, mime))
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

    /// Attaches a file that is not text. A provider refuses every request of a conversation that holds a picture or
    /// document whose bytes are not of the declared type.
    async fn media(&self, kind: ContentKind, mime: &'static str, size: u64) -> Answered {
        let limit = self.options.max_media_bytes;
        let limit = if kind == ContentKind::Image { limit.min(MAX_IMAGE_BYTES) } else { limit };
        if size > limit {
            return Err(failed(FsError::TooLarge { path: self.path.clone(), size, limit }));
        }
        let bytes = self.whole().await?.bytes;
        let (kind, mime) = match kind {
            ContentKind::Image => {
                let picture = media_type_of(&bytes).filter(|found| found.starts_with("image/"));
                let none = || failed(format!("{} {NO_PICTURE}", self.path.quoted()));
                (MediaKind::Image, picture.ok_or_else(none)?)
            }
            ContentKind::Document if !is_document(mime, &bytes) => {
                return Err(failed(format!("{} does not hold what its name says: {mime}", self.path.quoted())));
            }
            ContentKind::Audio => (MediaKind::Audio, mime),
            ContentKind::Video => (MediaKind::Video, mime),
            _ => (MediaKind::File, mime),
        };
        let (source, name) = (MediaSource::Base64(BASE64.encode(&bytes)), self.path.name().map(str::to_owned));
        Ok(ToolOutput::blocks(vec![Block::Media(Media { kind, mime: mime.to_owned(), source, name })]))
    }
}

/// Returns whether the first bytes are those of a PDF, or of an archive that an office suite writes.
fn is_document(mime: &str, bytes: &[u8]) -> bool {
    match mime {
        "application/pdf" => media_type_of(bytes) == Some(mime),
        _ if mime.contains("openxmlformats") => bytes.starts_with(b"PK\x03\x04"),
        _ => bytes.starts_with(b"\xd0\xcf\x11\xe0"),
    }
}
