//! Restores files that a thread has changed.

mod put_back;

use deepagents_core::state::{State, Update};

use super::{LocalBackend, Root};
use crate::local::record::Recorder;
use crate::undo::{
    Actor, Change, FileChange, FileUndo, FileVersion, OnConflict, Planner, RestorePlan, Skipped, ThreadLog, Tx,
    UndoCursor, UndoError,
};
use crate::{FsError, VPath};

/// Reason files were not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backend does not record changes.
    #[error("changes to these files are not recorded; open the directory with `LocalOptions::undo`")]
    NotRecorded,
    /// The recorded changes are gone.
    #[error("the record of the thread's changes is gone; the conversation can go back without the files")]
    Lost,
    /// Restoring would lose someone else's work, and nobody has agreed to that. Nothing was changed.
    #[error("{} were changed by somebody else; say whether to skip or to overwrite them", paths(.0.conflicts.iter().map(|conflict| &conflict.change.path)))]
    Conflicts(Box<RestorePlan>),
    /// The files have changed since the plan was made. Nothing was changed.
    #[error("files have changed since the plan was made; look at the new plan")]
    Stale(Box<RestorePlan>),
    /// The files cannot be read. Nothing was changed.
    #[error("the files cannot be compared with what was recorded: {0}")]
    Unreadable(#[from] FsError),
    /// The undo database cannot be used. Nothing was changed.
    #[error("{0}")]
    Undo(#[from] UndoError),
    /// Only some of the files were restored; restoring again restores the rest.
    #[error("only {} were put back: {source}", paths(.restored))]
    Partly {
        /// The restored files.
        restored: Vec<VPath>,
        /// The error that stopped it.
        #[source]
        source: FsError,
    },
}

fn paths<'a>(paths: impl IntoIterator<Item = &'a VPath>) -> String {
    let paths: Vec<String> = paths.into_iter().map(ToString::to_string).collect();
    match paths.as_slice() {
        [] => "no files".to_owned(),
        [one, two, three, _, ..] => format!("{one}, {two}, {three} and {} others", paths.len() - 3),
        few => few.join(", "),
    }
}

/// Result of restoring files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Restored {
    /// Paths that were restored or removed.
    pub restored: Vec<VPath>,
    /// Paths that were left as they are because of someone else's changes.
    pub skipped: Vec<VPath>,
    /// Update for the state that is left, needed to return to it; may be empty.
    pub left: Update,
    /// Update for the state that is restored.
    pub target: Update,
}

impl LocalBackend {
    /// Plans the restoration of the files that a thread has changed between `there`, its state at a checkpoint, and
    /// `here`, its current state.
    ///
    /// # Errors
    /// Returns an error if the backend does not record changes, or if the files or the undo database cannot be read.
    pub async fn plan_restore(&self, thread: &str, here: &State, there: &State) -> Result<RestorePlan, RestoreError> {
        let restore_path = self.restore_path(thread, here, there)?;
        self.on_root(move |root, recorder| {
            let plan = recorder.database.read(|tx| root.plan(Some(tx), false, recorder, &restore_path))?;
            Ok(plan.map_or_else(|| root.plan(None, false, recorder, &restore_path), Ok)?.0)
        })
        .await
    }

    /// Restores files as planned: all of them, or none if that would lose someone else's work and `on` refuses. Records
    /// what it overwrites.
    ///
    /// # Errors
    /// Returns [`RestoreError::Stale`] if the plan is out of date, [`RestoreError::Conflicts`] if there are conflicts
    /// and `on` refuses them, and [`RestoreError::Partly`] if an error occurred part of the way.
    pub async fn restore(
        &self,
        thread: &str,
        here: &State,
        there: &State,
        plan: &RestorePlan,
        on: OnConflict,
    ) -> Result<Restored, RestoreError> {
        let (restore_path, planned) = (self.restore_path(thread, here, there)?, plan.clone());
        self.on_root(move |root, recorder| root.restore(recorder, &restore_path, &planned, on)).await
    }

    /// Returns the recorded content of a version; `None` if it was not recorded, for example because the file was too
    /// large.
    ///
    /// # Errors
    /// Returns an error if the backend does not record changes, or if the undo database cannot be read.
    pub async fn recorded(&self, version: &FileVersion) -> Result<Option<Vec<u8>>, RestoreError> {
        let FileVersion::File { hash, stored: true, .. } = version else { return Ok(None) };
        let hash = hash.clone();
        self.on_root(move |_, recorder| Ok(recorder.database.read(|tx| tx.content(&hash))?.flatten())).await
    }

    fn restore_path(&self, thread: &str, here: &State, there: &State) -> Result<RestorePath, RestoreError> {
        let directory = &self.root.recorder.as_ref().ok_or(RestoreError::NotRecorded)?.directory;
        let log = |state| ThreadLog::of_thread(state, directory, thread);
        let cursor = |state: &State| state.get::<FileUndo>().cloned().unwrap_or_default();
        let (old, new): (UndoCursor, UndoCursor) = (cursor(there), cursor(here));
        Ok(RestorePath {
            log: log(here).or_else(|| log(there)),
            to: old.last(directory),
            known: new.last(directory),
            elsewhere: new.elsewhere(&old, directory),
            legacy: new.legacy_differs(&old, directory),
        })
    }

    async fn on_root<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &Recorder) -> Result<T, RestoreError> + Send + 'static,
    ) -> Result<T, RestoreError> {
        let work = move |root: &Root, _: &VPath| work(root, root.recorder.as_ref().ok_or(RestoreError::NotRecorded)?);
        self.blocking(&VPath::root(), work).await
    }
}

