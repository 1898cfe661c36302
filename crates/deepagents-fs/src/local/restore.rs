//! Putting back what a thread has changed.

use std::ffi::OsStr;

use deepagents_core::state::{State, Update};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fchmod, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::keeping::{Keeping, Seen, not_kept};
use super::open::{SAFE, failed};
use super::write::Target;
use super::{LocalBackend, Root};
use crate::kept::{
    By, FileChange, FileVersion, Here, KeptFiles, Marks, NewStep, OnConflict, Planner, RestorePlan, Store,
};
use crate::path::is_component;
use crate::{FsError, VPath, WriteMode};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(SAFE);

/// Why files were not put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backend keeps nothing.
    #[error("changes of these files are not kept; open the directory with `LocalOptions::keep`")]
    NotKept,
    /// What was kept is not there any more.
    #[error("what was kept of the thread's changes is gone; the conversation can go back without the files")]
    Lost,
    /// Work of others would be lost, and nobody has agreed to that. Nothing was changed.
    #[error("{} were changed by somebody else; say whether to skip or to overwrite them", paths(.0.conflicts.iter().map(|conflict| &conflict.change.path)))]
    Conflicts(Box<RestorePlan>),
    /// The files are no longer as they were when the plan was made. Nothing was changed.
    #[error("files were changed since the plan was made; look at the new plan")]
    Stale(Box<RestorePlan>),
    /// The files, or what is kept of them, cannot be read. Nothing was changed.
    #[error("what is there cannot be compared with what is kept: {0}")]
    Unreadable(#[source] FsError),
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
    /// When the backend keeps nothing, or the files cannot be read.
    pub async fn plan_restore(&self, thread: &str, here: &State, there: &State) -> Result<RestorePlan, RestoreError> {
        let way = self.way(thread, here, there)?;
        self.on_root(move |root, store| Ok(root.plan(store, &way)?.0)).await
    }

    /// Puts files back as planned, all of them unless somebody else's work would be lost. What is overwritten is kept.
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
        self.on_root(move |root, store| root.restore(store, &way, &planned, on)).await
    }

    fn way(&self, thread: &str, here: &State, there: &State) -> Result<Way, RestoreError> {
        if self.root.store.is_none() {
            return Err(RestoreError::NotKept);
        }
        let key = &self.root.key;
        let marks = Marks::in_thread(here, key, thread).or_else(|| Marks::in_thread(there, key, thread));
        let elsewhere = Marks::elsewhere(here, there, key);
        Ok(Way { marks, to: Marks::reached(there, key), known: Marks::reached(here, key), elsewhere })
    }

    async fn on_root<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &Store) -> Result<T, RestoreError> + Send + 'static,
    ) -> Result<T, RestoreError> {
        let root = self.root.clone();
        let done = tokio::task::spawn_blocking(move || match &root.store {
            Some(store) => work(&root, store),
            None => Err(RestoreError::NotKept),
        });
        let unfinished = |_| FsError::io(&VPath::root(), std::io::ErrorKind::Other, "the operation did not finish");
        done.await.map_err(unfinished)?
    }
}

impl From<FsError> for RestoreError {
    fn from(error: FsError) -> Self {
        Self::Unreadable(error)
    }
}

/// From where to where.
struct Way {
    /// Nothing where the thread has changed nothing.
    marks: Option<Marks>,
    to: u64,
    known: u64,
    /// Other directories with changes in between.
    elsewhere: usize,
}

/// What is in the way of a path that is looked at.
enum Above {
    Missing,
    NoDirectory(VPath),
}

impl Root {
    /// The plan, and the number of the last change there is.
    fn plan(&self, store: &Store, way: &Way) -> Result<(RestorePlan, u64), RestoreError> {
        let elsewhere = way.elsewhere;
        let Some(marks) = &way.marks else { return Ok((RestorePlan { elsewhere, ..RestorePlan::default() }, 0)) };
        let unreadable = |error: std::io::Error| FsError::io(&VPath::root(), error.kind(), error.kind().to_string());
        let steps = store.steps(&marks.id, &marks.earlier).map_err(unreadable)?;
        if way.known > 0 && steps.iter().all(|step| step.seq < way.known) {
            return Err(RestoreError::Lost);
        }
        let last = steps.last().map_or(0, |step| step.seq);
        let planner = Planner {
            steps,
            to: way.to,
            known: way.known,
            look: &|path| self.here(path),
            children: &|path| self.children(path),
            has: &|hash| store.get(hash).is_ok_and(|content| content.is_some()),
            max_file: store.keep.max_file,
        };
        Ok((RestorePlan { elsewhere, ..planner.plan()? }, last))
    }

