//! Plans the file changes of a rewind to a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use super::{Actor, Change, FileVersion};
use crate::{FsError, VPath};

/// The effect of a rewind to a checkpoint on the files that the agent has changed since. Creating a plan changes
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestorePlan {
    /// Files that will be restored.
    pub changes: Vec<FileChange>,
    /// Files that cannot be restored without losing someone else's work.
    pub conflicts: Vec<Conflict>,
    /// Files that the agent changed but that stay as they are, because the version to restore was not recorded or the
    /// current one cannot be.
    pub skipped: Vec<Skipped>,
    /// The files among all of these that the agent changed without the thread recording the outcome, because the
    /// process died or the call failed.
    pub unrecorded: Vec<VPath>,
    /// Number of other directories in which the thread has changed files since the checkpoint; those files stay as they
    /// are. A directory that was moved counts as another one.
    pub elsewhere: usize,
}

impl RestorePlan {
    /// Returns whether there is nothing to restore and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.conflicts.is_empty() && self.skipped.is_empty() && self.elsewhere == 0
    }
}

/// Planned change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileChange {
    /// The path.
    pub path: VPath,
    /// The version on disk.
    pub now: FileVersion,
    /// The version to restore.
    pub to: FileVersion,
    /// The version that the agent last wrote.
    pub left: FileVersion,
    /// Whether the version to restore is someone else's work.
    pub(crate) others: bool,
}

/// A path at which someone else's work would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The change that would be made.
    pub change: FileChange,
    /// Reason it needs a decision.
    pub reason: ConflictReason,
}

/// Reason a file is not restored without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictReason {
    /// The file on disk differs from the version that the agent last wrote.
    Changed,
    /// Someone else changed the file between the checkpoint and a later change by the agent, so it contains the work of
    /// both.
    ChangedBetween,
}

/// A path that is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The path.
    pub path: VPath,
    /// The reason, phrased as the end of a sentence about the path.
    pub reason: String,
}

/// Handling of conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Restore nothing at all.
    #[default]
    Refuse,
    /// Leave the conflicting files as they are and restore the others.
    Skip,
    /// Overwrite them. Their current content is recorded, so that it can be restored later.
    Overwrite,
}

/// What is on disk at a path.
#[derive(Clone, Debug)]
pub(crate) enum OnDisk {
    At(FileVersion),
    /// This ancestor of the path is not a directory.
    Below(VPath),
}

type Children<'a> = dyn Fn(&VPath) -> Result<Option<Vec<VPath>>, FsError> + 'a;

/// Inputs of a plan.
pub(crate) struct Planner<'a> {
    /// Sequence number of the last change to keep.
    pub(crate) to: u64,
    /// Sequence number of the last change that the thread knows of.
    pub(crate) known: u64,
    pub(crate) look: &'a dyn Fn(&VPath) -> Result<OnDisk, FsError>,
    /// Lists the children of a directory; `None` if a name is not valid in a path.
    pub(crate) children: &'a Children<'a>,
    /// Returns whether the content with a hash is stored.
    pub(crate) has: &'a dyn Fn(&str) -> bool,
    /// Maximum size in bytes of a recorded file.
    pub(crate) max_file: u64,
}

/// A path that differs from the version to restore.
struct Wanted {
    change: FileChange,
    reason: Option<ConflictReason>,
}

