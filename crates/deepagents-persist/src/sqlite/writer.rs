//! The thread that writes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;

use super::engine::{Job, Reply, execute, failed};
use super::executor::lock;
use super::file_identity::FileIdentity;
use super::open;
use crate::error::DatabaseError;

/// So many writes are committed together at most.
const GROUP: usize = 64;

/// After so long without a write, free pages are given back.
const IDLE: Duration = Duration::from_millis(200);

/// So many free pages are left for what is written next: 1 MB.
const SPARE_PAGES: i64 = 128;

/// So many pages are given back at once, so that a write that comes meanwhile waits little: 4 MB.
const SHRINK_PAGES: i64 = 512;

/// The connection that writes.
pub(super) struct Writer {
    connection: Mutex<Connection>,
    database: Arc<str>,
    identity: Arc<FileIdentity>,
}

impl Writer {
    pub(super) fn new(connection: Connection, database: Arc<str>, identity: Arc<FileIdentity>) -> Self {
        Self { connection: Mutex::new(connection), database, identity }
    }

    /// Does writes until nobody can ask for more; what has come meanwhile is committed together. When none has come for
    /// a moment, pages that are free are given back to the file system.
    pub(super) fn run(&self, queue: &mpsc::Receiver<Job>) {
        let mut written = false;
        loop {
            let next = if written { queue.recv_timeout(IDLE) } else { queue.recv().map_err(RecvTimeoutError::from) };
            match next {
                Ok(first) => {
                    let mut group = vec![first];
                    group.extend(queue.try_iter().take(GROUP - 1));
                    self.write_group(group);
                    written = true;
                }
                // If it fails, the pages are used by what is written next.
                Err(RecvTimeoutError::Timeout) => written = self.shrink().unwrap_or(false),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Gives some free pages back, and says whether there are more.
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
                let error =
                    failed(&self.database, "another write in the same transaction failed and rolled this one back");
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
        // SQLite does not say when its file is gone, and goes on with one that has no name.
        let committed = committed.and_then(|()| self.identity.check());
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
