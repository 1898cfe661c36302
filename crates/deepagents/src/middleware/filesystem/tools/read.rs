//! `ls` and `read_file`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use deepagents_core::message::{Block, Media, MediaKind, MediaSource};
use deepagents_core::state::Update;
use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use deepagents_fs::lines::LineRange;
use deepagents_fs::{Backend, ByteRange, ContentKind, FsError, Kind, Stat, VPath, classify};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{failed, failed_at, no_place};
use crate::middleware::filesystem::seen::SeenFiles;
use crate::middleware::filesystem::{Filesystem, render};

/// Lines that `read_file` gives unless told otherwise.
const DEFAULT_LIMIT: i64 = 100;

pub(in crate::middleware::filesystem) struct Ls(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct LsArgs {
    /// Absolute path of a directory.
    path: String,
}

impl Tool for Ls {
    type Args = LsArgs;

    fn name(&self) -> &str {
        "ls"
    }

    fn description(&self) -> &str {
        "Lists a directory, one absolute path a line; directories end with /."
    }

    fn effect(&self, _args: &LsArgs) -> Effect {
        Effect::Read
    }

    async fn call(&self, args: LsArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.0.reach(&args.path, &cx).await?;
        let backend = self.0.workspace.of(&cx);
        let listing = match backend.list(cx.state(), &path).await {
            Ok(listing) => listing,
            Err(error) if !backend.capabilities().directories => return no_place("files", error),
            Err(error) => return Err(failed_at(&path)(error)),
        };
        let mut lines: Vec<String> = listing
            .entries
            .iter()
            .map(
                |entry| if entry.kind == Kind::Directory { format!("{}/", entry.path) } else { entry.path.to_string() },
            )
            .collect();
        if lines.is_empty() {
            lines.push("No files found".to_owned());
        }
        let hidden = listing.unnameable;
        let note = (hidden > 0).then(|| format!("[{hidden} entries have names that cannot be shown]"));
        Ok(self.0.bounded(&lines, note.as_slice()).into())
    }
}

pub(in crate::middleware::filesystem) struct ReadFile(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct ReadArgs {
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

fn default_limit() -> i64 {
    DEFAULT_LIMIT
}

impl Tool for ReadFile {
    type Args = ReadArgs;

    fn name(&self) -> &str {
        "read_file"
    }

    fn description(&self) -> &str {
        "Reads a file. Text comes with line numbers and a tab before each line, which are not part of the file; a part of a file ends with where to go on. What is not text is attached, such as pictures and PDF. Read several files in one turn."
    }

    fn effect(&self, _args: &ReadArgs) -> Effect {
        Effect::Read
    }

    async fn call(&self, args: ReadArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.0.reach(&args.file_path, &cx).await?;
        let backend = self.0.workspace.of(&cx);
        let head = ByteRange::first(classify::SNIFFED as u64);
        let head = backend.read(cx.state(), &path, head).await.map_err(failed_at(&path))?;
        let whole = head.bytes.len() as u64 == head.stat.size;
        let seen = Update::of::<SeenFiles>(vec![(path.clone(), head.stat.version.clone())]);
        if head.stat.size == 0 {
            return Ok(ToolOutput::text("The file exists but is empty.").with_update(seen));
        }
        let output = match classify::classify(&path, &head.bytes, whole) {
            (ContentKind::Text, _) if args.limit <= 0 => {
                // Nothing was seen of it.
                return Ok(format!("No lines of {path} were read, as limit was {}.", args.limit).into());
            }
            (ContentKind::Text, _) => self.text(&args, &path, &*backend, &cx).await?,
            (kind, mime) => self.media(&path, kind, mime, &head.stat, &*backend, &cx).await?,
        };
        Ok(output.with_update(seen))
    }
}

impl ReadFile {
    async fn text(
        &self,
        args: &ReadArgs,
        path: &VPath,
        backend: &dyn Backend,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let offset = u64::try_from(args.offset).unwrap_or(0);
        let limit = u64::try_from(args.limit).unwrap_or(0);
        let budget = self.0.budget();
        let range = LineRange::new(offset, limit).column(args.column);
        let range = match budget {
            Some(chars) => range.max_bytes(chars.saturating_mul(4)),
            None => range,
        };
        let window = backend.read_lines(cx.state(), path, range).await.map_err(failed)?;
        if window.lines.is_empty() {
            let length = window.total.map(|total| format!(", which has {total} lines")).unwrap_or_default();
            return Err(failed(format!("offset {offset} is past the end of {path}{length}")));
        }
        let blank = window.lines.iter().all(|line| line.trim().is_empty());
        if let Some(lines) = window.total.filter(|_| blank && offset == 0 && window.next.is_none() && !window.cut) {
            return Ok(format!("The file exists but holds nothing but white space: {lines} lines of it.").into());
        }
        let mut notices = Vec::new();
        if args.offset < 0 {
            notices.push(format!("offset {} is before the start of the file; line 1 is the first", args.offset));
        }
        let shown = render::Shown { format: self.0.options.read_format, budget, column: args.column, notices };
        Ok(render::window(&window, shown).into())
    }

    async fn media(
        &self,
        path: &VPath,
        kind: ContentKind,
        mime: &str,
        stat: &Stat,
        backend: &dyn Backend,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let limit = self.0.options.max_media_bytes;
        if stat.size > limit {
            return Err(failed(FsError::TooLarge { path: path.clone(), size: stat.size, limit }));
        }
        let file = backend.read(cx.state(), path, ByteRange::ALL).await.map_err(failed)?;
        let kind = match kind {
            ContentKind::Image => MediaKind::Image,
            ContentKind::Audio => MediaKind::Audio,
            ContentKind::Video => MediaKind::Video,
            _ => MediaKind::File,
        };
        let media = Media {
            kind,
            mime: mime.to_owned(),
            source: MediaSource::Base64(BASE64.encode(&file.bytes)),
            name: path.name().map(str::to_owned),
        };
        Ok(ToolOutput::blocks(vec![Block::Media(media)]))
    }
}
