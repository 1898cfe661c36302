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

/// Turns an error about a position without a state into wrong usage.
fn position(error: anyhow::Error, again: &Again) -> anyhow::Error {
    let journal = error.chain().find_map(|cause| match cause.downcast_ref::<Error>() {
        Some(Error::Journal(error)) => Some(error),
        _ => cause.downcast_ref::<JournalError>(),
    });
    match journal {
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
    let is_full = error.chain().any(|cause| {
        let journal = cause.downcast_ref::<JournalError>().and_then(DatabaseError::of_journal);
        matches!(journal.or_else(|| cause.downcast_ref()), Some(DatabaseError::Full { .. }))
    });
    if !(deletes && is_full) {
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
                if !force {
                    check_free(&database, &info).await?;
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
                ids.push(find(given).await?.id);
            }
            if threads.is_empty() {
                ids = database.threads().list(&ThreadQuery::default()).await?.into_iter().map(|info| info.id).collect();
            }
            prune(database, store, &ids, *older_than, threads.is_empty()).await
        }
        ThreadsCommand::Export { thread } => {
            let info = find(thread).await?;
            show::export(&access(database.clone())?, &*database, &info).await
        }
    }
}

/// Returns an error if another program works on the thread or one of its background tasks.
async fn check_free(database: &Sqlite, info: &ThreadInfo) -> Result<()> {
    let mut family = vec![info.clone()];
    while let Some(one) = family.pop() {
        if let Some(owner) = one.owner.as_ref().filter(|_| !is_gone(&one)) {
            bail!("thread {} is in use by {owner}; wait for it to finish, or delete it anyway with --force", one.id);
        }
        family.extend(database::tasks_of(database, &one).await?);
    }
    Ok(())
}

async fn prune(
    database: Arc<Sqlite>,
    store: Option<&UndoStore>,
    ids: &[String],
    older_than: Option<Duration>,
    skips_busy: bool,
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
    for id in ids {
        let mut threads = vec![id.clone()];
        let known = access.state(id).await?.get::<KnownTasks>().cloned().unwrap_or_default();
        for task in access.background(id).await? {
            // A result not yet delivered to the thread is read from the history of the task.
            if known.iter().any(|known| known.id == task.id && known.is_delivered(&task)) {
                threads.push(task.thread);
            }
        }
        for id in &threads {
            let before = database.threads().get(id).await?;
            match access.prune(id, &history).await {
                Err(Error::Journal(JournalError::Busy { owner, .. })) if skips_busy => {
                    lines.push(format!("{id}  skipped: it is in use by {owner}"));
                    continue;
                }
                pruned => pruned.map_err(|error| anyhow!(other_failure(&error)))?,
            };
            // File changes of a task are recorded as part of the thread's conversation.
            if before.as_ref().is_some_and(|info| info.parent.is_none()) {
                undo::trim(store, &access, id).await?;
            }
            let after = database.threads().get(id).await?.map_or(0, |info| info.bytes);
            lines.push(format!("{id}  {} -> {after} bytes", before.map_or(0, |info| info.bytes)));
        }
    }
    undo::gc(store, database.clone()).await?;
    Ok(lines.join("\n"))
}

/// Returns access to threads as an agent has it.
fn access(database: Arc<Sqlite>) -> Result<ThreadAccess> {
    // With a file backend of any kind, so that the channels for files are known.
    let builder = DeepAgent::builder().journal(database).backend_per_run(|_| Arc::new(StateBackend::new()));
    Ok(builder.background_agents(true).threads()?)
}
