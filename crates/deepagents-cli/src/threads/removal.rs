//! Deleting and pruning threads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use deepagents::core::agent::ThreadAccess;
use deepagents::core::env::Timestamp;
use deepagents::core::journal::{Journal, JournalError, RetentionPolicy, ThreadInfo, ThreadQuery};
use deepagents::fs::UndoStore;
use deepagents::middleware::background::KnownTasks;
use deepagents_persist::Sqlite;

use super::kept::with_artifacts;
use super::{SideStores, access, database, journal_error, undo};
use crate::output;
use crate::render::escaped;
use crate::run::{busy, is_gone, other_failure, owner_in, owner_of};

/// Finds the threads, each once.
async fn find_all(journal: &dyn Journal, given: &[String]) -> Result<Vec<ThreadInfo>> {
    let mut found: Vec<ThreadInfo> = Vec::new();
    for given in given {
        let info = database::find(journal, given).await?;
        if found.iter().all(|known| known.id != info.id) {
            found.push(info);
        }
    }
    Ok(found)
}

fn ids(threads: Vec<ThreadInfo>) -> Vec<String> {
    threads.into_iter().map(|info| info.id).collect()
}

/// Deletes threads, and what is stored beside the database for them.
pub(super) async fn delete(
    database: Arc<Sqlite>,
    beside: &SideStores<'_>,
    threads: &[String],
    force: bool,
) -> Result<String> {
    // Find all threads before deleting the first.
    let found = find_all(&*database, threads).await?;
    for info in &found {
        if !force && let Some(reason) = in_use(&*database, info).await? {
            bail!("{reason}, or delete it anyway with --force");
        }
    }
    let journal = with_artifacts(database.clone(), beside.artifacts.as_ref());
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for id in ids(found) {
        match journal.threads().delete(&id).await {
            Ok(_) => lines.push(format!("deleted {id}")),
            Err(error) => failures.push(error.into()),
        }
    }
    // Their artifacts are gone with them.
    failures.extend(undo::gc(beside.store, database).await.err());
    reported(&lines, failures)
}

/// Returns what was done, or prints it if something failed.
fn reported(lines: &[String], mut failures: Vec<anyhow::Error>) -> Result<String> {
    let Some(last) = failures.pop() else { return Ok(lines.join("\n")) };
    if !lines.is_empty() {
        output::print(&lines.join("\n"))?;
    }
    failures.iter().for_each(|error| output::print_error(&error.to_string()));
    Err(last)
}

/// Returns why a thread should not be deleted: another program works on it or on one of its background tasks.
pub(crate) async fn in_use(journal: &dyn Journal, info: &ThreadInfo) -> Result<Option<String>> {
    let mut family = vec![info.clone()];
    while let Some(one) = family.pop() {
        if let Some(owner) = one.owner.as_ref().filter(|_| !is_gone(&one)) {
            let owner = owner_of(&one).unwrap_or_else(|| escaped(owner));
            return Ok(Some(busy(&one.id, &owner)));
        }
        family.extend(database::tasks_of(journal, &one).await?);
    }
    Ok(None)
}

/// Prunes threads, or all if none is named, and their background tasks as far as their results were delivered. If all are
/// pruned, those that cannot be do not keep the others from it.
pub(super) async fn prune(
    database: Arc<Sqlite>,
    beside: &SideStores<'_>,
    threads: &[String],
    older_than: Option<Duration>,
) -> Result<String> {
    let skips = threads.is_empty();
    let chosen = match skips {
        true => database.threads().list(&ThreadQuery::default()).await?,
        false => find_all(&*database, threads).await?,
    };
    let history = match older_than {
        None => RetentionPolicy::Latest,
        Some(age) => {
            let since = Timestamp::now().checked_sub(age);
            RetentionPolicy::Since(since.map_err(|_| anyhow!("the age given with --older-than is too great"))?)
        }
    };
    let access = access(database.clone())?;
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    // A stack: the next thread is at the end.
    let mut left: Vec<String> = ids(chosen).into_iter().rev().collect();
    while let Some(id) = left.pop() {
        match prune_one(&database, beside.store, &access, &id, &history).await {
            Ok((line, tasks)) => {
                lines.push(line);
                left.extend(tasks.into_iter().rev());
            }
            Err(error) => match reason_to_skip(&*database, &error).await.filter(|_| skips) {
                Some(reason) => lines.push(format!("{id}  skipped: {reason}")),
                None => {
                    failures.push(error);
                    break;
                }
            },
        }
    }
    failures.extend(beside.gc(database).await.err());
    reported(&lines, failures)
}

/// Prunes a thread. Returns what that changed, and the background tasks whose results the thread has received: any other
/// result is still read from the history of its task.
async fn prune_one(
    database: &Sqlite,
    store: Option<&UndoStore>,
    access: &ThreadAccess,
    id: &str,
    history: &RetentionPolicy,
) -> Result<(String, Vec<String>)> {
    let known = access.state(id).await?.get::<KnownTasks>().cloned().unwrap_or_default();
    let mut tasks = access.background(id).await?;
    tasks.retain(|task| known.iter().any(|known| known.id == task.id && known.is_delivered(task)));
    let before = database.threads().get(id).await?;
    if let Err(error) = access.prune(id, history).await {
        let message = other_failure(&error);
        return Err(anyhow::Error::from(error).context(message));
    }
    // File changes of a task are recorded as part of the thread's conversation.
    if before.as_ref().is_some_and(|info| info.parent.is_none()) {
        undo::trim(store, access, id).await?;
    }
    let after = database.threads().get(id).await?.map_or(0, |info| info.bytes);
    let line = format!("{id}  {} -> {after} bytes", before.map_or(0, |info| info.bytes));
    Ok((line, tasks.into_iter().map(|task| task.thread).collect()))
}

/// Returns why a thread cannot be pruned now, if that says nothing about other threads.
async fn reason_to_skip(journal: &dyn Journal, error: &anyhow::Error) -> Option<String> {
    match journal_error(error)? {
        JournalError::Busy { thread, owner, .. } => {
            Some(format!("it is in use by {}", owner_in(journal, thread, owner).await))
        }
        error @ (JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::NotFound { .. }) => {
            Some(error.to_string())
        }
        _ => None,
    }
}
