//! Contents of the undo database: change logs and file contents.

use std::ops::RangeInclusive;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FileVersion, GcStats, ThreadLog, Tx, UndoError, hash_of};
use crate::VPath;

type Result<T, E = UndoError> = std::result::Result<T, E>;

/// Author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Actor {
    /// The agent.
    Agent,
    /// A rewind to a checkpoint.
    Rewind,
    /// A rewind that restored someone else's work.
    RewindToOther,
    /// Someone other than the agent; found when a rewind replaced it.
    Other,
}

impl Actor {
    /// Returns whether a rewind made the change.
    pub(crate) fn is_rewind(self) -> bool {
        matches!(self, Self::Rewind | Self::RewindToOther)
    }

    /// Returns whether the version after the change is someone else's work.
    pub(crate) fn left_others_work(self) -> bool {
        matches!(self, Self::Other | Self::RewindToOther)
    }
}

/// A recorded change of a path.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Sequence number; 0 until recorded.
    pub(crate) seq: u64,
    pub(crate) actor: Actor,
    pub(crate) path: VPath,
    pub(crate) before: FileVersion,
    pub(crate) after: FileVersion,
    /// Whether the change is known to have been made; otherwise the process may have died before it.
    pub(crate) done: bool,
}

impl Change {
    /// Creates a change to be recorded.
    pub(crate) fn new(actor: Actor, path: VPath, before: FileVersion, after: FileVersion) -> Self {
        Self { seq: 0, actor, path, before, after, done: false }
    }
}

/// A JSON column.
struct Json<T>(T);

impl<T: Serialize> ToSql for Json<&T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(self.0);
        text.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

