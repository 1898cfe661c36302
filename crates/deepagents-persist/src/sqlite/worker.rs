//! The thread that writes, and the connections that read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use futures_core::future::BoxFuture;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{SqliteOptions, Work, open};
use crate::error::{DatabaseError, Failure};

/// So many writes are committed together at most.
const GROUP: usize = 64;

/// So many connections that read are kept.
const READERS: usize = 4;

/// Tells whoever waits how the commit went.
type Reply = Box<dyn FnOnce(Result<(), Lost>) + Send>;
/// A write, done unless it cannot be; says whether it is to be kept.
type Job = Box<dyn FnOnce(Result<&Connection, Lost>) -> (bool, Reply) + Send>;

/// Why a write was not done, or not committed.
#[derive(Clone)]
struct Lost(Arc<rusqlite::Error>);

impl Lost {
    fn new(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
    }
}

pub(super) struct Worker {
    path: PathBuf,
    options: SqliteOptions,
    jobs: mpsc::Sender<Job>,
    readers: Arc<Mutex<Vec<Connection>>>,
}

impl Worker {
    pub(super) fn start(path: PathBuf, options: SqliteOptions) -> Result<Self, DatabaseError> {
        let db = open::writer(&path, &options)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        let spawned = thread.spawn(move || write_all(&db, &queue));
        spawned.map_err(|error| DatabaseError::Unavailable {
            database: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { path, options, jobs, readers: Arc::default() })
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn explain(&self, error: &rusqlite::Error) -> DatabaseError {
        open::explain(&self.path, error)
    }

    /// Queues a write; its time is that of its turn.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> BoxFuture<'static, Work<T>> {
        let (reply, result) = oneshot::channel();
        let clock = self.options.clock.clone();
        let sent = self.jobs.send(Box::new(move |db| {
            let done = match db {
                Ok(db) => work(db, clock.now().as_millisecond()),
                Err(lost) => Err(Failure::Database(again(&lost.0))),
            };
            let keep = done.is_ok();
            let tell: Reply = Box::new(move |committed| {
                let result = match (done, committed) {
                    (Ok(_), Err(lost)) => Err(Failure::Database(again(&lost.0))),
                    (done, _) => done,
                };
                // Whoever asked may have lost interest.
                let _ = reply.send(result);
            });
            (keep, tell)
        }));
        Box::pin(async move {
            match (sent, result.await) {
                (Ok(()), Ok(result)) => result,
                _ => Err(Failure::Database(gone("the thread that writes has ended"))),
            }
        })
    }

    /// Reads in one transaction, on a thread for blocking work.
    pub(super) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> BoxFuture<'static, Work<T>> {
        let (path, options, readers) = (self.path.clone(), self.options.clone(), self.readers.clone());
        let task = move || {
            let lock = || readers.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = lock().pop();
            let db = match kept {
                Some(db) => db,
                None => open::reader(&path, &options)?,
            };
            let result = {
                let snapshot = db.unchecked_transaction()?;
                work(&snapshot, options.clock.now().as_millisecond())
            };
            let mut kept = lock();
            if kept.len() < READERS {
                kept.push(db);
            }
            result
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(task).await {
                Ok(result) => result,
                Err(error) => Err(Failure::Database(gone(&error.to_string()))),
            }
        })
    }
}

/// The same error once more.
fn again(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => rusqlite::Error::ToSqlConversionFailure(other.to_string().into()),
    }
}

/// Does writes until nobody can ask for more; what has come meanwhile is committed together.
fn write_all(db: &Connection, queue: &mpsc::Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP - 1));
        write_group(db, group);
    }
}

fn write_group(db: &Connection, group: Vec<Job>) {
    let alone = group.len() == 1;
    let mut done: Vec<Reply> = Vec::with_capacity(group.len());
    let mut broken: Option<Lost> = None;
    for job in group {
        if broken.is_none() {
            broken = begin(db, alone).err().map(Lost::new);
        }
        if let Some(lost) = &broken {
            let (_, reply) = job(Err(lost.clone()));
            reply(Err(lost.clone()));
            continue;
        }
        let (keep, reply) = job(Ok(db));
        if db.is_autocommit() {
            // The disk was full or failed, and SQLite has taken everything of the group back.
            let lost = Lost::new(gone("a write beside this one failed and took it back"));
            done.drain(..).for_each(|reply| reply(Err(lost.clone())));
            reply(Err(lost));
            continue;
        }
        match end(db, alone, keep) {
            Ok(()) => done.push(reply),
            Err(error) => reply(Err(Lost::new(error))),
        }
    }
    let committed = if db.is_autocommit() { Ok(()) } else { run(db, "COMMIT") };
    let committed = committed.map_err(|error| {
        let _ = run(db, "ROLLBACK");
        Lost::new(error)
    });
    done.into_iter().for_each(|reply| reply(committed.clone()));
}

/// Begins what the next job does: a transaction if there is none, and a part of its own in it.
fn begin(db: &Connection, alone: bool) -> rusqlite::Result<()> {
    if db.is_autocommit() {
        run(db, "BEGIN IMMEDIATE")?;
    }
    if alone { Ok(()) } else { run(db, "SAVEPOINT job") }
}

/// Keeps what a job did, or takes it back.
fn end(db: &Connection, alone: bool, keep: bool) -> rusqlite::Result<()> {
    match (alone, keep) {
        (true, true) => Ok(()),
        (true, false) => run(db, "ROLLBACK"),
        (false, true) => run(db, "RELEASE job"),
        (false, false) => run(db, "ROLLBACK TO job").and_then(|()| run(db, "RELEASE job")),
    }
}

fn run(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn gone(reason: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    rusqlite::Error::SqliteFailure(code, Some(reason.to_owned()))
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("path", &self.path).finish_non_exhaustive()
    }
}