impl Planner<'_> {
    /// Plans the rewind from all changes of a thread.
    pub(crate) fn plan(&self, changes: Vec<Change>) -> Result<RestorePlan, FsError> {
        let mut by_path: BTreeMap<VPath, Vec<Change>> = BTreeMap::new();
        for change in changes {
            by_path.entry(change.path.clone()).or_default().push(change);
        }
        let mut plan = RestorePlan::default();
        let mut wanted = BTreeMap::new();
        let mut below: Vec<(VPath, VPath)> = Vec::new();
        for (path, changes) in by_path {
            let (now, in_the_way) = match (self.look)(&path)? {
                OnDisk::At(version) => (version, None),
                OnDisk::Below(above) => (FileVersion::Absent, Some(above)),
            };
            let changes = settled(changes, &now);
            let first = changes.partition_point(|change| change.seq <= self.to);
            let Some(change) = file_change(&path, &changes, first, now) else { continue };
            if change.now.same(&change.to) {
                continue;
            }
            let unknown = |change: &Change| change.seq > self.known.max(self.to) && change.actor == Actor::Agent;
            if changes.iter().any(unknown) {
                plan.unrecorded.push(path.clone());
            }
            if let Some(reason) = self.missing(&change.to).or_else(|| self.would_be_lost(&change.now)) {
                plan.skipped.push(Skipped { path, reason });
                continue;
            }
            below.extend(in_the_way.map(|above| (path.clone(), above)));
            let reason = conflict_reason(&changes, first, &change);
            wanted.insert(path, Wanted { change, reason });
        }
        self.directories(&mut wanted, &mut plan)?;
        for (path, above) in below {
            let goes = wanted.get(&above).filter(|above| above.change.to.is_directory()).map(|above| above.reason);
            match (goes, wanted.get_mut(&path)) {
                // Restored only together with the ancestor that is in the way.
                (Some(reason), Some(own)) => own.reason = own.reason.or(reason),
                (None, Some(_)) => {
                    wanted.remove(&path);
                    let reason = format!("{above}, which is not a directory, is in the way");
                    plan.skipped.push(Skipped { path, reason });
                }
                _ => {}
            }
        }
        for Wanted { change, reason } in wanted.into_values() {
            match reason {
                None => plan.changes.push(change),
                Some(reason) => plan.conflicts.push(Conflict { change, reason }),
            }
        }
        plan.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        let changes = plan.changes.iter().chain(plan.conflicts.iter().map(|conflict| &conflict.change));
        let named: BTreeSet<&VPath> =
            changes.map(|change| &change.path).chain(plan.skipped.iter().map(|skipped| &skipped.path)).collect();
        plan.unrecorded.retain(|path| named.contains(path));
        Ok(plan)
    }

    /// Returns the reason a version cannot be restored.
    fn missing(&self, to: &FileVersion) -> Option<String> {
        match to {
            FileVersion::Unrecorded { reason } => Some(reason.clone()),
            FileVersion::File { stored: false, .. } => Some("it was too large to be stored".to_owned()),
            FileVersion::File { hash, .. } if !(self.has)(hash) => Some("its content is no longer stored".to_owned()),
            _ => None,
        }
    }

    /// Returns the reason the current version cannot be replaced: it could not be restored later.
    fn would_be_lost(&self, now: &FileVersion) -> Option<String> {
        match now {
            FileVersion::Unrecorded { reason } => Some(format!("what is there cannot be stored: {reason}")),
            FileVersion::File { size, .. } if *size > self.max_file => {
                Some("what is there is too large to be stored".to_owned())
            }
            _ => None,
        }
    }

    /// Removes a directory only with all its contents: a directory that contains other files stays.
    fn directories(&self, wanted: &mut BTreeMap<VPath, Wanted>, plan: &mut RestorePlan) -> Result<(), FsError> {
        // Deepest directories first.
        let going = wanted.iter().rev().filter(|(_, wanted)| wanted.change.now.is_directory());
        let going: Vec<VPath> = going.map(|(path, _)| path.clone()).collect();
        for path in going {
            let children = (self.children)(&path)?;
            let fate = |child: &VPath| wanted.get(child).filter(|wanted| wanted.change.to == FileVersion::Absent);
            let all_go = children.as_ref().is_some_and(|children| children.iter().all(|child| fate(child).is_some()));
            let asked = all_go && children.iter().flatten().filter_map(fate).any(|child| child.reason.is_some());
            let Some(own) = wanted.get_mut(&path) else { continue };
            if asked {
                own.reason.get_or_insert(ConflictReason::Changed);
            }
            if !all_go {
                if own.change.to != FileVersion::Absent {
                    let reason = "a directory that holds other files is in the way".to_owned();
                    plan.skipped.push(Skipped { path: path.clone(), reason });
                }
                wanted.remove(&path);
            }
        }
        Ok(())
    }
}

/// Returns the changes that were made. If the process died at a change, the version that follows shows whether it was
/// made.
fn settled(changes: Vec<Change>, now: &FileVersion) -> Vec<Change> {
    let mut out: Vec<Change> = Vec::new();
    let mut next = now.clone();
    for change in changes.into_iter().rev() {
        if change.done || !next.same(&change.before) || next.same(&change.after) {
            next = change.before.clone();
            out.push(change);
        }
    }
    out.reverse();
    // Two concurrent changes that need the same directory may both have recorded its creation.
    out.dedup_by(|later, before| later.after.is_directory() && before.after.is_directory());
    out
}

/// Returns the planned change of a path; `first` is the index of the first change after the checkpoint.
fn file_change(path: &VPath, changes: &[Change], first: usize, now: FileVersion) -> Option<FileChange> {
    let (earlier, later) = changes.split_at_checked(first)?;
    let (next, last) = (later.first()?, later.last()?);
    let (to, others) = match earlier.last() {
        Some(change) => (&change.after, change.actor.left_others_work()),
        None => (&next.before, false),
    };
    Some(FileChange { path: path.clone(), now, to: to.clone(), left: last.after.clone(), others })
}

fn conflict_reason(changes: &[Change], first: usize, change: &FileChange) -> Option<ConflictReason> {
    if !change.now.same(&change.left) {
        return Some(ConflictReason::Changed);
    }
    // Conflicts before the last rewind were decided then.
    let back = changes.iter().rposition(|change| change.actor.is_rewind()).filter(|at| *at >= first);
    let mut found = changes.iter().enumerate().skip(back.unwrap_or(first));
    let between = found.any(|(at, change)| {
        let before = at.checked_sub(1).and_then(|at| changes.get(at));
        let broken = back != Some(at) && before.is_some_and(|before| !before.after.same(&change.before));
        broken || change.actor.left_others_work()
    });
    between.then_some(ConflictReason::ChangedBetween)
}
