//! How far the rows of a thread had come, as part of its state.

use std::collections::{BTreeMap, BTreeSet};

use deepagents_core::state::{Channel, ChannelError, Join, State, Update};
use serde::{Deserialize, Serialize};

use super::{Earlier, LineId};

/// How far the files of a thread had been changed: each checkpoint of the thread names the files that belong to it.
/// Sub-agents share it; it is empty unless a backend keeps what is changed.
#[derive(Debug)]
pub struct KeptFiles;

/// The value of [`KeptFiles`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptMarks {
    /// Tells threads apart that have had the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The threads that this one was copied from, the last one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<String>,
    /// The number of the last change in each directory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reached: BTreeMap<String, u64>,
}

/// A change of [`KeptFiles`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeptChange {
    /// A thread goes on, perhaps as a copy of another.
    Begin {
        /// The thread.
        thread: String,
        /// What tells it from others of its name, if it has none yet.
        line: String,
    },
    /// Files of a directory were changed.
    Reached {
        /// The directory.
        root: String,
        /// The number of the change.
        seq: u64,
    },
}

impl Channel for KeptFiles {
    const NAME: &'static str = "kept_files";
    const PRIVATE: bool = true;
    const INHERITED: bool = true;
    type Value = KeptMarks;
    type Update = Vec<KeptChange>;

    fn reduce(value: &mut KeptMarks, update: Vec<KeptChange>) -> Result<(), ChannelError> {
        for change in update {
            match change {
                KeptChange::Begin { thread, line } => {
                    value.line.get_or_insert(line);
                    if value.thread.as_ref() != Some(&thread)
                        && let Some(earlier) = value.thread.replace(thread)
                    {
                        value.earlier.push(earlier);
                    }
                }
                KeptChange::Reached { root, seq } => {
                    let reached = value.reached.entry(root).or_default();
                    *reached = seq.max(*reached);
                }
            }
        }
        Ok(())
    }

    fn fork(value: &KeptMarks) -> KeptMarks {
        value.clone()
    }

    fn join(parent: &KeptMarks, _: &KeptMarks, child: &KeptMarks) -> Join<Vec<KeptChange>> {
        let further = child.reached.iter().filter(|(root, seq)| parent.reached.get(*root).is_none_or(|at| at < seq));
        let update: Vec<KeptChange> =
            further.map(|(root, seq)| KeptChange::Reached { root: root.clone(), seq: *seq }).collect();
        Join { update: (!update.is_empty()).then_some(update), conflicts: Vec::new() }
    }
}

impl KeptFiles {
    /// Tells the state which thread it is of, where it has this channel and says otherwise. `line` is an
    /// id that no other thread has been given.
    pub fn begin(state: &State, thread: &str, line: &str) -> Option<Update> {
        let marks = state.get::<Self>()?;
        if marks.thread.as_deref() == Some(thread) {
            return None;
        }
        let line = marks.line.clone().unwrap_or_else(|| line.to_owned());
        Some(Update::of::<Self>(vec![KeptChange::Begin { thread: thread.to_owned(), line }]))
    }

    /// The state of a thread after changes up to a number.
    pub(crate) fn at(id: &LineId, seq: u64) -> Update {
        let begin = KeptChange::Begin { thread: id.thread.clone(), line: id.line.clone() };
        Update::of::<Self>(vec![begin, KeptChange::Reached { root: id.root.clone(), seq }])
    }

    /// The state after changes up to a number.
    pub(crate) fn reached(root: &str, seq: u64) -> Update {
        Update::of::<Self>(vec![KeptChange::Reached { root: root.to_owned(), seq }])
    }
}

/// What the state of a thread says about one directory.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    pub(crate) id: LineId,
    pub(crate) earlier: Earlier,
}

impl Marks {
    /// Nothing where the state is of no thread.
    pub(crate) fn of(state: &State, root: &str) -> Option<Self> {
        let marks = state.get::<KeptFiles>()?;
        let id = LineId { line: marks.line.clone()?, thread: marks.thread.clone()?, root: root.to_owned() };
        Some(Self { id, earlier: Earlier { threads: marks.earlier.clone(), until: Self::reached(state, root) } })
    }

    /// The same of a thread whose copy may not have begun to run.
    pub(crate) fn in_thread(state: &State, root: &str, thread: &str) -> Option<Self> {
        let mut marks = Self::of(state, root)?;
        if marks.id.thread != thread {
            let earlier = std::mem::replace(&mut marks.id.thread, thread.to_owned());
            marks.earlier.threads.push(earlier);
        }
        Some(marks)
    }

    /// The directories that the thread has changed files in.
    pub(crate) fn roots(state: &State) -> Vec<String> {
        state.get::<KeptFiles>().map(|marks| marks.reached.keys().cloned().collect()).unwrap_or_default()
    }

    /// In how many directories other than this one files were changed between two states.
    pub(crate) fn elsewhere(here: &State, there: &State, root: &str) -> usize {
        let roots: BTreeSet<String> = Self::roots(here).into_iter().chain(Self::roots(there)).collect();
        let differs = |other: &&String| *other != root && Self::reached(here, other) != Self::reached(there, other);
        roots.iter().filter(differs).count()
    }

    /// The number of the last change in a directory; 0 for none.
    pub(crate) fn reached(state: &State, root: &str) -> u64 {
        state.get::<KeptFiles>().and_then(|marks| marks.reached.get(root)).copied().unwrap_or(0)
    }
}
