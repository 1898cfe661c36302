//! `apply_patch`.

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::middleware::on_text;
use deepagents_core::state::Update;
use deepagents_core::tool::{Effect, ToolContext, ToolError, ToolOutput};
use deepagents_fs::permissions::AccessMode;
use deepagents_fs::{Backend, FsError, Kind, VPath, WriteMode, edit};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reach::Target;
use super::{Answered, failed, failed_at};
use crate::middleware::filesystem::Filesystem;
use crate::middleware::filesystem::patch::{FileChange, Hunk, Patch, apply};
use crate::middleware::filesystem::seen::{self, SeenFiles};
use crate::workspace::AtLink;

#[derive(Deserialize, JsonSchema)]
pub(super) struct PatchArgs {
    /// The whole patch.
    input: String,
}

/// A write to all paths of the patch; an invalid patch touches nothing.
pub(super) fn effect(args: &PatchArgs) -> Effect {
    match Patch::parse(&args.input) {
        Ok(patch) => Effect::Write { paths: patch.paths().map(|path| path.as_str().to_owned()).collect() },
        Err(_) => Effect::Read,
    }
}

/// A planned write or deletion.
struct FileStep {
    path: VPath,
    /// The data to write; `None` to delete the path.
    write: Option<(Bytes, WriteMode)>,
}

pub(super) async fn apply_patch(files: Arc<Filesystem>, args: PatchArgs, cx: ToolContext) -> Answered {
    let patch = Patch::parse(&args.input).map_err(failed)?;
    let mut targets = Vec::new();
    for path in patch.paths() {
        let target = files.reach_to_change(path.as_str(), AtLink::Follows, &cx).await?;
        // A person is asked about the paths in the patch, so they must not lead elsewhere.
        if target.place != target.path {
            let (path, place) = (target.path.quoted(), target.place.quoted());
            return Err(failed(format!("{path} leads to {place}: name that path in the patch")));
        }
        targets.push(target);
    }
    let backend = files.workspace.backend_for(&cx);
    let mut steps = Vec::new();
    for change in patch.changes {
        plan(&files, &*backend, change, &cx, &mut steps).await?;
    }
    Target::all_approved(&targets, &cx)?;
    apply_steps(&*backend, steps, &cx).await
}

/// Plans the writes of a change. Nothing is written yet, so a failure leaves all files unchanged.
async fn plan(
    files: &Filesystem,
    backend: &dyn Backend,
    change: FileChange,
    cx: &ToolContext,
    steps: &mut Vec<FileStep>,
) -> Result<(), ToolError> {
    match change {
        FileChange::Add { path, content } => {
            check_absent(backend, &path, cx).await?;
            steps.push(FileStep { path, write: Some((content.into(), WriteMode::Create)) });
        }
        FileChange::Delete { path } => {
            check_changeable(backend, &path).await?;
            match backend.read_to_change(cx.state(), &path).await {
                Ok(_) | Err(FsError::TooLarge { .. }) => {}
                Err(error) => return Err(failed_at(&path)(error)),
            }
            steps.push(FileStep { path, write: None });
        }
        FileChange::Update { path, move_to, hunks } => {
            check_changeable(backend, &path).await?;
            let file = backend.read_to_change(cx.state(), &path).await.map_err(failed_at(&path))?;
            if file.stat.kind != Kind::File {
                return Err(failed(FsError::IsDirectory(path)));
            }
            let written = seen::unreadable(cx, backend, &path).await?;
            if files.options.read_before_edit || written.is_some() {
                seen::check(cx, &path, &file.stat.version)?;
            }
            let after = changed(&path, file.bytes, hunks).await?;
            let Some(to) = move_to else {
                steps.push(FileStep { path, write: Some((after, WriteMode::IfVersion(file.stat.version))) });
                return Ok(());
            };
            check_absent(backend, &to, cx).await?;
            // Write the new path first, so that the content always exists somewhere.
            steps.push(FileStep { path: to, write: Some((after, WriteMode::Create)) });
            steps.push(FileStep { path, write: None });
        }
    }
    Ok(())
}

