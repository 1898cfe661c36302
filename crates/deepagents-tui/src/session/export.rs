//! Exports the conversation to a file of the directory.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use super::Session;
use crate::app::event::Event;

/// Reports why a conversation was not exported to the file.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("`{0}` is outside this directory; name a file below it")]
    Outside(String),
    #[error("`{0}`: `~` does not mean the home directory here; name a file below this directory")]
    Home(String),
    #[error("{0} already exists and was not changed; remove it, or name another file")]
    Taken(String),
    #[error("{file} cannot be written: {error}")]
    Io { file: String, error: io::Error },
}

impl Session {
    /// Writes the conversation to a file below the root. The file must be new, or an earlier export of this session.
    pub(super) fn export(&self, file: String, text: String) {
        self.spawn(|this| async move {
            let (root, own, name) = (this.root.clone(), this.with(|state| state.exported.clone()), file.clone());
            let path = tokio::task::spawn_blocking(move || write(&root, &name, &text, &own)).await??;
            this.with(|state| state.exported.insert(path));
            Ok(Some(Event::notice(format!("the conversation was written to {file}"))))
        });
    }
}

fn write(root: &Path, file: &str, text: &str, own: &BTreeSet<PathBuf>) -> Result<PathBuf, ExportError> {
    let path = below(root, file)?;
    let failed = |error| ExportError::Io { file: file.to_owned(), error };
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ExportError::Outside(file.to_owned()));
    };
    // Symbolic links may lead outside, so the real path decides. It is checked before any directory is created.
    let root = root.canonicalize().map_err(failed)?;
    let known = directory.ancestors().find(|known| known.symlink_metadata().is_ok()).unwrap_or(directory);
    if !known.canonicalize().map_err(failed)?.starts_with(&root) {
        return Err(ExportError::Outside(file.to_owned()));
    }
    std::fs::create_dir_all(directory).map_err(failed)?;
    let directory = directory.canonicalize().map_err(failed)?;
    if !directory.starts_with(&root) {
        return Err(ExportError::Outside(file.to_owned()));
    }
    let path = directory.join(name);
    if own.contains(&path) {
        // The file may have become a symbolic link: this removes the link, not its target.
        std::fs::remove_file(&path).or_else(ignore_missing).map_err(failed)?;
    }
    // An existing file belongs to somebody else, and a symbolic link may lead outside; neither is written to.
    let made = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut made = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(ExportError::Taken(file.to_owned()));
        }
        made => made.map_err(failed)?,
    };
    made.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path)
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Resolves a path below the root, without following symbolic links.
fn below(root: &Path, file: &str) -> Result<PathBuf, ExportError> {
    if file == "~" || file.starts_with("~/") {
        return Err(ExportError::Home(file.to_owned()));
    }
    let path = Path::new(file);
    let relative = path.strip_prefix(root).unwrap_or(path);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || file.is_empty() {
        return Err(ExportError::Outside(file.to_owned()));
    }
    Ok(root.join(relative))
}
