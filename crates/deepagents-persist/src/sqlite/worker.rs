//! The thread that writes, and the connections that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use deepagents_core::env::Clock;
use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::executor::{SqliteExecutor, lock};
use super::{SqliteOptions, open};
use crate::error::DatabaseError;
use crate::executor::{Access, Engine, Executor};

/// So many writes are committed together at most.
const GROUP: usize = 64;

/// So many connections that read are kept.
const READERS: usize = 4;

/// Tells whoever waits how the commit went.
type Reply = Box<dyn FnOnce(Result<(), DatabaseError>) + Send>;
/// A write, done unless it cannot be; says whether it is to be kept.
type Job = Box<dyn FnOnce(Result<&Mutex<Connection>, DatabaseError>) -> (bool, Reply) + Send>;

/// One SQLite file: a thread that writes it, and connections that read it.
pub struct SqliteEngine {
    path: PathBuf,
    database: Arc<str>,
    options: SqliteOptions,
    jobs: mpsc::Sender<Job>,
    readers: Arc<Mutex<Vec<Mutex<Connection>>>>,
}

impl SqliteEngine {
    pub(super) fn start(path: &Path, options: SqliteOptions) -> Result<Self, DatabaseError> {
        let database: Arc<str> = path.display().to_string().into();
        let connection = open::writer(path, &options)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let writer = Writer { connection: Mutex::new(connection), database: database.clone() };
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        thread.spawn(move || writer.run(&queue)).map_err(|error| DatabaseError::Unavailable {
            database: database.to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { path: path.to_owned(), database, options, jobs, readers: Arc::default() })
    }

    /// Queues a write; its time is that of its turn.
    fn write<T, E, W>(&self, work: W) -> BoxFuture<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
        W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let (clock, database) = (self.options.clock.clone(), self.database.clone());
        let sent = self.jobs.send(Box::new(move |connection| {
            let done = connection.map_err(E::from).and_then(|connection| run(connection, &database, &*clock, work));
            let keep = done.is_ok();
            let tell: Reply = Box::new(move |committed| {
                // Whoever asked may have lost interest.
                let _ = reply.send(done.and_then(|value| committed.map(|()| value).map_err(E::from)));
            });
            (keep, tell)
        }));
        Box::pin(async move {
            match (sent, result.await) {
                (Ok(()), Ok(result)) => result,
                _ => Err(failed(&self.database, "the thread that writes has ended").into()),
            }
        })
    }

    /// Reads in one transaction, on a thread for blocking work.
    fn read<T, E, W>(&self, work: W) -> BoxFuture<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
        W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let (path, database, options) = (self.path.clone(), self.database.clone(), self.options.clone());
        let readers = self.readers.clone();
        let task = move || -> Result<T, E> {
            let explain = |error| open::explain(&database, &error);
            let idle = || readers.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = idle().pop();
            let connection = match kept {
                Some(connection) => connection,
                None => Mutex::new(open::reader(&path, &options).map_err(explain)?),
            };
            execute(&connection, "BEGIN").map_err(explain)?;
            let result = run(&connection, &database, &*options.clock, work);
            execute(&connection, "COMMIT").map_err(explain)?;
            let mut idle = idle();
            if idle.len() < READERS {
                idle.push(connection);
            }
            result
        };
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(task).await;
            done.unwrap_or_else(|error| Err(failed(&self.database, &error.to_string()).into()))
        })
    }
}

impl Engine for SqliteEngine {
    fn run<'a, T, E, W>(&'a self, access: Access, work: W) -> BoxFuture<'a, Result<T, E>>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
        W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        match access {
            Access::Query | Access::Snapshot => self.read(work),
            Access::Statement | Access::Transaction => self.write(work),
        }
    }
}

/// Does work, whose futures are all ready at once.
fn run<T, E, W>(connection: &Mutex<Connection>, database: &Arc<str>, clock: &dyn Clock, work: W) -> Result<T, E>
where
    E: From<DatabaseError>,
    W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>>,
{
    let executor = SqliteExecutor { connection, database, now: clock.now().as_millisecond() };
    let done = work(&executor).now_or_never();
    done.unwrap_or_else(|| Err(failed(database, "a statement was not done at once").into()))
}

/// The connection that writes.
struct Writer {
    connection: Mutex<Connection>,
    database: Arc<str>,
}

impl Writer {
    /// Does writes until nobody can ask for more; what has come meanwhile is committed together.
    fn run(&self, queue: &mpsc::Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut group = vec![first];
            group.extend(queue.try_iter().take(GROUP - 1));
            self.write_group(group);
        }
    }

    fn write_group(&self, group: Vec<Job>) {
        let alone = group.len() == 1;
        let mut done: Vec<Reply> = Vec::with_capacity(group.len());
        let mut broken: Option<DatabaseError> = None;
        for job in group {
            if broken.is_none() {
                broken = self.begin(alone).err();
            }
            if let Some(error) = &broken {
                let (_, reply) = job(Err(error.clone()));
                reply(Err(error.clone()));
                continue;
            }
            let (keep, reply) = job(Ok(&self.connection));
            if self.is_autocommit() {
                // The disk was full or failed, and SQLite has taken everything of the group back.
                let error = failed(&self.database, "a write beside this one failed and took it back");
                done.drain(..).for_each(|reply| reply(Err(error.clone())));
                reply(Err(error));
                continue;
            }
            match self.end(alone, keep) {
                Ok(()) => done.push(reply),
                Err(error) => reply(Err(error)),
            }
        }
        let committed = if self.is_autocommit() { Ok(()) } else { self.execute("COMMIT") };
        if committed.is_err() {
            let _ = self.execute("ROLLBACK");
        }
        done.into_iter().for_each(|reply| reply(committed.clone()));
    }

    /// Begins what the next job does: a transaction if there is none, and a part of its own in it.
    fn begin(&self, alone: bool) -> Result<(), DatabaseError> {
        if self.is_autocommit() {
            self.execute("BEGIN IMMEDIATE")?;
        }
        if alone { Ok(()) } else { self.execute("SAVEPOINT job") }
    }

    /// Keeps what a job did, or takes it back.
    fn end(&self, alone: bool, keep: bool) -> Result<(), DatabaseError> {
        match (alone, keep) {
            (true, true) => Ok(()),
            (true, false) => self.execute("ROLLBACK"),
            (false, true) => self.execute("RELEASE job"),
            (false, false) => self.execute("ROLLBACK TO job").and_then(|()| self.execute("RELEASE job")),
        }
    }

    fn is_autocommit(&self) -> bool {
        lock(&self.connection).is_autocommit()
    }

    fn execute(&self, sql: &str) -> Result<(), DatabaseError> {
        execute(&self.connection, sql).map_err(|error| open::explain(&self.database, &error))
    }
}

fn execute(connection: &Mutex<Connection>, sql: &str) -> rusqlite::Result<()> {
    lock(connection).prepare_cached(sql)?.execute([]).map(|_| ())
}

fn failed(database: &str, reason: &str) -> DatabaseError {
    DatabaseError::Other { database: database.to_owned(), reason: reason.to_owned() }
}

impl std::fmt::Debug for SqliteEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteEngine").field("path", &self.path).finish_non_exhaustive()
    }
}
