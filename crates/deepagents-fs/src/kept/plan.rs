//! What going back to a checkpoint means for files.

use std::collections::{BTreeMap, BTreeSet};

use super::{By, FileVersion, Step};
use crate::{FsError, VPath};

/// What going back to a checkpoint means for the files that the agent has changed since. Nothing is done yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestorePlan {
    /// What is put back.
    pub changes: Vec<FileChange>,
    /// What cannot be put back without losing what somebody else has done.
    pub conflicts: Vec<Conflict>,
    /// What the agent has changed and stays as it is: what is to be put back was not kept, or what is there could not
    /// be.
    pub stays: Vec<Stays>,
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
        self.changes.is_empty() && self.conflicts.is_empty() && self.stays.is_empty() && self.elsewhere == 0
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
    pub why: Why,
}

/// Why a file is not put back unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// What is there is not what the agent left.
    Changed,
    /// Somebody changed it after the checkpoint and before the agent changed it again, so both are in it.
    ChangedBetween,
}

/// A path that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stays {
    /// The path.
    pub path: VPath,
    /// Why, as the end of a sentence about it.
    pub why: String,
}

/// What is done about conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing at all is put back.
    #[default]
    Refuse,
    /// The files stay as they are, the others are put back.
    Skip,
    /// They are overwritten; what they held is kept, so that it can be gone back to.
    Overwrite,
}

/// What is at a path now.
#[derive(Clone, Debug)]
pub(crate) enum Here {
    At(FileVersion),
    /// Something above the path is no directory.
    Below(VPath),
}

type Children<'a> = dyn Fn(&VPath) -> Result<Option<Vec<VPath>>, FsError> + 'a;

/// What a plan is made of.
pub(crate) struct Planner<'a> {
    /// All changes of the thread.
    pub(crate) steps: Vec<Step>,
    /// The last change that stays.
    pub(crate) to: u64,
    /// The last change that the thread knows of.
    pub(crate) known: u64,
    pub(crate) look: &'a dyn Fn(&VPath) -> Result<Here, FsError>,
    /// What a directory holds; nothing where a name cannot be a path's.
    pub(crate) children: &'a Children<'a>,
    pub(crate) has: &'a dyn Fn(&str) -> bool,
    /// Bytes of the largest file that is kept.
    pub(crate) max_file: u64,
}

/// A path that differs from what it is to be.
struct Wanted {
    change: FileChange,
    why: Option<Why>,
}

