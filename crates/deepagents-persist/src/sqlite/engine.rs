//! One SQLite file as a database engine. Writes are queued for one thread; reads use connections of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use deepagents_core::env::Clock;
use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::executor::{SqliteExecutor, lock};
use super::file_identity::FileIdentity;
use super::writer::Writer;
use super::{SqliteOptions, open, read_only};
use crate::error::DatabaseError;
use crate::executor::{Access, Engine, Work, WorkError};

/// Maximum number of concurrent reads. Their connections are kept open.
const MAX_READERS: u32 = 8;

const CLOSED: &str = "it has been closed";

/// Reports the result of the commit to the caller.
pub(super) type Reply = Box<dyn FnOnce(Result<(), DatabaseError>) + Send>;
/// A write, or the error that prevents it. Returns whether to keep the write, and its reply.
pub(super) type Job = Box<dyn FnOnce(Result<&Mutex<Connection>, DatabaseError>) -> (bool, Reply) + Send>;

/// What the writer thread is sent.
pub(super) enum Message {
    Write(Job),
    /// Close the connection, and then reply.
    Close(oneshot::Sender<()>),
}

/// One SQLite file: a writer thread, and connections for reading.
pub struct SqliteEngine {
    path: PathBuf,
    identity: Arc<FileIdentity>,
    database: Arc<str>,
    options: SqliteOptions,
    /// Dropped before the writer's connection, because only that one removes the WAL if it is the last.
    readers: Arc<Mutex<Vec<Mutex<Connection>>>>,
    /// Queue of writes. `None` if the file was opened for reading only.
    jobs: Option<mpsc::Sender<Message>>,
    reading: Arc<Semaphore>,
}

impl SqliteEngine {
    pub(super) fn start(path: &Path, options: SqliteOptions) -> Result<Self, DatabaseError> {
        let database: Arc<str> = path.display().to_string().into();
        let connection = open::writer(path, &options)?;
        let identity = Arc::new(FileIdentity::with_wal(path)?);
        let (jobs, queue) = mpsc::channel();
        let writer = Writer::new(connection, database.clone(), identity.clone());
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        let write = move || {
            let closed = writer.run(&queue);
            drop(writer);
            if let Some(reply) = closed {
                // The caller may have stopped waiting.
                let _ = reply.send(());
            }
        };
        thread.spawn(write).map_err(|error| DatabaseError::Unavailable {
            database: database.to_string(),
            reason: error.to_string(),
        })?;
        let reading = Arc::new(Semaphore::new(MAX_READERS as usize));
        Ok(Self {
            path: path.to_owned(),
            identity,
            database,
            options,
            jobs: Some(jobs),
            readers: Arc::default(),
            reading,
        })
    }

    pub(super) fn start_read_only(path: &Path, options: SqliteOptions) -> Result<Self, DatabaseError> {
        let connection = read_only::connection(path, &options)?;
        let (path, identity, database) =
            (path.to_owned(), Arc::new(FileIdentity::of(path)?), path.display().to_string().into());
        // Opening a second connection may fail while the first is open.
        let (readers, reading) = (Arc::new(Mutex::new(vec![Mutex::new(connection)])), Arc::new(Semaphore::new(1)));
        Ok(Self { path, identity, database, options, jobs: None, readers, reading })
    }

    /// Queues a write. Its timestamp is taken when its turn comes.
    fn write<T: Send + 'static, E: WorkError>(&self, work: impl Work<T, E>) -> BoxFuture<'_, Result<T, E>> {
        let (reply, result) = oneshot::channel();
        let (clock, database) = (self.options.clock.clone(), self.database.clone());
        let Some(jobs) = &self.jobs else {
            let (database, reason) = (self.database.to_string(), "it was opened read-only".to_owned());
            return Box::pin(std::future::ready(Err(DatabaseError::ReadOnly { database, reason }.into())));
        };
        let job: Job = Box::new(move |connection| {
            let done = connection.map_err(E::from).and_then(|connection| {
                // A panic fails only this write, which is rolled back; the thread continues with the others.
                let done = catch_unwind(AssertUnwindSafe(|| run(connection, &database, &*clock, work)));
                done.unwrap_or_else(|_| Err(failed(&database, "a write panicked").into()))
            });
            let keep = done.is_ok();
            let tell: Reply = Box::new(move |committed| {
                // The caller may have stopped waiting.
                let _ = reply.send(done.and_then(|value| committed.map(|()| value).map_err(E::from)));
            });
            (keep, tell)
        });
        // If sending failed, the error holds the reply's sender: drop it before waiting for the reply.
        let sent = jobs.send(Message::Write(job)).is_ok();
        Box::pin(async move {
            match result.await {
                Ok(result) if sent => result,
                _ => Err(failed(&self.database, CLOSED).into()),
            }
        })
    }

