//! The directories of threads on disk.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use deepagents::bytes::Bytes;
use deepagents::fs::lines::{LineRange, LineWindow};
use deepagents::fs::{
    Backend, ByteRange, FileRead, FsError, FsFuture, Listing, LocalBackend, OpenError, Stat, VPath, WriteMode, Written,
};
use deepagents::{State, Update};

use super::names::is_name;

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn create(directory: &Path) -> io::Result<()> {
    // Conversations are private.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

pub(super) fn remove(directory: &Path) -> io::Result<()> {
    found(fs::remove_dir_all(directory)).map(|_| ())
}

/// Returns the names of the directories of threads in a place. What else somebody keeps there is not ours.
pub(super) fn names(place: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = found(fs::read_dir(place))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && is_name(&name)
            && entry.file_type()?.is_dir()
            && is_ours(&entry.path())?
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a directory has nothing but the directories of a thread.
fn is_ours(directory: &Path) -> io::Result<bool> {
    let Some(mut entries) = found(fs::read_dir(directory))? else { return Ok(false) };
    entries.try_fold(true, |ours, entry| {
        let name = entry?.file_name();
        Ok(ours && (name == "large_tool_results" || name == "conversation_history"))
    })
}

/// Turns the error that there is nothing into `None`.
fn found<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Some(entries) = found(fs::read_dir(from))? else { return Ok(()) };
    create(to)?;
    for entry in entries {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            // A file that is being written has a temporary name, which may be gone by now.
            found(fs::copy(&from, &to))?;
        }
    }
    Ok(())
}

/// A directory that is made when the first file is written.
pub(super) struct MadeOnWrite(pub(super) PathBuf);

impl MadeOnWrite {
    async fn open(&self, path: &VPath, makes: bool) -> Result<LocalBackend, FsError> {
        let directory = self.0.clone();
        let opened = blocking(move || {
            if makes {
                create(&directory)?;
            }
            LocalBackend::open(directory).map_err(|OpenError { source, .. }| source)
        });
        opened.await.map_err(|error| FsError::from_io(path, &error))
    }
}

impl Backend for MadeOnWrite {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(async move { self.open(path, false).await?.stat(state, path).await })
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move { self.open(path, false).await?.read(state, path, range).await })
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move { self.open(path, false).await?.read_lines(state, path, range).await })
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move { self.open(path, false).await?.list(state, path).await })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move { self.open(path, true).await?.write(state, path, data, mode).await })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { self.open(path, false).await?.delete(state, path).await })
    }

    fn shell_visible(&self, _: &VPath) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_keeps_in_the_place_is_no_directory_of_a_thread() {
        let place = tempfile::tempdir().unwrap();
        for directory in ["t1/large_tool_results", "t2", "css/large_tool_results", "css/themes", "images/large"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(place.path().join("readme"), "").unwrap();
        let mut names = names(place.path()).unwrap();
        names.sort();
        assert_eq!(names, ["t1", "t2"]);
        assert_eq!(self::names(&place.path().join("absent")).unwrap(), Vec::<String>::new());
    }
}
