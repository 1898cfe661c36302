//! The writer thread.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::engine::{Job, Message, Reply, execute};
use super::executor::lock;
use super::file_identity::FileIdentity;
use super::open;
use crate::error::DatabaseError;

/// Maximum number of writes committed together.
const MAX_GROUP: usize = 64;

/// How long writes are committed one by one after a common commit failed. Its writes are repeated in this time, and one
/// that cannot be stored does not fail the others again.
const SINGLY: Duration = Duration::from_secs(10);

/// Time without a write after which free pages are released.
const IDLE_DELAY: Duration = Duration::from_millis(200);

/// Number of free pages kept for future writes: 1 MB.
const SPARE_PAGES: i64 = 128;

/// Maximum number of pages released at once, so that a write arriving meanwhile waits only briefly: 4 MB.
const SHRINK_PAGES: i64 = 512;

/// The writing connection.
pub(super) struct Writer {
    connection: Mutex<Connection>,
    database: Arc<str>,
    identity: Arc<FileIdentity>,
}

impl Writer {
    pub(super) fn new(connection: Connection, database: Arc<str>, identity: Arc<FileIdentity>) -> Self {
        Self { connection: Mutex::new(connection), database, identity }
    }

    /// Performs writes until all senders are dropped or one asks to close, and returns whom to tell when the connection
    /// is closed. Commits writes that have queued up together. After a moment without writes, releases free pages to the
    /// file system.
    pub(super) fn run(&self, queue: &mpsc::Receiver<Message>) -> Option<oneshot::Sender<()>> {
        let mut written = false;
        let mut failed_together: Option<Instant> = None;
        loop {
            let next =
                if written { queue.recv_timeout(IDLE_DELAY) } else { queue.recv().map_err(RecvTimeoutError::from) };
            match next {
                Ok(Message::Close(reply)) => return Some(reply),
                Ok(Message::Write(first)) => {
                    let mut group = vec![first];
                    let mut close = None;
                    if failed_together.is_none_or(|then| then.elapsed() > SINGLY) {
                        for message in queue.try_iter().take(MAX_GROUP - 1) {
                            match message {
                                Message::Write(job) => group.push(job),
                                Message::Close(reply) => {
                                    close = Some(reply);
                                    break;
                                }
                            }
                        }
                    }
                    if !self.write_group(group) {
                        failed_together = Some(Instant::now());
                    }
                    if close.is_some() {
                        return close;
                    }
                    written = true;
                }
                // If this fails, later writes reuse the pages.
                Err(RecvTimeoutError::Timeout) => written = self.shrink().unwrap_or(false),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Releases some free pages and returns whether more remain.
    fn shrink(&self) -> rusqlite::Result<bool> {
        let connection = lock(&self.connection);
        let free = || connection.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
        let before = free()?;
        if before <= SPARE_PAGES {
            return Ok(false);
        }
        let pages = (before - SPARE_PAGES).min(SHRINK_PAGES);
        // Each step frees one page.
        let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut steps = vacuum.raw_query();
        while steps.next()?.is_some() {}
        let after = free()?;
        let more = after > SPARE_PAGES && after < before;
        if !more && after < before {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
        Ok(more)
    }

    /// Performs writes and commits them together. Returns `false` if several of them failed because of the commit.
    fn write_group(&self, group: Vec<Job>) -> bool {
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
                // The disk was full or failed, and SQLite rolled back the whole group.
                let error = self.rolled_back("the disk is full or failing".to_owned());
                done.drain(..).for_each(|reply| reply(Err(error.clone())));
                reply(Err(error));
                continue;
            }
            match self.end(alone, keep) {
                Ok(()) => done.push(reply),
                Err(error) => {
                    // What a failed write has done must not be committed with the others.
                    let _ = self.execute("ROLLBACK");
                    let rolled_back = self.rolled_back(error.to_string());
                    done.drain(..).for_each(|reply| reply(Err(rolled_back.clone())));
                    reply(Err(error));
                }
            }
        }
        let committed = if self.is_autocommit() { Ok(()) } else { self.execute("COMMIT") };
        if committed.is_err() {
            let _ = self.execute("ROLLBACK");
        }
        let together = done.len();
        let committed = match committed {
            Err(error) if together > 1 => Err(self.rolled_back(error.to_string())),
            // SQLite does not notice that its file was removed, and continues writing to the unlinked file.
            committed => committed.and_then(|()| self.identity.check()),
        };
        done.into_iter().for_each(|reply| reply(committed.clone()));
        !matches!(committed, Err(DatabaseError::RolledBack { .. }))
    }

    fn rolled_back(&self, reason: String) -> DatabaseError {
        DatabaseError::RolledBack { database: self.database.to_string(), reason }
    }

    /// Prepares for the next job: begins a transaction if none is open, and a savepoint unless the job is alone.
    fn begin(&self, alone: bool) -> Result<(), DatabaseError> {
        if self.is_autocommit() {
            self.execute("BEGIN IMMEDIATE")?;
        }
        if alone { Ok(()) } else { self.execute("SAVEPOINT job") }
    }

    /// Keeps a job's changes or rolls them back.
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
