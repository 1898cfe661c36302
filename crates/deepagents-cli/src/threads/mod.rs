//! `deepagents threads`.

pub(crate) mod artifacts;
pub(crate) mod database;
mod decisions;
mod history;
mod kept;
mod list;
mod model;
pub(crate) mod note;
mod removal;
mod rewind;
mod show;
mod timeline;
pub(crate) mod undo;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::{Journal, JournalError};
use deepagents::fs::{StateBackend, UndoStore};
use deepagents::{DeepAgent, Error};
use deepagents_persist::{DatabaseError, Sqlite};

use crate::again::Again;
use crate::args::{ThreadsArgs, ThreadsCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::run::{busy, owner_in};
use crate::runtime;

pub(crate) use artifacts::Artifacts;
pub(crate) use database::fresh;
pub(crate) use kept::with_artifacts;
pub(crate) use model::{of_thread as model_of, with_model_of};
pub(crate) use note::Noted;
pub(crate) use removal::in_use;

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
                let beside = SideStores { store: store.as_ref(), artifacts: Artifacts::beside(&args.database)? };
                let again = Again::new(None, &args.database);
                let database = Arc::new(database);
                match run(database.clone(), &beside, command, &again).await {
                    Err(error) => Err(match in_use_error(&*database, &error).await {
                        Some(words) => anyhow!(words),
                        None => position(explain_full_disk(error, args), &again),
                    }),
                    done => done,
                }
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

/// What is stored beside the database.
struct SideStores<'a> {
    store: Option<&'a UndoStore>,
    artifacts: Option<Artifacts>,
}

impl SideStores<'_> {
    /// Removes what belongs to threads that no longer exist.
    async fn gc(&self, journal: Arc<dyn Journal>) -> Result<()> {
        if let Some(artifacts) = &self.artifacts {
            artifacts.gc(&*journal).await?;
        }
        undo::gc(self.store, journal).await
    }
}

/// Returns the journal's error that caused an error, if any.
fn journal_error(error: &anyhow::Error) -> Option<&JournalError> {
    error.chain().find_map(|cause| match cause.downcast_ref::<Error>() {
        Some(Error::Journal(error)) => Some(error),
        _ => cause.downcast_ref(),
    })
}

/// Returns the message if a thread could not be changed because another process works on it.
async fn in_use_error(journal: &dyn Journal, error: &anyhow::Error) -> Option<String> {
    let JournalError::Busy { thread, owner, .. } = journal_error(error)? else { return None };
    Some(busy(thread, &owner_in(journal, thread, owner).await))
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
    beside: &SideStores<'_>,
    command: &ThreadsCommand,
    again: &Again,
) -> Result<String> {
    let store = beside.store;
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
            let (info, access) = (find(thread).await?, access(database.clone())?);
            match path {
                _ if *history => history::history(&access, &*database, &info, *json).await,
                _ if *timeline => timeline::timeline(&access, &info, *json).await,
                Some(path) => show::sub_agent(&access, &info, path, *json).await,
                None => show::show(&access, &*database, &info, *at, *json).await,
            }
        }
        ThreadsCommand::Fork { thread, at } => {
            let (info, to) = (find(thread).await?, fresh(&*database).await?);
            let journal = with_artifacts(database.clone(), beside.artifacts.as_ref());
            journal.threads().copy(&info.id, &to, *at).await?;
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
        ThreadsCommand::Delete { threads, force } => removal::delete(database, beside, threads, *force).await,
        ThreadsCommand::Prune { threads, older_than, .. } => {
            removal::prune(database, beside, threads, *older_than).await
        }
        ThreadsCommand::Export { thread } => {
            let info = find(thread).await?;
            show::export(&access(database.clone())?, &*database, &info).await
        }
    }
}

/// Returns access to threads as an agent has it.
fn access(database: Arc<Sqlite>) -> Result<ThreadAccess> {
    // With a file backend of any kind, so that the channels for files are known.
    let builder = DeepAgent::builder().journal(database).backend_per_run(|_| Arc::new(StateBackend::new()));
    Ok(builder.background_agents(true).threads()?)
}
