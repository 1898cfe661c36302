//! What going back to a checkpoint means for files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Actor, Change, FileVersion};
use crate::{FsError, VPath};

/// What going back to a checkpoint means for the files that the agent has changed since. Nothing is done yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestorePlan {
    /// What is put back.
    pub changes: Vec<FileChange>,
    /// What cannot be put back without losing what somebody else has done.
    pub conflicts: Vec<Conflict>,
    /// What the agent has changed and stays as it is: what is to be put back was not recorded, or what is there could
    /// not be.
    pub skipped: Vec<Skipped>,
    /// Files among all of these that the agent changed without its thread knowing the outcome, as the process ended
    /// then or the call failed.
    pub unrecorded: Vec<VPath>,
    /// In how many other directories the thread has changed files in between; what is there stays as it is. A directory
    /// that was moved is another one.
    pub elsewhere: usize,
}

impl RestorePlan {
    /// Whether there is nothing to put back and nothing to say.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.conflicts.is_empty() && self.skipped.is_empty() && self.elsewhere == 0
    }
}

/// What becomes of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileChange {
    /// The path.
    pub path: VPath,
    /// What is there.
    pub now: FileVersion,
    /// What is put there.
    pub to: FileVersion,
    /// What the agent left there.
    pub left: FileVersion,
    /// Whether what is put there is not the agent's.
    pub(crate) others: bool,
}

/// A path at which somebody else's work would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// What would be done.
    pub change: FileChange,
    /// Why it is not done unasked.
    pub reason: ConflictReason,
}

/// Why a file is not put back unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictReason {
    /// What is there is not what the agent left.
    Changed,
    /// Somebody changed it after the checkpoint and before the agent changed it again, so both are in it.
    ChangedBetween,
}

/// A path that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The path.
    pub path: VPath,
    /// Why, as the end of a sentence about it.
    pub reason: String,
}

/// What is done about conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing at all is put back.
    #[default]
    Refuse,
    /// The files stay as they are, the others are put back.
    Skip,
    /// They are overwritten; what they held is recorded, so that it can be gone back to.
    Overwrite,
}

/// What is at a path now.
#[derive(Clone, Debug)]
pub(crate) enum OnDisk {
    At(FileVersion),
    /// Something above the path is no directory.
    Below(VPath),
}

type Children<'a> = dyn Fn(&VPath) -> Result<Option<Vec<VPath>>, FsError> + 'a;

/// What a plan is made of.
pub(crate) struct Planner<'a> {
    /// The last change that stays.
    pub(crate) to: u64,
    /// The last change that the thread knows of.
    pub(crate) known: u64,
    pub(crate) look: &'a dyn Fn(&VPath) -> Result<OnDisk, FsError>,
    /// What a directory holds; nothing where a name cannot be a path's.
    pub(crate) children: &'a Children<'a>,
    /// Whether a content is stored.
    pub(crate) has: &'a dyn Fn(&str) -> bool,
    /// Bytes of the largest file that is recorded.
    pub(crate) max_file: u64,
}

/// A path that differs from what it is to be.
struct Wanted {
    change: FileChange,
    reason: Option<ConflictReason>,
}

impl Planner<'_> {
    /// The plan for all changes of a thread.
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
                // Only together with what is in the way.
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

    /// Why a version cannot be put back.
    fn missing(&self, to: &FileVersion) -> Option<String> {
        match to {
            FileVersion::Unrecorded { reason } => Some(reason.clone()),
            FileVersion::File { stored: false, .. } => Some("it was too large to be stored".to_owned()),
            FileVersion::File { hash, .. } if !(self.has)(hash) => Some("its content is no longer stored".to_owned()),
            _ => None,
        }
    }

    /// Why what is there cannot be replaced: it could not be brought back.
    fn would_be_lost(&self, now: &FileVersion) -> Option<String> {
        match now {
            FileVersion::Unrecorded { reason } => Some(format!("what is there cannot be stored: {reason}")),
            FileVersion::File { size, .. } if *size > self.max_file => {
                Some("what is there is too large to be stored".to_owned())
            }
            _ => None,
        }
    }

    /// A directory goes only with all that it holds: one that holds something else stays.
    fn directories(&self, wanted: &mut BTreeMap<VPath, Wanted>, plan: &mut RestorePlan) -> Result<(), FsError> {
        // What lies below others first.
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

/// The changes that were made. The process may have ended at one: what came next tells whether it was made.
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
    // Two that need the same directory may both have made it.
    out.dedup_by(|later, before| later.after.is_directory() && before.after.is_directory());
    out
}

/// What becomes of a path that was changed after the checkpoint; `first` is the first change after it.
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
    // What was there before the last rewind was asked about then.
    let back = changes.iter().rposition(|change| change.actor.is_rewind()).filter(|at| *at >= first);
    let mut found = changes.iter().enumerate().skip(back.unwrap_or(first));
    let between = found.any(|(at, change)| {
        let before = at.checked_sub(1).and_then(|at| changes.get(at));
        let broken = back != Some(at) && before.is_some_and(|before| !before.after.same(&change.before));
        broken || change.actor.left_others_work()
    });
    between.then_some(ConflictReason::ChangedBetween)
}
