//! The directories of threads on disk.

use std::ffi::OsStr;
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

/// Returns the threads that have a directory in a place. What else somebody keeps there is not ours.
pub(super) fn threads(place: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = found(fs::read_dir(place))? else { return Ok(Vec::new()) };
    let mut threads = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Some(thread) = decoded(&entry.file_name())
            && entry.file_type()?.is_dir()
            && is_ours(&entry.path())?
        {
            threads.push(thread);
        }
    }
    Ok(threads)
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

/// Returns the name of a thread as that of a file, also where upper and lower case are the same.
pub(super) fn encoded(thread: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    thread.bytes().map(part).collect()
}

/// Returns the thread whose directory has a name.
pub(super) fn decoded(name: &OsStr) -> Option<String> {
    let mut parts = name.to_str()?.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|thread| name == encoded(thread).as_str())
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
    fn every_thread_has_a_name_that_leads_back_to_it() {
        for thread in ["4f1c09a2", "A", "a", "..", "ä b%41", "thread-1_x"] {
            let name = encoded(thread);
            assert!(name.is_ascii() && !name.contains(['.', 'A']), "{name}");
            assert_eq!(decoded(OsStr::new(&name)).as_deref(), Some(thread));
        }
        for other in ["notes.txt", "A", "%", "%4", "%61", "%ff"] {
            assert_eq!(decoded(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn what_somebody_else_keeps_in_the_place_is_no_directory_of_a_thread() {
        let place = tempfile::tempdir().unwrap();
        for directory in ["t1/large_tool_results", "t2", "css/large_tool_results", "css/themes", "images/large"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(place.path().join("readme"), "").unwrap();
        let mut threads = threads(place.path()).unwrap();
        threads.sort();
        assert_eq!(threads, ["t1", "t2"]);
        assert_eq!(self::threads(&place.path().join("absent")).unwrap(), Vec::<String>::new());
    }
}
