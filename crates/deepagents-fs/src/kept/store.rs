//! Contents by their hash, and the directory that everything is kept in.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use deepagents_core::state::State;
use sha2::{Digest, Sha256};

use super::Marks;

/// Where what a run changes is kept, and how much of it.
///
/// One directory serves any number of workspaces and threads; it must lie outside of the workspaces. What it holds
/// grows with what runs change; [`Keep::sweep`] removes what belongs to threads that are no more.
///
/// ```
/// use deepagents_fs::{Keep, LocalBackend, LocalOptions};
/// # let (files, kept) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// let keep = Keep::in_dir(kept.path()).max_file(1 << 20);
/// let backend = LocalBackend::open_with(files.path(), LocalOptions::default().keep(keep))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Keep {
    pub(crate) dir: PathBuf,
    pub(crate) max_file: u64,
    pub(crate) max_tree: u64,
    pub(crate) max_tree_files: usize,
}

impl Keep {
    /// Keeps in a directory, which is made where it is missing.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), max_file: 32 << 20, max_tree: 256 << 20, max_tree_files: 10_000 }
    }

    /// Bytes of the largest file whose content is kept; 32 MiB by default. A larger one can be changed, and not be put
    /// back.
    #[must_use]
    pub fn max_file(mut self, bytes: u64) -> Self {
        self.max_file = bytes;
        self
    }

    /// Bytes and files that are kept of a directory deleted as a whole; 256 MiB and 10,000 by default.
    #[must_use]
    pub fn max_tree(mut self, bytes: u64, files: usize) -> Self {
        self.max_tree = bytes;
        self.max_tree_files = files;
        self
    }

    /// Removes what is kept for threads of which `lives` says no, and all contents that nothing needs any more. Runs
    /// that change files meanwhile wait for it and lose nothing; but `lives` must know of threads that began a moment
    /// ago, so look each up when it is asked about instead of in a list from before.
    ///
    /// Blocks the thread it is called on.
    ///
    /// # Errors
    /// When the directory cannot be read or changed.
    pub fn sweep(&self, lives: impl FnMut(&str) -> bool) -> io::Result<Swept> {
        if !self.dir.exists() {
            return Ok(Swept::default());
        }
        Store::open(self)?.sweep(lives)
    }

    /// Gives a copy of a thread what is kept for the thread it was copied from, so that it does not depend on that one
    /// any more. `state` is the copy's. A copy that runs does this by itself when it first changes a file.
    ///
    /// Blocks the thread it is called on.
    ///
    /// # Errors
    /// When the directory cannot be read or changed.
    pub fn adopt(&self, thread: &str, state: &State) -> io::Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        let store = Store::open(self)?;
        let _held = store.shared()?;
        for root in Marks::roots(state) {
            let Some(marks) = Marks::in_thread(state, &root, thread) else { continue };
            store.append(&marks.id, &marks.earlier, Vec::new(), false)?;
        }
        Ok(())
    }

    /// Forgets what is needed only to go back further than to any of these states of a thread, whose present state is
    /// `here`. Contents that nothing needs any more are removed by the next sweep.
    ///
    /// Blocks the thread it is called on.
    ///
    /// # Errors
    /// When the directory cannot be read or changed.
    pub fn trim<'a>(&self, here: &'a State, others: impl IntoIterator<Item = &'a State>) -> io::Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        let store = Store::open(self)?;
        let others: Vec<&State> = others.into_iter().chain([here]).collect();
        for root in Marks::roots(here) {
            let Some(marks) = Marks::of(here, &root) else { continue };
            let oldest = others.iter().map(|state| Marks::reached(state, &root)).min().unwrap_or(0);
            store.trim(&marks.id, oldest)?;
        }
        Ok(())
    }
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Threads and directories of which nothing is kept any more.
    pub lines: usize,
    /// Contents.
    pub contents: usize,
    /// Bytes that were freed.
    pub bytes: u64,
}

/// The directory that is kept in.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) keep: Keep,
    lock: PathBuf,
    /// Appends of this process one after the other.
    pub(super) appending: Mutex<()>,
}

/// Held while contents are put and rows are written that need them, or by a sweep.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: File,
}

impl Store {
    /// Nothing is made on disk before something is kept.
    pub(crate) fn open(keep: &Keep) -> io::Result<Self> {
        let dir = real(&std::path::absolute(&keep.dir)?)?;
        Ok(Self { lock: dir.join("lock"), keep: Keep { dir, ..keep.clone() }, appending: Mutex::new(()) })
    }

