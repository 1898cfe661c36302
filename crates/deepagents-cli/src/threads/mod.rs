//! `deepagents threads`.

pub(crate) mod database;
mod decisions;
mod history;
mod list;
mod model;
pub(crate) mod note;
mod rewind;
mod show;
mod timeline;
pub(crate) mod undo;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use deepagents::core::agent::ThreadAccess;
use deepagents::core::env::Timestamp;
use deepagents::core::journal::{Journal, JournalError, RetentionPolicy, ThreadInfo, ThreadQuery};
use deepagents::fs::{StateBackend, UndoStore};
use deepagents::middleware::background::KnownTasks;
use deepagents::{DeepAgent, Error};
use deepagents_persist::{DatabaseError, Sqlite};

use crate::again::Again;
use crate::args::{ThreadsArgs, ThreadsCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::run::{is_gone, other_failure};
use crate::runtime;

pub(crate) use database::fresh;
pub(crate) use model::{of_thread as model_of, with_model_of};
pub(crate) use note::Noted;

/// Shows and changes threads.
pub(crate) fn threads(args: &ThreadsArgs) -> Result<Exit> {
    let text = runtime::start()?.block_on(async {
        let opened = match &args.command {
            ThreadsCommand::List { .. } | ThreadsCommand::Show { .. } | ThreadsCommand::Export { .. } => {
                database::open_read_only(&args.database).await
            }
            _ => database::open_existing(&args.database).await,
        };
        match (opened.map_err(|error| explain_full_disk(error, args))?, &args.command) {
            (Some(database), command) => {
                let store = undo::file(&args.database)?.map(UndoStore::at);
                let again = Again::new(None, &args.database);
                let done = run(Arc::new(database), store.as_ref(), command, &again).await;
                done.map_err(|error| position(explain_full_disk(error, args), &again))
            }
            (None, ThreadsCommand::List { json, parent: None, .. }) => {
                Ok(if *json { "[]" } else { "there are no threads yet" }.into())
            }
            (None, ThreadsCommand::Prune { all: true, .. }) => Ok("there are no threads yet".into()),
            (None, _) => Err(WrongUsage::new("there are no threads yet").into()),
        }
    })?;
    exit::shown(&text)
}

/// Returns the journal's error that caused an error, if any.
fn journal_error(error: &anyhow::Error) -> Option<&JournalError> {
    error.chain().find_map(|cause| match cause.downcast_ref::<Error>() {
        Some(Error::Journal(error)) => Some(error),
        _ => cause.downcast_ref(),
    })
}

/// Turns an error about a position without a state into wrong usage.
fn position(error: anyhow::Error, again: &Again) -> anyhow::Error {
    match journal_error(&error) {
        Some(JournalError::NoState { thread, .. }) => {
            let command = again.command(&format!("deepagents threads show {thread} --history"));
            WrongUsage::new(format!("{error}; `{command}` lists the positions")).into()
        }
        _ => error,
    }
}

/// Explains how to delete from a full disk. Deleting needs space too: SQLite writes changes to the WAL before the
/// database file.
fn explain_full_disk(error: anyhow::Error, args: &ThreadsArgs) -> anyhow::Error {
    let deletes = matches!(args.command, ThreadsCommand::Delete { .. } | ThreadsCommand::Prune { .. });
    let of_journal = journal_error(&error).and_then(DatabaseError::of_journal);
    let cause = of_journal.or_else(|| error.chain().find_map(|cause| cause.downcast_ref()));
    if !(deletes && matches!(cause, Some(DatabaseError::Full { .. }))) {
        return error;
    }
    anyhow!(
        "{error}. Deleting first needs free space, about the size of the file that ends with `-wal`: remove something else there, or move \
         the file and those beside it whose names begin with its name to another disk, and name it with --db"
    )
}

async fn run(
    database: Arc<Sqlite>,
    store: Option<&UndoStore>,
    command: &ThreadsCommand,
    again: &Again,
) -> Result<String> {
    let find = async |given: &str| database::find(&*database, given).await;
    match command {
        ThreadsCommand::List { parent, all, limit, json } => {
            let scope = match parent {
                Some(parent) => list::Scope::TasksOf(find(parent).await?.id),
                None if *all => list::Scope::All,
                None => list::Scope::TopLevel,
            };
            list::list(&*database, &scope, *limit, *json).await
        }
        ThreadsCommand::Show { thread, at, history, timeline, path, json } => {
            let info = find(thread).await?;
            let access = access(database.clone())?;
            if *history {
                history::history(&access, &*database, &info, *json).await
            } else if *timeline {
                timeline::timeline(&access, &info, *json).await
            } else if let Some(path) = path {
                show::sub_agent(&access, &info, path, *json).await
            } else {
                show::show(&access, &*database, &info, *at, *json).await
            }
        }
        ThreadsCommand::Fork { thread, at } => {
            let (info, to) = (find(thread).await?, fresh(&*database).await?);
            database.threads().copy(&info.id, &to, *at).await?;
            undo::adopt(store, &access(database)?, &to).await?;
            Ok(to)
        }
        ThreadsCommand::Rewind { thread, position, files, conflicts } => {
            let info = find(thread).await?;
            let position = position.ok_or_else(|| {
                let id = &info.id;
                let command = again.command(&format!("deepagents threads show {id} --history"));
                WrongUsage::new(format!("say how far to go back: `{command}` lists the positions"))
            })?;
            rewind::rewind(database, store, &info, position, *files, *conflicts, again).await
        }
        ThreadsCommand::Delete { threads, force } => {
            // Find all threads before deleting the first.
            let mut ids = Vec::new();
            for given in threads {
                let info = find(given).await?;
                if !force && let Some(reason) = in_use(&*database, &info).await? {
                    bail!("{reason}, or delete it anyway with --force");
                }
                if !ids.contains(&info.id) {
                    ids.push(info.id);
                }
            }
            let mut lines = Vec::new();
            for id in ids {
                database.threads().delete(&id).await?;
                lines.push(format!("deleted {id}"));
            }
            undo::gc(store, database.clone()).await?;
            Ok(lines.join("\n"))
        }
        ThreadsCommand::Prune { threads, older_than, .. } => {
            // None named means all.
            let mut ids = Vec::new();
            for given in threads {
                let id = find(given).await?.id;
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
            if threads.is_empty() {
                ids = database.threads().list(&ThreadQuery::default()).await?.into_iter().map(|info| info.id).collect();
            }
            prune(database, store, ids, *older_than, threads.is_empty()).await
        }
        ThreadsCommand::Export { thread } => {
            let info = find(thread).await?;
            show::export(&access(database.clone())?, &*database, &info).await
        }
    }
}

/// Returns why a thread should not be deleted: another program works on it or on one of its background tasks.
pub(crate) async fn in_use(journal: &dyn Journal, info: &ThreadInfo) -> Result<Option<String>> {
    let mut family = vec![info.clone()];
    while let Some(one) = family.pop() {
        if let Some(owner) = one.owner.as_ref().filter(|_| !is_gone(&one)) {
            return Ok(Some(format!("thread {} is in use by {owner}; wait for it to finish", one.id)));
        }
        family.extend(database::tasks_of(journal, &one).await?);
    }
    Ok(None)
}

/// Prunes threads, and their background tasks as far as their results were delivered. If `skips`, threads that cannot be
/// pruned do not keep the others from it.
async fn prune(
    database: Arc<Sqlite>,
    store: Option<&UndoStore>,
    ids: Vec<String>,
    older_than: Option<Duration>,
    skips: bool,
) -> Result<String> {
    let history = match older_than {
        None => RetentionPolicy::Latest,
        Some(age) => {
            let since = Timestamp::now().checked_sub(age);
            RetentionPolicy::Since(since.map_err(|_| anyhow!("the age given with --older-than is too great"))?)
        }
    };
    let access = access(database.clone())?;
    let mut lines = Vec::new();
    // A stack: the next thread is at the end.
    let mut left: Vec<String> = ids.into_iter().rev().collect();
    while let Some(id) = left.pop() {
        match prune_one(&database, store, &access, &id, &history).await {
            Ok((line, tasks)) => {
                lines.push(line);
                left.extend(tasks.into_iter().rev());
            }
            Err(error) => match reason_to_skip(&error).filter(|_| skips) {
                Some(reason) => lines.push(format!("{id}  skipped: {reason}")),
                None => return Err(error),
            },
        }
    }
    undo::gc(store, database).await?;
    Ok(lines.join("\n"))
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
fn reason_to_skip(error: &anyhow::Error) -> Option<String> {
    match journal_error(error)? {
        JournalError::Busy { owner, .. } => Some(format!("it is in use by {owner}")),
        error @ (JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::NotFound { .. }) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

/// Returns access to threads as an agent has it.
fn access(database: Arc<Sqlite>) -> Result<ThreadAccess> {
    // With a file backend of any kind, so that the channels for files are known.
    let builder = DeepAgent::builder().journal(database).backend_per_run(|_| Arc::new(StateBackend::new()));
    Ok(builder.background_agents(true).threads()?)
}
