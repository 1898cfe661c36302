//! `write_file`, `edit_file` and `delete`.

use std::sync::Arc;

use deepagents_core::state::Update;
use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::{FsError, Kind, WriteMode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{AtLink, failed, failed_at, writes};
use crate::middleware::filesystem::Filesystem;
use crate::middleware::filesystem::seen::{self, SeenFiles};

pub(in crate::middleware::filesystem) struct WriteFile(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct WriteArgs {
    /// Absolute path.
    file_path: String,
    /// The whole content.
    content: String,
}

impl Tool for WriteFile {
    type Args = WriteArgs;

    fn name(&self) -> &str {
        "write_file"
    }

    fn description(&self) -> &str {
        "Writes a whole file, with the directories above it; what was there is replaced. To change a part of a file use edit_file."
    }

    fn effect(&self, args: &WriteArgs) -> Effect {
        writes(&args.file_path)
    }

    async fn call(&self, args: WriteArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.0.reach_to_change(&args.file_path, AtLink::Follows, &cx).await?;
        let backend = self.0.workspace.of(&cx);
        let mode = if self.0.options.read_before_edit {
            match backend.stat(cx.state(), &path).await {
                Ok(there) if there.kind == Kind::File => {
                    seen::check(&cx, &path, &there.version)?;
                    WriteMode::IfVersion(there.version)
                }
                Ok(_) => WriteMode::Overwrite,
                Err(FsError::NotFound { .. }) => WriteMode::Create,
                // What may be written but not read is known to the thread that wrote it.
                Err(FsError::Denied { .. }) => {
                    seen::version(&cx, &path).cloned().map_or(WriteMode::Create, WriteMode::IfVersion)
                }
                Err(error) => return Err(failed_at(&path)(error)),
            }
        } else {
            WriteMode::Overwrite
        };
        let written = backend.write(cx.state(), &path, args.content.into(), mode).await.map_err(failed_at(&path))?;
        let seen = Update::of::<SeenFiles>(vec![(path.clone(), written.version)]);
        Ok(ToolOutput::text(format!("Wrote {path}")).with_update(written.update.and(seen)))
    }
}

pub(in crate::middleware::filesystem) struct EditFile(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct EditArgs {
    /// Absolute path.
    file_path: String,
    /// The text to replace, exactly as in the file, without line numbers; with enough around it to be unique.
    old_string: String,
    /// What to put there.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// More edits of the same file, made in order after the first; either all are made or none.
    #[serde(default)]
    edits: Vec<MoreEdit>,
}

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct MoreEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    type Args = EditArgs;

    fn name(&self) -> &str {
        "edit_file"
    }

    fn description(&self) -> &str {
        "Replaces text in a file that you have read. The old text must occur exactly once unless replace_all is set."
    }

    fn effect(&self, args: &EditArgs) -> Effect {
        writes(&args.file_path)
    }

    async fn call(&self, args: EditArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.0.reach_to_change(&args.file_path, AtLink::Follows, &cx).await?;
        let backend = self.0.workspace.of(&cx);
        let first = Edit { old: args.old_string, new: args.new_string, replace_all: args.replace_all };
        let more =
            args.edits.into_iter().map(|e| Edit { old: e.old_string, new: e.new_string, replace_all: e.replace_all });
        let edits: Vec<Edit> = std::iter::once(first).chain(more).collect();
        let expected = if self.0.options.read_before_edit {
            match backend.stat(cx.state(), &path).await {
                Ok(there) => {
                    if there.kind == Kind::File {
                        seen::check(&cx, &path, &there.version)?;
                    }
                    Some(there.version)
                }
                Err(error @ FsError::Denied { .. }) => {
                    Some(seen::version(&cx, &path).cloned().ok_or_else(|| failed(error))?)
                }
                Err(error) => return Err(failed_at(&path)(error)),
            }
        } else {
            None
        };
        let edited =
            edit::edit(&*backend, cx.state(), &path, &edits, expected.as_ref()).await.map_err(failed_at(&path))?;
        let places: usize = edited.replaced.iter().sum();
        let text = format!("Edited {path}: replaced {places} {}", if places == 1 { "place" } else { "places" });
        let seen = Update::of::<SeenFiles>(vec![(path, edited.version)]);
        Ok(ToolOutput::text(text).with_update(edited.update.and(seen)))
    }
}

pub(in crate::middleware::filesystem) struct Delete(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct DeleteArgs {
    /// Absolute path.
    file_path: String,
}

impl Tool for Delete {
    type Args = DeleteArgs;

    fn name(&self) -> &str {
        "delete"
    }

    fn description(&self) -> &str {
        "Deletes a file, or a directory with everything in it. There is no way back."
    }

    fn effect(&self, args: &DeleteArgs) -> Effect {
        writes(&args.file_path)
    }

    async fn call(&self, args: DeleteArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.0.reach_to_change(&args.file_path, AtLink::Stays, &cx).await?;
        let update = self.0.workspace.of(&cx).delete(cx.state(), &path).await.map_err(failed_at(&path))?;
        Ok(ToolOutput::text(format!("Deleted {path}")).with_update(update))
    }
}