impl Tx<'_> {
    /// Stores content under the hash of its version, if the version is one with stored content.
    pub(crate) fn put(&self, version: &FileVersion, content: &[u8]) -> Result<()> {
        if let FileVersion::File { hash, stored: true, .. } = version {
            self.0
                .prepare_cached("INSERT INTO content (hash, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
                .execute(params![hash, content])?;
        }
        Ok(())
    }

    /// Returns stored content; `None` if it is missing or damaged.
    pub(crate) fn content(&self, hash: &str) -> Result<Option<Vec<u8>>> {
        let mut statement = self.0.prepare_cached("SELECT body FROM content WHERE hash = ?1")?;
        let found: Option<Vec<u8>> = statement.query_row([hash], |row| row.get(0)).optional()?;
        Ok(found.filter(|content| hash_of(content) == hash))
    }

    /// Records changes that are about to be made and returns their sequence numbers.
    pub(crate) fn append(&self, log: &ThreadLog, changes: &[Change]) -> Result<RangeInclusive<u64>> {
        let (key, next) = self.find(log)?.map_or_else(|| self.begin(log), Ok)?;
        // Never reuse a number that the state already knows.
        let first = next.max(log.last + 1);
        let at = jiff::Timestamp::now().as_millisecond();
        let mut insert = self.0.prepare_cached(
            "INSERT INTO change (log, seq, at, actor, path, before, after) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let mut next = first;
        for Change { actor, path, before, after, .. } in changes {
            insert.execute(params![key, next as i64, at, Json(actor), path.as_str(), Json(before), Json(after)])?;
            next += 1;
        }
        self.0.prepare_cached("UPDATE log SET next = ?2 WHERE key = ?1")?.execute([key, next as i64])?;
        Ok(first..=next.saturating_sub(1))
    }

    /// Records the outcome of changes: marks them done, or deletes them if they were not made.
    pub(crate) fn settle(&self, log: &ThreadLog, changes: &RangeInclusive<u64>, done: bool) -> Result<()> {
        let Some((key, _)) = self.find(log)? else { return Ok(()) };
        let sql = if done {
            "UPDATE change SET done = 1 WHERE log = ?1 AND seq BETWEEN ?2 AND ?3"
        } else {
            "DELETE FROM change WHERE log = ?1 AND seq BETWEEN ?2 AND ?3"
        };
        self.0.prepare_cached(sql)?.execute([key, *changes.start() as i64, *changes.end() as i64])?;
        Ok(())
    }

    /// Returns, in order, the changes of a thread that were made or may have been made.
    pub(crate) fn changes(&self, log: &ThreadLog) -> Result<Vec<Change>> {
        let own = self.find(log)?.map(|(key, _)| (key, i64::MAX));
        let Some((key, until)) = own.or(self.source(log)?.map(|key| (key, log.last as i64))) else {
            return Ok(Vec::new());
        };
        let mut statement = self.0.prepare_cached(
            "SELECT seq, actor, path, before, after, done FROM change WHERE log = ?1 AND seq <= ?2 ORDER BY seq",
        )?;
        let changes = statement.query_map([key, until], |row| {
            Ok(Change {
                seq: row.get::<_, i64>(0)? as u64,
                actor: row.get::<_, Json<_>>(1)?.0,
                path: VPath::try_from(row.get::<_, String>(2)?).map_err(FromSqlError::other)?,
                before: row.get::<_, Json<_>>(3)?.0,
                after: row.get::<_, Json<_>>(4)?.0,
                done: row.get(5)?,
            })
        })?;
        Ok(changes.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the key of a log and its next sequence number.
    fn find(&self, log: &ThreadLog) -> Result<Option<(i64, u64)>> {
        let mut statement =
            self.0.prepare_cached("SELECT key, next FROM log WHERE id = ?1 AND thread = ?2 AND directory = ?3")?;
        let found = statement
            .query_row([&log.id, &log.thread, &log.directory], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)));
        Ok(found.optional()?)
    }

    /// Returns the log of the thread that this one was copied from, for a copy that has no log yet.
    fn source(&self, log: &ThreadLog) -> Result<Option<i64>> {
        for thread in log.copied_from.iter().rev().filter(|thread| **thread != log.thread) {
            if let Some((key, _)) = self.find(&ThreadLog { thread: thread.clone(), ..log.clone() })? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Creates the log of a thread. The log of a copy starts with the entries its source had at the time of the copy.
    fn begin(&self, log: &ThreadLog) -> Result<(i64, u64)> {
        let next = log.last + 1;
        let source = self.source(log)?;
        self.0
            .prepare_cached("INSERT INTO log (id, thread, directory, next) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![log.id, log.thread, log.directory, next as i64])?;
        let key = self.0.last_insert_rowid();
        self.0.execute(
            "INSERT INTO change SELECT ?1, seq, at, actor, path, before, after, done FROM change
             WHERE log = ?2 AND seq < ?3",
            params![key, source, next as i64],
        )?;
        Ok((key, next))
    }

    /// Deletes the entries that are needed only to restore states before `since`.
    pub(super) fn trim(&self, log: &ThreadLog, since: u64) -> Result<()> {
        if let Some((key, _)) = self.find(log)? {
            self.0.execute(
                "DELETE FROM change WHERE log = ?1 AND seq <= ?2 AND seq NOT IN
                    (SELECT max(seq) FROM change WHERE log = ?1 AND seq <= ?2 GROUP BY path)",
                [key, since as i64],
            )?;
        }
        Ok(())
    }

    /// Returns the keys of all logs with their threads.
    pub(super) fn logs(&self) -> Result<Vec<(i64, String)>> {
        let mut statement = self.0.prepare("SELECT key, thread FROM log")?;
        let logs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(logs.collect::<rusqlite::Result<_>>()?)
    }

    /// Deletes logs, and contents that no remaining log references.
    pub(super) fn gc(&self, logs: &[(i64, String)]) -> Result<GcStats> {
        let mut stats = GcStats::default();
        for (key, _) in logs {
            stats.logs += self.0.execute("DELETE FROM log WHERE key = ?1", [key])?;
        }
        let mut statement = self.0.prepare(
            "DELETE FROM content WHERE hash NOT IN (
                SELECT before ->> 'hash' FROM change WHERE before ->> 'hash' IS NOT NULL
                UNION SELECT after ->> 'hash' FROM change WHERE after ->> 'hash' IS NOT NULL
            ) RETURNING length(body)",
        )?;
        let sizes = statement.query_map([], |row| row.get::<_, i64>(0))?;
        for size in sizes {
            stats.contents += 1;
            stats.bytes += size? as u64;
        }
        Ok(stats)
    }
}