    /// Reads in one transaction, on a blocking thread.
    fn read<T: Send + 'static, E: WorkError>(&self, work: impl Work<T, E>) -> BoxFuture<'_, Result<T, E>> {
        let (path, database, options) = (self.path.clone(), self.database.clone(), self.options.clone());
        let (readers, identity, may_write) = (self.readers.clone(), self.identity.clone(), self.jobs.is_some());
        let task = move || -> Result<T, E> {
            identity.check()?;
            let explain = |error| open::explain(&database, &error);
            let idle = || readers.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = idle().pop();
            let connection = match kept {
                Some(connection) => connection,
                None if may_write => Mutex::new(open::reader(&path, &options).map_err(explain)?),
                None => Mutex::new(read_only::connection(&path, &options)?),
            };
            execute(&connection, "BEGIN").map_err(explain)?;
            let result = run(&connection, &database, &*options.clock, work);
            execute(&connection, "COMMIT").map_err(explain)?;
            idle().push(connection);
            result
        };
        Box::pin(async move {
            // More connections would only use up file descriptors.
            let Ok(permit) = self.reading.clone().acquire_owned().await else {
                return Err(failed(&self.database, CLOSED).into());
            };
            let task = move || {
                let done = task();
                drop(permit);
                done
            };
            let done = tokio::task::spawn_blocking(task).await;
            done.unwrap_or_else(|error| Err(failed(&self.database, &error.to_string()).into()))
        })
    }

    /// Waits for the calls that run, and closes all connections. Further calls fail. This goes on if the caller stops
    /// waiting, as nothing could be said about a file that is half closed.
    pub(super) async fn close(&self) {
        let (reading, readers, jobs) = (self.reading.clone(), self.readers.clone(), self.jobs.clone());
        let closing = tokio::spawn(async move {
            let count = if jobs.is_some() { MAX_READERS } else { 1 };
            // An error means that all has been closed before.
            let Ok(_idle) = reading.acquire_many(count).await else { return };
            let drop_readers = move || {
                let connections = std::mem::take(&mut *readers.lock().unwrap_or_else(PoisonError::into_inner));
                drop(connections);
            };
            let _ = tokio::task::spawn_blocking(drop_readers).await;
            if let Some(jobs) = jobs {
                let (reply, closed) = oneshot::channel();
                let _ = jobs.send(Message::Close(reply));
                let _ = closed.await;
            }
            reading.close();
        });
        let _ = closing.await;
    }
}

impl Engine for SqliteEngine {
    fn run<T: Send + 'static, E: WorkError>(
        &self,
        access: Access,
        work: impl Work<T, E>,
    ) -> BoxFuture<'_, Result<T, E>> {
        match access {
            Access::Query | Access::Snapshot => self.read(work),
            Access::Statement | Access::Transaction => self.write(work),
        }
    }
}

/// Runs `work`, whose futures are all ready immediately.
fn run<T, E: WorkError>(
    connection: &Mutex<Connection>,
    database: &Arc<str>,
    clock: &dyn Clock,
    work: impl Work<T, E>,
) -> Result<T, E> {
    let executor = SqliteExecutor { connection, database, now: clock.now().as_millisecond() };
    let done = work(&executor).now_or_never();
    done.unwrap_or_else(|| Err(failed(database, "a statement did not finish at once").into()))
}

pub(super) fn execute(connection: &Mutex<Connection>, sql: &str) -> rusqlite::Result<()> {
    lock(connection).prepare_cached(sql)?.execute([]).map(|_| ())
}

pub(super) fn failed(database: &str, reason: &str) -> DatabaseError {
    DatabaseError::Other { database: database.to_owned(), reason: reason.to_owned() }
}

impl std::fmt::Debug for SqliteEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteEngine").field("path", &self.path).finish_non_exhaustive()
    }
}
