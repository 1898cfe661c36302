//! What is too long for the conversations of threads, for each thread in a place of its own.

mod directory;
mod stored;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::journal::Journal;
use deepagents::fs::{Backend, LocalBackend, ReadOnly, StoreBackend};
use deepagents::{ArtifactRequest, DeepAgentBuilder, Store};
use tempfile::TempDir;

use super::database;
use crate::args::Database;
use directory::{MadeOnWrite, blocking, encoded};

/// The end of the directory's name, after that of the database.
pub(crate) const SUFFIX: &str = ".files";
/// Maximum length of the name of a thread's directory.
const MAX_NAME: usize = 240;

/// The place with those of the threads.
#[derive(Clone)]
pub(crate) struct Artifacts(Place);

#[derive(Clone)]
enum Place {
    /// A directory beside the database.
    Directory(PathBuf),
    /// A directory that is removed when the last owner is dropped.
    Temporary(Arc<TempDir>),
    /// The database itself.
    Stored(Arc<dyn Store>),
}

impl Artifacts {
    /// Returns the directory beside a database; `None` if the database has no file name.
    pub(crate) fn beside(given: &Database) -> Result<Option<Self>> {
        let database = database::place(given)?;
        // The directory in which the program runs may change; that of the files may not.
        let database = std::path::absolute(&database).unwrap_or(database);
        Ok(database.file_name().map(|name| {
            let mut own = name.to_owned();
            own.push(SUFFIX);
            Self(Place::Directory(database.with_file_name(own)))
        }))
    }

    /// Returns a directory for threads that end with the program.
    pub(crate) fn temporary() -> Result<Self> {
        let made = tempfile::tempdir();
        let made = made.map_err(|error| anyhow!("no directory for temporary files could be created: {error}"))?;
        Ok(Self(Place::Temporary(Arc::new(made))))
    }

    /// Returns a place in a database that is no file.
    pub(crate) fn stored(store: Arc<dyn Store>) -> Self {
        Self(Place::Stored(store))
    }

    /// Lets an agent that works in a directory keep there what is too long for its conversations.
    pub(crate) fn give(&self, builder: DeepAgentBuilder, root: &Path) -> DeepAgentBuilder {
        let (own, root) = (self.clone(), root.to_owned());
        builder.artifact_files(move |asked| own.files(asked, &root))
    }

    fn files(&self, asked: &ArtifactRequest<'_>, root: &Path) -> Option<Arc<dyn Backend>> {
        let thread = conversation(asked.cx.root_thread()?);
        if let Place::Stored(store) = &self.0 {
            let files = StoreBackend::new(store.clone(), stored::namespace(thread, asked.directory));
            return Some(if asked.writes { Arc::new(files) } else { Arc::new(ReadOnly::new(files)) });
        }
        let directory = self.of(thread)?.join(asked.directory);
        let made = MadeOnWrite(directory.clone());
        if asked.writes {
            return Some(Arc::new(made));
        }
        match LocalBackend::open(directory) {
            Ok(files) => Some(Arc::new(ReadOnly::new(files))),
            // The agent sees no directory before something is in it, unless earlier versions kept there what belongs to
            // the threads of everybody.
            Err(error)
                if error.source.kind() == ErrorKind::NotFound
                    && root.join(asked.directory).symlink_metadata().is_err() =>
            {
                None
            }
            // Each access reports the error.
            Err(_) => Some(Arc::new(ReadOnly::new(made))),
        }
    }

    /// Returns the directory of a thread, which is also that of its background tasks.
    fn of(&self, thread: &str) -> Option<PathBuf> {
        let place = match &self.0 {
            Place::Directory(place) => place,
            Place::Temporary(made) => made.path(),
            Place::Stored(_) => return None,
        };
        let name = encoded(conversation(thread));
        (1..=MAX_NAME).contains(&name.len()).then(|| place.join(name))
    }

    /// Removes what a deleted thread left.
    pub(super) async fn remove(&self, thread: &str) -> Result<()> {
        // A background task shares what its conversation has.
        if conversation(thread) != thread {
            return Ok(());
        }
        if let Place::Stored(store) = &self.0 {
            return Ok(stored::remove(&**store, thread).await?);
        }
        match self.of(thread) {
            Some(directory) => Ok(blocking(move || directory::remove(&directory)).await?),
            None => Ok(()),
        }
    }

    /// Gives a copied thread what the other has.
    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (conversation(from), conversation(to));
        if from == to {
            return Ok(());
        }
        if let Place::Stored(store) = &self.0 {
            return Ok(stored::copy(&**store, from, to).await?);
        }
        match self.of(from).zip(self.of(to)) {
            Some((from, to)) => Ok(blocking(move || directory::copy(&from, &to)).await?),
            None => Ok(()),
        }
    }

    /// Removes the directories of threads that no longer exist.
    pub(crate) async fn gc(&self, journal: &dyn Journal) -> Result<()> {
        let threads = match &self.0 {
            Place::Temporary(_) => return Ok(()),
            Place::Stored(store) => stored::threads(&**store).await?,
            Place::Directory(place) => {
                let place = place.clone();
                blocking(move || directory::threads(&place)).await?
            }
        };
        for thread in threads {
            if journal.threads().get(&thread).await?.is_none() {
                self.remove(&thread).await?;
            }
        }
        Ok(())
    }
}

/// Returns the thread whose conversation a thread belongs to: a background task is named below it.
fn conversation(thread: &str) -> &str {
    thread.split('/').next().unwrap_or_default()
}
