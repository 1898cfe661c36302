//! Putting back what a thread has changed.

mod put_back;

use deepagents_core::state::{State, Update};

use super::{LocalBackend, Root};
use crate::local::record::Recorder;
use crate::undo::{
    Actor, Change, FileChange, FileUndo, FileVersion, OnConflict, Planner, RestorePlan, Skipped, ThreadLog, Tx,
    UndoCursor, UndoError,
};
use crate::{FsError, VPath};

/// Why files were not put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backend records nothing.
    #[error("changes to these files are not recorded; open the directory with `LocalOptions::undo`")]
    NotRecorded,
    /// What was recorded is not there any more.
    #[error("the record of the thread's changes is gone; the conversation can go back without the files")]
    Lost,
    /// Work of others would be lost, and nobody has agreed to that. Nothing was changed.
    #[error("{} were changed by somebody else; say whether to skip or to overwrite them", paths(.0.conflicts.iter().map(|conflict| &conflict.change.path)))]
    Conflicts(Box<RestorePlan>),
    /// The files are no longer as they were when the plan was made. Nothing was changed.
    #[error("files have changed since the plan was made; look at the new plan")]
    Stale(Box<RestorePlan>),
    /// The files cannot be read. Nothing was changed.
    #[error("the files cannot be compared with what was recorded: {0}")]
    Unreadable(#[from] FsError),
    /// The undo database cannot be used. Nothing was changed.
    #[error("{0}")]
    Undo(#[from] UndoError),
    /// Only some of the files were put back; doing it again puts back the rest.
    #[error("only {} were put back: {source}", paths(.restored))]
    Partly {
        /// What was put back.
        restored: Vec<VPath>,
        /// What went wrong then.
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

/// What was put back.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Restored {
    /// What was put back or removed.
    pub restored: Vec<VPath>,
    /// What stays as it was on account of somebody else's changes.
    pub skipped: Vec<VPath>,
    /// What the state that is left must remember to be gone back to; may be empty.
    pub left: Update,
    /// What the state that is gone back to must remember.
    pub goes_on: Update,
}

impl LocalBackend {
    /// What going back means for the files that a thread has changed: from `here`, the thread's present state, to
    /// `there`, its state at a checkpoint.
    ///
    /// # Errors
    /// When the backend records nothing, or the files or the undo database cannot be read.
    pub async fn plan_restore(&self, thread: &str, here: &State, there: &State) -> Result<RestorePlan, RestoreError> {
        let way = self.way(thread, here, there)?;
        self.on_root(move |root, recorder| {
            let plan = recorder.database.read(|tx| root.plan(Some(tx), false, recorder, &way))?;
            Ok(plan.map_or_else(|| root.plan(None, false, recorder, &way), Ok)?.0)
        })
        .await
    }

    /// Puts files back as planned, all of them unless somebody else's work would be lost. What is overwritten is
    /// recorded.
    ///
    /// # Errors
    /// [`RestoreError::Stale`] when the plan no longer holds, [`RestoreError::Conflicts`] when there are conflicts that
    /// are to be refused; [`RestoreError::Partly`] when something went wrong on the way.
    pub async fn restore(
        &self,
        thread: &str,
        here: &State,
        there: &State,
        plan: &RestorePlan,
        on: OnConflict,
    ) -> Result<Restored, RestoreError> {
        let (way, planned) = (self.way(thread, here, there)?, plan.clone());
        self.on_root(move |root, recorder| root.restore(recorder, &way, &planned, on)).await
    }

    /// The content of a version as it was recorded; nothing where it was not, such as that of a large file.
    ///
    /// # Errors
    /// When the backend records nothing, or the undo database cannot be read.
    pub async fn recorded(&self, version: &FileVersion) -> Result<Option<Vec<u8>>, RestoreError> {
        let FileVersion::File { hash, stored: true, .. } = version else { return Ok(None) };
        let hash = hash.clone();
        self.on_root(move |_, recorder| Ok(recorder.database.read(|tx| tx.content(&hash))?.flatten())).await
    }

    fn way(&self, thread: &str, here: &State, there: &State) -> Result<RestorePath, RestoreError> {
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

/// From where to where.
struct RestorePath {
    /// Nothing where the thread has changed nothing.
    log: Option<ThreadLog>,
    to: u64,
    known: u64,
    /// Other directories with changes in between.
    elsewhere: usize,
    /// Whether versions before the undo database made some of the changes.
    legacy: bool,
}

impl Root {
    /// The plan, and the number of the last change there is. With `keep` what is there is stored, so that it can be
    /// overwritten. Without a transaction nothing was ever recorded.
    fn plan(
        &self,
        tx: Option<&Tx<'_>>,
        keep: bool,
        recorder: &Recorder,
        way: &RestorePath,
    ) -> Result<(RestorePlan, u64), RestoreError> {
        let changes = match (tx, &way.log) {
            (Some(tx), Some(log)) => tx.changes(log)?,
            _ => Vec::new(),
        };
        if way.known > 0 && changes.iter().all(|change| change.seq < way.known) {
            return Err(RestoreError::Lost);
        }
        let last = changes.last().map_or(0, |change| change.seq);
        let max_file = recorder.database.options.max_file;
        let planner = Planner {
            to: way.to,
            known: way.known,
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
        plan.elsewhere = way.elsewhere;
        if way.legacy {
            let reason = "changes below it that an earlier version recorded are no longer read".to_owned();
            plan.skipped.insert(0, Skipped { path: VPath::root(), reason });
        }
        Ok((plan, last))
    }

    fn restore(
        &self,
        recorder: &Recorder,
        way: &RestorePath,
        planned: &RestorePlan,
        on: OnConflict,
    ) -> Result<Restored, RestoreError> {
        let Some(log) = &way.log else {
            let (plan, _) = self.plan(None, false, recorder, way)?;
            return if plan == *planned { Ok(Restored::default()) } else { Err(RestoreError::Stale(Box::new(plan))) };
        };
        let database = &recorder.database;
        // One transaction, so nobody removes what the plan needs before there are rows that need it.
        let (changes, skipped, left) = database.write(self.options.sync, |tx| {
            let (plan, last) = self.plan(Some(tx), true, recorder, way)?;
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
            // What somebody else did is a change of its own, so that it can be gone back to.
            let found = changes.iter().chain(&skipped).filter(|change| !change.now.same(&change.left));
            let found: Vec<Change> = found.map(|change| row(change, Actor::Other, &change.left, &change.now)).collect();
            let rows = changes.iter().map(|change| {
                let actor = if change.others { Actor::RewindToOther } else { Actor::Rewind };
                row(change, actor, &change.now, &change.to)
            });
            let rows: Vec<Change> = rows.collect();
            // What is on disk is always what the last change made of it.
            let mut left = last;
            if !found.is_empty() {
                let noted = tx.append(log, &found)?;
                tx.settle(log, &noted, true)?;
                left = *noted.end();
            }
            let numbers = if rows.is_empty() { left..=left } else { tx.append(log, &rows)? };
            Ok((numbers.zip(changes).collect::<Vec<_>>(), skipped, left))
        })?;
        let mut restored = Vec::new();
        for (seq, change) in &changes {
            if let Err(source) = self.put_back(recorder, change) {
                return Err(RestoreError::Partly { restored, source });
            }
            // What fails here is worked out from the files when it is needed.
            let _ = database.write(false, |tx| tx.settle(log, &(*seq..=*seq), true));
            restored.push(change.path.clone());
        }
        for (_, change) in changes.iter().rev() {
            self.close_directory(change);
        }
        Ok(Restored {
            restored,
            skipped: skipped.into_iter().map(|change| change.path).collect(),
            // What the thread did not know of can be gone back to as well.
            left: if left > way.known { log.update(left) } else { Update::none() },
            goes_on: log.update(changes.last().map_or(left, |(seq, _)| *seq)),
        })
    }
}

fn row(change: &FileChange, actor: Actor, before: &FileVersion, after: &FileVersion) -> Change {
    Change::new(actor, change.path.clone(), before.clone(), after.clone())
}

/// What is in the way goes first, what lies deeper before what it lies in; then comes what is put there.
fn order(changes: &mut [FileChange]) {
    let depth = |change: &FileChange| change.path.components().count();
    changes.sort_by(|a, b| {
        let (makes_a, makes_b) = (a.to != FileVersion::Absent, b.to != FileVersion::Absent);
        makes_a.cmp(&makes_b).then_with(|| if makes_a { depth(a).cmp(&depth(b)) } else { depth(b).cmp(&depth(a)) })
    });
}