/// Rejects a path that the store would not allow to be changed.
async fn check_changeable(backend: &dyn Backend, path: &VPath) -> Result<(), ToolError> {
    match backend.change_access(path).await {
        AccessMode::Deny => Err(failed(FsError::Protected(path.clone()))),
        _ => Ok(()),
    }
}

/// Rejects a path that exists or must not be written.
async fn check_absent(backend: &dyn Backend, path: &VPath, cx: &ToolContext) -> Result<(), ToolError> {
    check_changeable(backend, path).await?;
    match backend.read_to_change(cx.state(), path).await {
        Err(FsError::NotFound(_)) => Ok(()),
        Ok(_) | Err(FsError::TooLarge { .. } | FsError::IsDirectory(_)) => {
            Err(failed(format!("{} exists already; change it with `*** Update File`", path.quoted())))
        }
        Err(error) => Err(failed_at(path)(error)),
    }
}

/// Returns the content of a file after its hunks.
async fn changed(path: &VPath, before: Bytes, hunks: Vec<Hunk>) -> Result<Bytes, ToolError> {
    let binary = || failed(edit::EditError::Binary(path.clone()));
    if before.contains(&0) {
        return Err(binary());
    }
    let bytes = before.len();
    let work = move || {
        let (mark, text) = match before.strip_prefix(BOM) {
            Some(text) => (BOM, text),
            None => (&[][..], &before[..]),
        };
        let text = std::str::from_utf8(text).ok()?;
        Some(apply(text, &hunks).map(|after| [mark, after.as_bytes()].concat()))
    };
    let after = on_text(bytes, work).await.ok_or_else(binary)?;
    let after = after.map_err(|error| failed(format!("{}: {error}", path.quoted())))?;
    let (size, limit) = (after.len() as u64, edit::MAX_BYTES);
    if size > limit {
        return Err(failed(FsError::TooLarge { path: path.clone(), size, limit }));
    }
    Ok(after.into())
}

/// The byte order mark.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Carries out the steps in order. If one fails, earlier ones stay in effect, and the model is told which were done and
/// which were not.
async fn apply_steps(backend: &dyn Backend, steps: Vec<FileStep>, cx: &ToolContext) -> Answered {
    let (mut update, mut seen, mut done) = (Update::none(), Vec::new(), Vec::new());
    let mut steps = steps.into_iter();
    while let Some(FileStep { path, write }) = steps.next() {
        let verb = if write.is_some() { "Wrote" } else { "Deleted" };
        // Fails if a link has appeared on the way since: nobody was asked about its target.
        let led = backend.pinned(&path, &path);
        let backend = led.as_deref().unwrap_or(backend);
        let result = match write {
            Some((data, mode)) => backend.write(cx.state(), &path, data, mode).await.map(|written| {
                seen.push((path.clone(), written.version));
                written.update
            }),
            None => backend.delete(cx.state(), &path).await,
        };
        match result {
            Ok(more) => {
                update = update.and(more);
                done.push(format!("{verb} {}", path.quoted()));
            }
            Err(error) if done.is_empty() => return Err(failed_at(&path)(error)),
            Err(error) => {
                let left: Vec<String> = std::iter::once(&path)
                    .chain(steps.as_slice().iter().map(|step| &step.path))
                    .map(|path| path.quoted().to_string())
                    .collect();
                let (done, left) = (done.join("\n"), left.join(", "));
                let text = format!("Error: {error}\nThis was done before:\n{done}\nThese are as they were: {left}");
                let seen = Update::new::<SeenFiles>(seen);
                return Ok(ToolOutput::text(text).with_update(update.and(seen)).as_error());
            }
        }
    }
    Ok(ToolOutput::text(done.join("\n")).with_update(update.and(Update::new::<SeenFiles>(seen))))
}