    fn restore(
        &self,
        store: &Store,
        way: &Way,
        planned: &RestorePlan,
        on: OnConflict,
    ) -> Result<Restored, RestoreError> {
        // From here on nobody forgets what the plan needs.
        let held = way.marks.as_ref().map(|_| store.shared()).transpose();
        let _held = held.map_err(|error| not_kept(&VPath::root(), &error))?;
        let (plan, last) = self.plan(store, way)?;
        if plan != *planned {
            return Err(RestoreError::Stale(Box::new(plan)));
        }
        let Some(marks) = &way.marks else { return Ok(Restored::default()) };
        if on == OnConflict::Refuse && !plan.conflicts.is_empty() {
            return Err(RestoreError::Conflicts(Box::new(plan)));
        }
        let mut changes = plan.changes;
        let mut skipped: Vec<FileChange> = plan.conflicts.into_iter().map(|conflict| conflict.change).collect();
        if on == OnConflict::Overwrite {
            changes.append(&mut skipped);
        }
        let keeping = Keeping { store, marks };
        for change in changes.iter_mut().chain(&mut skipped) {
            self.keep_present(store, change)?;
        }
        // What somebody else did is a change of its own, so that it can be gone back to.
        let found = changes.iter().chain(&skipped).filter(|change| !change.now.same(&change.left));
        let found = found.map(|change| {
            let (before, after) = (change.left.clone(), change.now.clone());
            NewStep { path: change.path.clone(), before, after, by: By::Other, others: true }
        });
        let found: Vec<NewStep> = found.collect();
        // What is on disk is always what the last change made of it.
        let mut left = last;
        if !found.is_empty() {
            let noted = keeping.note(&VPath::root(), found, self.options.sync)?;
            keeping.mark(&noted, true);
            left = *noted.end();
        }
        let mut out =
            Restored { skipped: skipped.into_iter().map(|change| change.path).collect(), ..Restored::default() };
        let mut reached = left;
        if !changes.is_empty() {
            order(&mut changes);
            let steps = changes.iter().map(|change| {
                let (before, after) = (change.now.clone(), change.to.clone());
                NewStep { path: change.path.clone(), before, after, by: By::Rewind, others: change.others }
            });
            let noted = keeping.note(&VPath::root(), steps.collect(), self.options.sync)?;
            reached = *noted.end();
            for (change, seq) in changes.iter().zip(noted) {
                if let Err(source) = self.put_back(store, change) {
                    return Err(RestoreError::Partly { restored: out.restored, source });
                }
                keeping.mark(&(seq..=seq), true);
                out.restored.push(change.path.clone());
            }
            for change in changes.iter().rev() {
                self.close_directory(change);
            }
        }
        // What the thread did not know of can be gone back to as well.
        if left > way.known {
            out.left = marks.update(left);
        }
        out.goes_on = marks.update(reached);
        Ok(out)
    }

    /// Stores what is about to be overwritten; it must still be what was planned with.
    fn keep_present(&self, store: &Store, change: &mut FileChange) -> Result<(), FsError> {
        if !matches!(change.now, FileVersion::File { .. }) {
            return Ok(());
        }
        let changed = || FsError::Changed { path: change.path.clone() };
        let (directory, name) = self.above(&change.path, false)?.map_err(|_| changed())?;
        let seen = self.look(&change.path, &directory, OsStr::new(&name), Some(store))?.version;
        if !seen.same(&change.now) {
            return Err(changed());
        }
        change.now = seen;
        Ok(())
    }

    /// What is at a path no component of which may be a link.
    fn here(&self, path: &VPath) -> Result<Here, FsError> {
        match self.above(path, false)? {
            Ok((directory, name)) => Ok(Here::At(self.look(path, &directory, OsStr::new(&name), None)?.version)),
            Err(Above::Missing) => Ok(Here::At(FileVersion::Absent)),
            Err(Above::NoDirectory(above)) => Ok(Here::Below(above)),
        }
    }

