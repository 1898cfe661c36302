//! What is too long for the conversations of threads, for each thread in a place of its own.

mod directory;
mod leftovers;
mod names;
mod stored;

use std::collections::HashSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::journal::{Journal, JournalError, ThreadQuery};
use deepagents::fs::{Backend, LocalBackend, ReadOnly, StoreBackend};
use deepagents::{ArtifactRequest, DeepAgentBuilder, Store};
use tempfile::TempDir;

use super::database;
use crate::args::Database;
use directory::{MadeOnWrite, blocking};
use names::{decoded, is_hash, name_of};

pub(crate) use leftovers::{remove_leftovers, remove_leftovers_rarely};

/// The end of the directory's name, after that of the database.
pub(crate) const SUFFIX: &str = ".files";

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

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Artifacts").field(&self.directory()).finish()
    }
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

    /// Removes a directory for threads that end with the program, which ends without dropping its owners.
    pub(crate) fn discard(&self) {
        if let Place::Temporary(made) = &self.0 {
            // Nothing can be done about an error, and nobody waits for it.
            let _ = directory::remove(made.path());
        }
    }

    /// Returns the directory for threads that end with the program.
    pub(crate) fn scratch(&self) -> Option<&Path> {
        self.directory().filter(|_| matches!(self.0, Place::Temporary(_)))
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
        let thread = without_tasks(asked.cx.root_thread()?, asked.cx.path());
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

    /// Returns the directory with those of the threads, if there is one.
    fn directory(&self) -> Option<&Path> {
        match &self.0 {
            Place::Directory(place) => Some(place),
            Place::Temporary(made) => Some(made.path()),
            Place::Stored(_) => None,
        }
    }

    /// Returns the directory of a conversation.
    fn of(&self, thread: &str) -> Option<PathBuf> {
        Some(self.directory()?.join(name_of(thread)))
    }

    /// Removes what a thread leaves that is to be deleted.
    pub(super) async fn remove(&self, journal: &dyn Journal, thread: &str) -> Result<()> {
        // A background task shares what its conversation has.
        if conversation(journal, thread).await? != thread {
            return Ok(());
        }
        self.remove_named(&name_of(thread)).await
    }

    async fn remove_named(&self, name: &str) -> Result<()> {
        if let Place::Stored(store) = &self.0 {
            return Ok(stored::remove(&**store, name).await?);
        }
        match self.directory().map(|place| place.join(name)) {
            Some(directory) => Ok(blocking(move || directory::remove(&directory)).await?),
            None => Ok(()),
        }
    }

    /// Gives a copied thread what the other has.
    pub(super) async fn copy(&self, journal: &dyn Journal, from: &str, to: &str) -> Result<()> {
        let (from, to) = (conversation(journal, from).await?, conversation(journal, to).await?);
        if from == to {
            return Ok(());
        }
        if let Place::Stored(store) = &self.0 {
            return Ok(stored::copy(&**store, &from, &to).await?);
        }
        match self.of(&from).zip(self.of(&to)) {
            Some((from, to)) => Ok(blocking(move || directory::copy(&from, &to)).await?),
            None => Ok(()),
        }
    }

    /// Removes the directories of threads that no longer exist.
    pub(crate) async fn gc(&self, journal: &dyn Journal) -> Result<()> {
        let names = match &self.0 {
            Place::Temporary(_) => return Ok(()),
            Place::Stored(store) => stored::names(&**store).await?,
            Place::Directory(place) => {
                let place = place.clone();
                blocking(move || directory::names(&place)).await?
            }
        };
        // Read after the names: a thread is in the journal before it has files.
        let hashed = match names.iter().any(|name| is_hash(name)) {
            true => journal.threads().list(&ThreadQuery::default()).await?,
            false => Vec::new(),
        };
        let hashed: HashSet<String> = hashed.iter().map(|info| name_of(&info.id)).collect();
        for name in names {
            let is_used = match decoded(&name) {
                Some(thread) => journal.threads().get(&thread).await?.is_some(),
                None => hashed.contains(&name),
            };
            if !is_used {
                self.remove_named(&name).await?;
            }
        }
        Ok(())
    }
}

/// Returns the thread of the conversation that a thread belongs to: for a background task, that of its parent.
async fn conversation(journal: &dyn Journal, thread: &str) -> Result<String, JournalError> {
    let mut thread = thread.to_owned();
    while let Some(parent) = journal.threads().get(&thread).await?.and_then(|info| info.parent) {
        thread = parent;
    }
    Ok(thread)
}

/// Returns the thread of the conversation that an agent works in, given its thread and its path. The thread of a
/// background task is named below that of its conversation, and the task is a part of the path.
fn without_tasks<'a>(thread: &'a str, path: &[String]) -> &'a str {
    let (mut thread, mut path) = (thread, path);
    while let Some((above, task)) = thread.rsplit_once('/')
        && let Some(at) = path.iter().rposition(|part| part == task)
    {
        (thread, path) = (above, path.get(..at).unwrap_or_default());
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_background_tasks_share_what_the_thread_above_them_has() {
        let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        for (thread, parts, conversation) in [
            ("t", &[][..], "t"),
            ("t", &["reader"], "t"),
            ("t/task_1", &["task_1"], "t"),
            ("t/task_1", &["reader", "task_1", "writer"], "t"),
            ("t/task_1/task_2", &["task_1", "task_2"], "t"),
            ("ada/one", &[], "ada/one"),
            ("ada/one", &["reader"], "ada/one"),
            ("ada/one/task_1", &["task_1"], "ada/one"),
        ] {
            assert_eq!(without_tasks(thread, &path(parts)), conversation, "{thread} {parts:?}");
        }
    }
}
