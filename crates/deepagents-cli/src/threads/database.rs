//! The thread database.

use std::fmt;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use deepagents::core::env::{Ids, RandomIds};
use deepagents::core::journal::{Journal, ThreadInfo, ThreadQuery};
use deepagents_persist::{DatabaseError, Sqlite, SqliteOptions};
use rustix::fs::Access;

use crate::args::Database;
use crate::exit::WrongUsage;
use crate::own_files::{DATABASE, followed, of_user};

/// Returns the path of the database. If the path is a symbolic link, it is that of the file it leads to, so that the
/// files beside the database are the same for everybody who uses it.
pub(crate) fn place(given: &Database) -> Result<PathBuf> {
    let file = given.db.clone().or_else(|| of_user(DATABASE)).ok_or_else(|| {
        anyhow!("threads are stored in ~/.deepagents/threads.db, but HOME is not set: name a file with --db")
    })?;
    Ok(followed(&file))
}

/// Opens the database, creating it if necessary.
pub(crate) async fn open(given: &Database) -> Result<Sqlite> {
    check_place(given)?;
    let path = place(given)?;
    if given.db.is_none()
        && let Some(directory) = path.parent()
    {
        // Conversations are private.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| {
            let hint = "threads are stored there; name another place with --db";
            anyhow!("the directory `{}` cannot be created: {error}; {hint}", directory.display())
        })?;
    }
    // Of an error, only the message is printed, which contains the cause.
    Sqlite::open(&path).await.map_err(|error| anyhow!("{error}"))
}

/// Whether a database exists at a path.
///
/// # Errors
/// Returns an error if that cannot be determined, because the directory is not accessible.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| {
        let hint = "give --db a file that you can use, or set HOME to a directory of yours";
        anyhow!("the database `{}` cannot be accessed: {error}; {hint}", path.display())
    })
}

/// Opens the database if it exists; looking at threads does not create one.
pub(crate) async fn open_existing(given: &Database) -> Result<Option<Sqlite>> {
    let Some(path) = existing(given)? else { return Ok(None) };
    Ok(Some(Sqlite::open(&path).await?))
}

/// Opens the database if it exists, read-only if it cannot be opened otherwise.
pub(crate) async fn open_read_only(given: &Database) -> Result<Option<Sqlite>> {
    let Some(path) = existing(given)? else { return Ok(None) };
    let opened = match Sqlite::open(&path).await {
        Err(
            error @ (DatabaseError::Full { .. } | DatabaseError::ReadOnly { .. } | DatabaseError::Unavailable { .. }),
        ) => SqliteOptions::default().open_read_only(&path).await.map_err(|_| error),
        opened => opened,
    };
    Ok(Some(opened?))
}

/// Returns the path of the database if it exists.
fn existing(given: &Database) -> Result<Option<PathBuf>> {
    let path = place(given)?;
    if is_there(&path)? {
        return Ok(Some(path));
    }
    if given.db.is_some() {
        bail!(WrongUsage::new(format!("there is no database `{}`", path.display())));
    }
    Ok(None)
}

/// Returns an error if a database was named whose directory does not exist.
pub(crate) fn check_place(given: &Database) -> Result<()> {
    let directory = given.db.as_deref().and_then(Path::parent).filter(|directory| !directory.as_os_str().is_empty());
    match directory {
        Some(directory) if !is_there(directory)? => {
            let directory = directory.display();
            let words = format!(
                "the directory `{directory}` of the database does not exist; create it or name another file with --db"
            );
            bail!(WrongUsage::new(words))
        }
        _ => Ok(()),
    }
}

/// Returns an error if the database cannot be created, as far as that can be checked without creating it.
pub(crate) fn check_new(given: &Database) -> Result<()> {
    check_place(given)?;
    let path = place(given)?;
    let mut above =
        path.ancestors().skip(1).map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    let there = above.find(|above| above.exists()).unwrap_or(Path::new("/"));
    let failed = |reason: &dyn fmt::Display| {
        let (path, there) = (path.display(), there.display());
        let hint = "name another place with --db";
        anyhow!("the database `{path}` cannot be made: nothing can be made in `{there}`: {reason}; {hint}")
    };
    if !there.is_dir() {
        return Err(failed(&"it is no directory"));
    }
    let may = rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK);
    may.map_err(|error| failed(&std::io::Error::from(error)))
}

/// Returns the number of threads in a database.
pub(crate) async fn count(path: &Path) -> Result<usize> {
    let database = Sqlite::open(path).await?;
    Ok(database.threads().list(&ThreadQuery::default()).await?.len())
}

/// Returns the ID of a new thread, short enough to type.
pub(crate) async fn fresh(journal: &dyn Journal) -> Result<String> {
    for _ in 0..16 {
        let long = RandomIds.next("thread");
        let id: String = long.chars().rev().take(8).collect();
        if journal.threads().get(&id).await?.is_none() {
            return Ok(id);
        }
    }
    bail!("no unused id for a thread was found; delete threads that you do not need")
}

/// Returns the background tasks of a thread.
pub(crate) async fn tasks_of(journal: &dyn Journal, thread: &ThreadInfo) -> Result<Vec<ThreadInfo>> {
    Ok(journal.threads().list(&ThreadQuery::default().parent(thread.id.as_str())).await?)
}

/// Finds the one thread with this ID, or whose ID begins with it.
pub(crate) async fn find(journal: &dyn Journal, given: &str) -> Result<ThreadInfo> {
    if given.is_empty() {
        bail!(WrongUsage::new("the id of the thread is empty; `deepagents threads list` shows all threads"));
    }
    if let Some(info) = journal.threads().get(given).await? {
        return Ok(info);
    }
    // A background task is named below its thread, whose ID may be abbreviated too.
    let query = match given.rsplit_once('/') {
        Some((parent, task)) => {
            let parent = Box::pin(find(journal, parent)).await?.id;
            ThreadQuery::default().prefix(format!("{parent}/{task}")).parent(parent)
        }
        None => ThreadQuery::default().prefix(given),
    };
    let mut found = journal.threads().list(&query.limit(2)).await?;
    match (found.pop(), found.is_empty()) {
        (Some(info), true) => Ok(info),
        (Some(_), false) => {
            bail!(WrongUsage::new(format!("several threads begin with `{given}`; give more of the id")))
        }
        (None, _) => {
            bail!(WrongUsage::new(format!("there is no thread `{given}`; `deepagents threads list` shows all threads")))
        }
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::journal::MemoryJournal;
    use serde_json::Map;

    use super::*;

    #[tokio::test]
    async fn a_task_is_found_by_the_beginning_of_its_id_even_if_it_has_tasks_itself() {
        let journal = MemoryJournal::new();
        let (thread, task, inner) = ("thread", "thread/task_one", "thread/task_one/task_two");
        for (id, parent) in [(thread, None), (task, Some(thread)), (inner, Some(task))] {
            journal.threads().set_metadata(id, Map::new()).await.unwrap();
            journal.threads().set_parent(id, parent).await.unwrap();
        }
        for (given, found) in [("th", thread), ("th/ta", task), ("thread/task_one/", inner), ("t/t/t", inner)] {
            assert_eq!(find(&journal, given).await.unwrap().id, found, "{given}");
        }
        for given in ["", "/", "th/x", "thread/task_one/task_two/x"] {
            assert!(find(&journal, given).await.unwrap_err().is::<WrongUsage>(), "{given}");
        }
    }
}