    /// The directory above a path, opened without following links, and the name there.
    fn above(&self, path: &VPath, make: bool) -> Result<Result<(OwnedFd, String), Above>, FsError> {
        let fail = |errno| failed(path, errno);
        let Some(name) = path.name() else { return Err(FsError::Fixed { path: path.clone() }) };
        let mut directory = self.fd.try_clone().map_err(|error| FsError::from_io(path, &error))?;
        let mut above: Vec<VPath> = path.ancestors().filter(|above| !above.is_root()).collect();
        above.reverse();
        for above in above {
            let Some(name) = above.name() else { continue };
            if make {
                match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(fail(errno)),
                }
            }
            directory = match openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(Err(Above::Missing)),
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(Err(Above::NoDirectory(above))),
                Err(errno) => return Err(fail(errno)),
            };
        }
        Ok(Ok((directory, name.to_owned())))
    }

    fn children(&self, path: &VPath) -> Result<Option<Vec<VPath>>, FsError> {
        let fail = |errno| failed(path, errno);
        let Ok((above, name)) = self.above(path, false)? else { return Ok(None) };
        let directory = openat(&above, &*name, DIRECTORY, Mode::empty()).map_err(fail)?;
        let mut children = Vec::new();
        for entry in Dir::read_from(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) if is_component(name) => children.push(path.child(name)),
                _ => return Ok(None),
            }
        }
        Ok(Some(children))
    }

    /// Does one change, if what is there is still what was planned with.
    fn put_back(&self, store: &Store, change: &FileChange) -> Result<(), FsError> {
        let path = &change.path;
        let fail = |errno| failed(path, errno);
        let changed = || FsError::Changed { path: path.clone() };
        let makes = change.to != FileVersion::Absent;
        let (directory, name) = match self.above(path, makes)? {
            Ok(place) => place,
            Err(Above::Missing) if !makes => return Ok(()),
            Err(_) => return Err(changed()),
        };
        let name = OsStr::new(&name);
        let Seen { version, host } = self.look(path, &directory, name, None)?;
        if version != change.now && !version.same(&change.now) {
            return Err(changed());
        }
        let replaces = matches!((&change.now, &change.to), (FileVersion::File { .. }, FileVersion::File { .. }));
        if !replaces && change.now != FileVersion::Absent {
            if change.now.is_directory() {
                match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                    Ok(()) => {}
                    // Somebody put something there: it stays, with the directory.
                    Err(Errno::NOTEMPTY | Errno::EXIST) if !makes => return Ok(()),
                    Err(errno) => return Err(fail(errno)),
                }
            } else {
                self.unlink(path, &directory, name, host.as_ref())?;
            }
        }
        match &change.to {
            FileVersion::Absent => Ok(()),
            FileVersion::Directory { mode } => {
                // Nobody else looks inside before it has the permissions it had.
                let bits = Mode::from_raw_mode(mode.map_or(0o777, |_| 0o700));
                match mkdirat(&directory, name, bits) {
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(errno) => Err(fail(errno)),
                }
            }
            FileVersion::Link { to } => symlinkat(to.as_str(), &directory, name).map_err(fail),
            FileVersion::File { hash, mode, .. } => {
                let content = store.get(hash).map_err(|error| FsError::from_io(path, &error))?;
                let content = content
                    .ok_or_else(|| FsError::io(path, std::io::ErrorKind::NotFound, "its content is no longer kept"))?;
                let target = Target { path, directory: &directory, name };
                let based = if replaces { host } else { None };
                self.replace(&target, &content, &WriteMode::Overwrite, Some(&based), Some(*mode)).map(drop)
            }
            FileVersion::Unkept { why } => Err(FsError::io(path, std::io::ErrorKind::NotFound, why.clone())),
        }
    }
}

impl Root {
    /// Gives a directory that was put back the permissions it had, once all is in it. Where that is not possible it
    /// stays the owner's alone.
    fn close_directory(&self, change: &FileChange) {
        let FileVersion::Directory { mode: Some(bits) } = change.to else { return };
        let Ok(Ok((above, name))) = self.above(&change.path, false) else { return };
        if let Ok(directory) = openat(&above, &*name, DIRECTORY, Mode::empty()) {
            let _ = fchmod(&directory, Mode::from_raw_mode(bits));
        }
    }
}

/// What is in the way goes first, what lies deeper before what it lies in; then comes what is put there.
fn order(changes: &mut [FileChange]) {
    let depth = |change: &FileChange| change.path.components().count();
    changes.sort_by(|a, b| {
        let (makes_a, makes_b) = (a.to != FileVersion::Absent, b.to != FileVersion::Absent);
        makes_a.cmp(&makes_b).then_with(|| if makes_a { depth(a).cmp(&depth(b)) } else { depth(b).cmp(&depth(a)) })
    });
}

impl Marks {
    fn update(&self, seq: u64) -> Update {
        KeptFiles::at(&self.id, seq)
    }
}
