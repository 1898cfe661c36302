//! `write_file`, `edit_file` and `delete`.

use std::sync::Arc;

use deepagents_core::state::Update;
use deepagents_core::tool::{ToolContext, ToolOutput};
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::{FsError, Kind, WriteMode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Answered, failed, failed_at};
use crate::middleware::filesystem::Filesystem;
use crate::middleware::filesystem::seen::{self, SeenFiles};
use crate::workspace::AtLink;

#[derive(Deserialize, JsonSchema)]
pub(super) struct WriteArgs {
    /// Absolute path.
    pub(super) file_path: String,
    /// The whole content.
    content: String,
}

pub(super) async fn write_file(files: Arc<Filesystem>, args: WriteArgs, cx: ToolContext) -> Answered {
    let target = files.reach_to_change(&args.file_path, AtLink::Follows, &cx).await?;
    let path = &target.path;
    let backend = &target.backend;
    let mode = if files.options.read_before_edit {
        match backend.stat(cx.state(), path).await {
            Ok(there) if there.kind == Kind::File => {
                seen::check(&cx, path, &there.version)?;
                WriteMode::IfVersion(there.version)
            }
            Ok(_) => WriteMode::Overwrite,
            Err(FsError::NotFound(_)) => WriteMode::Create,
            // The thread knows the version of an unreadable file if it wrote it.
            Err(FsError::Denied { .. }) => {
                seen::version(&cx, path).cloned().map_or(WriteMode::Create, WriteMode::IfVersion)
            }
            Err(error) => return Err(failed_at(path)(error)),
        }
    } else {
        WriteMode::Overwrite
    };
    target.approved(&cx)?;
    let written = backend.write(cx.state(), path, args.content.into(), mode).await.map_err(failed_at(path))?;
    let seen = Update::new::<SeenFiles>(vec![(path.clone(), written.version)]);
    Ok(ToolOutput::text(format!("Wrote {}", path.quoted())).with_update(written.update.and(seen)))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct EditArgs {
    /// Absolute path.
    pub(super) file_path: String,
    /// The text to replace, exactly as in the file, without line numbers; with enough around it to be unique.
    old_string: String,
    /// The replacement.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// More edits of the same file, made in order after the first; either all are made or none.
    #[serde(default)]
    edits: Vec<MoreEdit>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct MoreEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) async fn edit_file(files: Arc<Filesystem>, args: EditArgs, cx: ToolContext) -> Answered {
    let target = files.reach_to_change(&args.file_path, AtLink::Follows, &cx).await?;
    let path = &target.path;
    let backend = &target.backend;
    let EditArgs { old_string, new_string, replace_all, edits, .. } = args;
    let all = std::iter::once(MoreEdit { old_string, new_string, replace_all }).chain(edits);
    let edits = all.map(|e| Edit { old: e.old_string, new: e.new_string, replace_all: e.replace_all });
    let edits: Vec<Edit> = edits.collect();
    let expected = if files.options.read_before_edit {
        match backend.stat(cx.state(), path).await {
            Ok(there) if there.kind == Kind::File => {
                seen::check(&cx, path, &there.version)?;
                Some(there.version)
            }
            Ok(there) => Some(there.version),
            Err(error @ FsError::Denied { .. }) => Some(seen::version(&cx, path).cloned().ok_or(failed(error))?),
            Err(error) => return Err(failed_at(path)(error)),
        }
    } else {
        seen::unreadable(&cx, &**backend, path).await?
    };
    target.approved(&cx)?;
    let edited = edit::edit(&**backend, cx.state(), path, &edits, expected.as_ref()).await;
    let edited = edited.map_err(|error| match error.index() {
        Some(index) if edits.len() > 1 => failed(format!("edit {} of {}: {error}", index + 1, edits.len())),
        _ => failed_at(path)(error),
    })?;
    let places: usize = edited.replaced.iter().sum();
    let text = format!("Edited {}: replaced {places} {}", path.quoted(), if places == 1 { "place" } else { "places" });
    let seen = Update::new::<SeenFiles>(vec![(path.clone(), edited.version)]);
    Ok(ToolOutput::text(text).with_update(edited.update.and(seen)))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DeleteArgs {
    /// Absolute path.
    pub(super) file_path: String,
}

pub(super) async fn delete(files: Arc<Filesystem>, args: DeleteArgs, cx: ToolContext) -> Answered {
    let target = files.reach_to_change(&args.file_path, AtLink::NoFollow, &cx).await?;
    let path = &target.path;
    target.approved(&cx)?;
    let update = target.backend.delete(cx.state(), path).await.map_err(failed_at(path))?;
    Ok(ToolOutput::text(format!("Deleted {}", path.quoted())).with_update(update))
}