    fn lock_file(&self) -> io::Result<File> {
        for directory in [self.keep.dir.clone(), self.keep.dir.join("contents"), self.lines()] {
            // What files held is nobody else's business.
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.lock)
    }

    /// Keeps sweeps away.
    pub(crate) fn shared(&self) -> io::Result<Held> {
        let lock = self.lock_file()?;
        lock.lock_shared()?;
        Ok(Held { _lock: lock })
    }

    /// Keeps everybody else away.
    pub(super) fn exclusive(&self) -> io::Result<Held> {
        let lock = self.lock_file()?;
        lock.lock()?;
        Ok(Held { _lock: lock })
    }

    fn place(&self, hash: &str) -> PathBuf {
        let (head, tail) = hash.split_at_checked(2).unwrap_or((hash, ""));
        self.keep.dir.join("contents").join(head).join(tail)
    }

    pub(super) fn lines(&self) -> PathBuf {
        self.keep.dir.join("lines")
    }

    /// Stores a content, and returns its hash.
    pub(crate) fn put(&self, content: &[u8], sync: bool) -> io::Result<String> {
        let hash = hash_of(content);
        let place = self.place(&hash);
        // One of another size was cut short when the machine stopped.
        if fs::metadata(&place).is_ok_and(|there| there.len() == content.len() as u64) {
            return Ok(hash);
        }
        let Some(directory) = place.parent() else { return Ok(hash) };
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        write_aside(directory, content, sync, |temporary| fs::rename(temporary, &place))?;
        Ok(hash)
    }

    /// A content that was stored, unless it is missing or damaged.
    pub(crate) fn get(&self, hash: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.place(hash)) {
            Ok(content) => Ok((hash_of(&content) == hash).then_some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sweep(&self, mut lives: impl FnMut(&str) -> bool) -> io::Result<Swept> {
        let _alone = self.exclusive()?;
        let mut swept = Swept::default();
        let mut needed = HashSet::new();
        for file in children(&self.lines())? {
            // Nobody else is at work, so it is what a process left that was ended.
            if name_of(&file).starts_with(TEMPORARY) {
                fs::remove_file(&file)?;
                continue;
            }
            let thread = super::line::thread_of(&file)?;
            if thread.is_some_and(|thread| lives(&thread)) {
                super::line::hashes(&file, &mut needed)?;
            } else {
                swept.bytes += fs::metadata(&file)?.len();
                swept.lines += 1;
                fs::remove_file(&file)?;
            }
        }
        for directory in children(&self.keep.dir.join("contents"))? {
            let head = name_of(&directory);
            for file in children(&directory)? {
                if !needed.contains(&format!("{head}{}", name_of(&file))) {
                    swept.bytes += fs::metadata(&file)?.len();
                    swept.contents += 1;
                    fs::remove_file(&file)?;
                }
            }
        }
        Ok(swept)
    }
}

/// A path without links as far as it exists.
fn real(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == ErrorKind::NotFound => Ok(real(parent)?.join(name)),
        (result, ..) => result,
    }
}

/// How names of files begin that are not yet in their place.
const TEMPORARY: &str = ".tmp-";

/// Writes a file under a temporary name in a directory, and has it put in its place.
pub(super) fn write_aside(
    directory: &Path,
    content: &[u8],
    sync: bool,
    put: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let path = directory.join(format!("{TEMPORARY}{:016x}", fastrand::u64(..)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let synced = |file: &File| if sync { file.sync_all() } else { Ok(()) };
    let done = file.write_all(content).and_then(|()| synced(&file)).and_then(|()| put(&path));
    // It is gone where it was moved to its place.
    let _ = fs::remove_file(&path);
    done
}

fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The SHA-256 of a content, in hexadecimal digits.
pub(crate) fn hash_of(content: &[u8]) -> String {
    digits(&Sha256::digest(content))
}

/// The hash and size of what is read, held in memory only in part.
pub(crate) fn hash_stream(mut from: impl Read) -> io::Result<(String, u64)> {
    let (mut hasher, mut size, mut chunk) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok((digits(&hasher.finalize()), size)),
            Ok(n) => {
                hasher.update(chunk.get(..n).unwrap_or_default());
                size += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