/// Start and end of a restoration.
struct RestorePath {
    /// `None` if the thread has changed nothing.
    log: Option<ThreadLog>,
    to: u64,
    known: u64,
    /// Number of other directories with changes in between.
    elsewhere: usize,
    /// Whether releases before the undo database made some of the changes.
    legacy: bool,
}

impl Root {
    /// Returns the plan and the number of the last recorded change. With `keep`, stores the current content so that it
    /// can be overwritten. Without a transaction, nothing was ever recorded.
    fn plan(
        &self,
        tx: Option<&Tx<'_>>,
        keep: bool,
        recorder: &Recorder,
        restore_path: &RestorePath,
    ) -> Result<(RestorePlan, u64), RestoreError> {
        let changes = match (tx, &restore_path.log) {
            (Some(tx), Some(log)) => tx.changes(log)?,
            _ => Vec::new(),
        };
        if restore_path.known > 0 && changes.iter().all(|change| change.seq < restore_path.known) {
            return Err(RestoreError::Lost);
        }
        let last = changes.last().map_or(0, |change| change.seq);
        let max_file = recorder.database.options.max_file;
        let planner = Planner {
            to: restore_path.to,
            known: restore_path.known,
            look: &|path| self.on_disk(path, max_file, tx.filter(|_| keep)),
            children: &|path| {
                let listing = self.list(path)?;
                let paths = || listing.entries.into_iter().map(|entry| entry.path).collect();
                Ok((listing.unnameable == 0).then(paths))
            },
            has: &|hash| tx.is_some_and(|tx| tx.content(hash).is_ok_and(|content| content.is_some())),
            max_file,
        };
        let mut plan = planner.plan(changes)?;
        plan.elsewhere = restore_path.elsewhere;
        if restore_path.legacy {
            let reason = "changes below it that an earlier version recorded are no longer read".to_owned();
            plan.skipped.insert(0, Skipped { path: VPath::root(), reason });
        }
        Ok((plan, last))
    }

    fn restore(
        &self,
        recorder: &Recorder,
        restore_path: &RestorePath,
        planned: &RestorePlan,
        on: OnConflict,
    ) -> Result<Restored, RestoreError> {
        let Some(log) = &restore_path.log else {
            let (plan, _) = self.plan(None, false, recorder, restore_path)?;
            return if plan == *planned { Ok(Restored::default()) } else { Err(RestoreError::Stale(Box::new(plan))) };
        };
        let database = &recorder.database;
        // A single transaction, so that nobody deletes content that the plan needs before the rows that reference it
        // exist.
        let (changes, skipped, left) = database.write(self.options.sync, |tx| {
            let (plan, last) = self.plan(Some(tx), true, recorder, restore_path)?;
            if plan != *planned {
                return Err(RestoreError::Stale(Box::new(plan)));
            }
            if on == OnConflict::Refuse && !plan.conflicts.is_empty() {
                return Err(RestoreError::Conflicts(Box::new(plan)));
            }
            let mut changes = plan.changes;
            let mut skipped: Vec<FileChange> = plan.conflicts.into_iter().map(|conflict| conflict.change).collect();
            if on == OnConflict::Overwrite {
                changes.append(&mut skipped);
            }
            order(&mut changes);
            // Record someone else's change as a change of its own, so that it can be restored too.
            let found = changes.iter().chain(&skipped).filter(|change| !change.now.same(&change.left));
            let found: Vec<Change> = found.map(|change| row(change, Actor::Other, &change.left, &change.now)).collect();
            let rows = changes.iter().map(|change| {
                let actor = if change.others { Actor::RewindToOther } else { Actor::Rewind };
                row(change, actor, &change.now, &change.to)
            });
            let rows: Vec<Change> = rows.collect();
            // What is on disk is always the result of the last change.
            let mut left = last;
            if !found.is_empty() {
                let noted = tx.append(log, &found)?;
                tx.settle(log, &noted, true)?;
                left = *noted.end();
            }
            let numbers = if rows.is_empty() { left..=left } else { tx.append(log, &rows)? };
            Ok((numbers.zip(changes).collect::<Vec<_>>(), skipped, left))
        })?;
        let (mut restored, mut failed) = (Vec::new(), None);
        for (seq, change) in &changes {
            failed = self.put_back(recorder, change).err();
            if failed.is_some() {
                break;
            }
            // If this fails, the outcome is inferred from the files when it is needed.
            let _ = database.write(false, |tx| tx.settle(log, &(*seq..=*seq), true));
            restored.push(change.path.clone());
        }
        for (_, change) in changes.iter().take(restored.len()).rev() {
            self.close_directory(change);
        }
        if let Some(source) = failed {
            return Err(RestoreError::Partly { restored, source });
        }
        Ok(Restored {
            restored,
            skipped: skipped.into_iter().map(|change| change.path).collect(),
            // Changes that the thread did not know of can be restored too.
            left: if left > restore_path.known { log.update(left) } else { Update::none() },
            target: log.update(changes.last().map_or(left, |(seq, _)| *seq)),
        })
    }
}

fn row(change: &FileChange, actor: Actor, before: &FileVersion, after: &FileVersion) -> Change {
    Change::new(actor, change.path.clone(), before.clone(), after.clone())
}

/// Removals come first, deepest path first; then creations, parents first.
fn order(changes: &mut [FileChange]) {
    let depth = |change: &FileChange| change.path.components().count();
    changes.sort_by(|a, b| {
        let (makes_a, makes_b) = (a.to != FileVersion::Absent, b.to != FileVersion::Absent);
        makes_a.cmp(&makes_b).then_with(|| if makes_a { depth(a).cmp(&depth(b)) } else { depth(b).cmp(&depth(a)) })
    });
}
