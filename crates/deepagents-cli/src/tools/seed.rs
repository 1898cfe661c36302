//! Copying the files of a directory into state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::Update;
use deepagents::core::state::{Schema, State};
use deepagents::fs::{Backend, StateBackend, VPath, WriteMode};

/// Maximum total size in bytes, as state is in memory.
const MAX_TOTAL_BYTES: u64 = 64 << 20;

/// Returns the update that puts all files in and below a directory into state. Links are skipped.
pub(super) async fn files(backend: &StateBackend, root: &Path) -> Result<Update> {
    let unreadable = |path: &Path, error: &io::Error| anyhow!("`{}` cannot be read: {error}", path.display());
    let empty = State::new(Arc::new(Schema::new(backend.channels())?));
    let mut update = Update::none();
    let mut bytes = 0;
    let mut directories: Vec<(PathBuf, String)> = vec![(root.to_owned(), String::new())];
    while let Some((directory, above)) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| unreadable(&directory, &error))? {
            let entry = entry.map_err(|error| unreadable(&directory, &error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
            let Some(name) = entry.file_name().to_str().map(|name| format!("{above}/{name}")) else {
                bail!("the name of `{}` is not UTF-8, so it cannot be a file in state", path.display());
            };
            if kind.is_dir() {
                directories.push((path, name));
            } else if kind.is_file() {
                let content = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
                bytes += content.len() as u64;
                if bytes > MAX_TOTAL_BYTES {
                    bail!(
                        "`{}` contains more than {} MB, too much for files in state",
                        root.display(),
                        MAX_TOTAL_BYTES >> 20
                    );
                }
                let to = VPath::parse(&name).map_err(|error| anyhow!("`{}`: {error}", path.display()))?;
                let written = backend.write(&empty, &to, content.into(), WriteMode::Overwrite).await;
                update = update.and(written?.update);
            }
        }
    }
    Ok(update)
}