impl Planner<'_> {
    pub(crate) fn plan(self) -> Result<RestorePlan, FsError> {
        let mut by_path: BTreeMap<VPath, Vec<Step>> = BTreeMap::new();
        for step in self.steps.iter().cloned() {
            by_path.entry(step.change.path.clone()).or_default().push(step);
        }
        let mut plan = RestorePlan::default();
        let mut wanted = BTreeMap::new();
        let mut below: Vec<(VPath, VPath)> = Vec::new();
        let mut unrecorded: Vec<VPath> = Vec::new();
        for (path, steps) in by_path {
            let here = (self.look)(&path)?;
            let now = match &here {
                Here::At(version) => version.clone(),
                Here::Below(_) => FileVersion::Absent,
            };
            let steps = settled(steps, &now);
            let first = steps.partition_point(|step| step.seq <= self.to);
            let Some(change) = change(&path, &steps, first, now) else { continue };
            if steps.iter().any(|step| step.seq > self.known.max(self.to) && step.change.by == By::Agent) {
                unrecorded.push(path.clone());
            }
            if change.now.same(&change.to) {
                continue;
            }
            if let Here::Below(above) = here {
                below.push((path.clone(), above));
            }
            let why = why(&steps, first, &change);
            wanted.insert(path, Wanted { change, why });
        }
        let mut unkept = Vec::new();
        for (path, wanted) in &wanted {
            if let Some(why) = self.missing(&wanted.change.to).or_else(|| self.would_be_lost(&wanted.change.now)) {
                unkept.push(Stays { path: path.clone(), why });
            }
        }
        for stays in unkept {
            wanted.remove(&stays.path);
            plan.stays.push(stays);
        }
        self.directories(&mut wanted, &mut plan)?;
        for (path, above) in below {
            let above_it = wanted.get(&above).filter(|above| above.change.to.is_directory());
            match (above_it.map(|above| above.why), wanted.get_mut(&path)) {
                // Only together with what is in the way.
                (Some(Some(why)), Some(own)) => own.why = own.why.or(Some(why)),
                (None, Some(_)) => {
                    wanted.remove(&path);
                    plan.stays.push(Stays { path, why: format!("{above}, which is no directory, is in the way") });
                }
                _ => {}
            }
        }
        for wanted in wanted.into_values() {
            match wanted.why {
                None => plan.changes.push(wanted.change),
                Some(why) => plan.conflicts.push(Conflict { change: wanted.change, why }),
            }
        }
        plan.stays.sort_by(|a, b| a.path.cmp(&b.path));
        let changes = plan.changes.iter().chain(plan.conflicts.iter().map(|conflict| &conflict.change));
        let named: BTreeSet<&VPath> =
            changes.map(|change| &change.path).chain(plan.stays.iter().map(|stays| &stays.path)).collect();
        unrecorded.retain(|path| named.contains(path));
        plan.unrecorded = unrecorded;
        Ok(plan)
    }

    /// Why a version cannot be put back.
    fn missing(&self, to: &FileVersion) -> Option<String> {
        match to {
            FileVersion::Unkept { why } => Some(why.clone()),
            FileVersion::File { kept: false, .. } => Some("it is larger than what is kept".to_owned()),
            FileVersion::File { hash, .. } if !(self.has)(hash) => Some("its content is no longer kept".to_owned()),
            _ => None,
        }
    }

    /// Why what is there cannot be replaced: it could not be brought back.
    fn would_be_lost(&self, now: &FileVersion) -> Option<String> {
        match now {
            FileVersion::Unkept { why } => Some(format!("what is there cannot be kept: {why}")),
            FileVersion::File { size, .. } if *size > self.max_file => {
                Some("what is there is larger than what is kept".to_owned())
            }
            _ => None,
        }
    }

    /// A directory goes only with all that it holds: one that holds something else stays.
    fn directories(&self, wanted: &mut BTreeMap<VPath, Wanted>, plan: &mut RestorePlan) -> Result<(), FsError> {
        // What lies below others first.
        let going = wanted.iter().rev().filter(|(_, w)| w.change.now.is_directory());
        let going: Vec<VPath> = going.map(|(path, _)| path.clone()).collect();
        for path in going {
            let children = (self.children)(&path)?;
            let fate = |child: &VPath| wanted.get(child).filter(|w| w.change.to == FileVersion::Absent);
            let all_go = children.as_ref().is_some_and(|children| children.iter().all(|child| fate(child).is_some()));
            let asked = all_go && children.iter().flatten().filter_map(fate).any(|child| child.why.is_some());
            let Some(own) = wanted.get_mut(&path) else { continue };
            if all_go {
                if asked {
                    own.why.get_or_insert(Why::Changed);
                }
            } else {
                if own.change.to != FileVersion::Absent {
                    let why = "a directory that holds other files is in the way".to_owned();
                    plan.stays.push(Stays { path: path.clone(), why });
                }
                wanted.remove(&path);
            }
        }
        Ok(())
    }
}

/// The changes that were made. The process may have ended at one: what came next tells whether it was made.
fn settled(steps: Vec<Step>, now: &FileVersion) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let mut next = now.clone();
    for step in steps.into_iter().rev() {
        let made = step.done || !next.same(&step.change.before) || next.same(&step.change.after);
        if made {
            next = step.change.before.clone();
            out.push(step);
        }
    }
    out.reverse();
    // Two that need the same directory may both have made it.
    out.dedup_by(|later, before| later.change.after.is_directory() && before.change.after.is_directory());
    out
}

/// What becomes of a path that was changed after the checkpoint; `first` is the first change after it.
fn change(path: &VPath, steps: &[Step], first: usize, now: FileVersion) -> Option<FileChange> {
    let (earlier, later) = steps.split_at_checked(first)?;
    let (next, last) = (later.first()?, later.last()?);
    let (to, others) = match earlier.last() {
        Some(step) => (&step.change.after, step.change.by == By::Other || step.change.others),
        None => (&next.change.before, false),
    };
    Some(FileChange { path: path.clone(), now, to: to.clone(), left: last.change.after.clone(), others })
}

fn why(steps: &[Step], first: usize, change: &FileChange) -> Option<Why> {
    if !change.now.same(&change.left) {
        return Some(Why::Changed);
    }
    // What was there before the last rewind was asked about then.
    let back = steps.iter().rposition(|step| step.change.by == By::Rewind).filter(|at| *at >= first);
    let mut found = steps.iter().enumerate().skip(back.unwrap_or(first));
    let between = found.any(|(at, step)| {
        let before = at.checked_sub(1).and_then(|at| steps.get(at));
        let by_others = step.change.by == By::Other || step.change.others;
        let broken = back != Some(at) && before.is_some_and(|before| !before.change.after.same(&step.change.before));
        by_others || broken
    });
    between.then_some(Why::ChangedBetween)
}
