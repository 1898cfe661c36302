//! A thread's position in its change log, as part of its state.

use std::collections::{BTreeMap, BTreeSet};

use deepagents_core::state::{Channel, ChannelError, Merge, Sharing, State, Update};
use serde::{Deserialize, Serialize};

/// Position of a thread in its change log, so that each checkpoint identifies the files that belong to it. Sub-agents
/// share it. Empty unless a backend records changes.
#[derive(Debug)]
pub struct FileUndo;

/// The value of [`FileUndo`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UndoCursor {
    /// Distinguishes threads that had the same name at different times.
    #[serde(rename = "line", skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    /// Name of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The threads that this one was copied from, the most recent last.
    #[serde(alias = "earlier", skip_serializing_if = "Vec::is_empty")]
    copied_from: Vec<String>,
    /// Sequence number of the last change in each directory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    changes: BTreeMap<String, u64>,
    /// The same for the logs of releases before the undo database, which are no longer read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reached: BTreeMap<String, u64>,
}

/// An update of [`FileUndo`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UndoUpdate {
    /// A thread starts a run, perhaps as a copy of another.
    Begin {
        /// Name of the thread.
        thread: String,
        /// Distinguishes it from other threads of the same name; ignored if it already has an ID.
        #[serde(rename = "line")]
        log: String,
    },
    /// Files of a directory were changed.
    Advance {
        /// The directory.
        directory: String,
        /// Sequence number of the change.
        seq: u64,
    },
    /// Written instead of `Advance` by releases before the undo database.
    Reached {
        /// The directory.
        root: String,
        /// Sequence number of the change.
        seq: u64,
    },
}

impl Channel for FileUndo {
    /// The name that journals of earlier releases use.
    const NAME: &'static str = "kept_files";
    // Sub-agents continue it; callers need not see it.
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::merged(UndoCursor::clone, further).hidden();
    type Value = UndoCursor;
    type Update = Vec<UndoUpdate>;

    fn reduce(value: &mut UndoCursor, update: Vec<UndoUpdate>) -> Result<(), ChannelError> {
        for change in update {
            let (last, seq) = match change {
                UndoUpdate::Begin { thread, log } => {
                    value.log.get_or_insert(log);
                    if value.thread.as_ref() != Some(&thread)
                        && let Some(earlier) = value.thread.replace(thread)
                    {
                        value.copied_from.push(earlier);
                    }
                    continue;
                }
                UndoUpdate::Advance { directory, seq } => (value.changes.entry(directory).or_default(), seq),
                UndoUpdate::Reached { root, seq } => (value.reached.entry(root).or_default(), seq),
            };
            *last = seq.max(*last);
        }
        Ok(())
    }
}

/// Returns the positions at which a sub-agent is ahead of its parent.
fn further(parent: &UndoCursor, _: &UndoCursor, child: &UndoCursor) -> Merge<Vec<UndoUpdate>> {
    let further = child.changes.iter().filter(|(directory, seq)| parent.last(directory) < **seq);
    let update: Vec<UndoUpdate> =
        further.map(|(directory, seq)| UndoUpdate::Advance { directory: directory.clone(), seq: *seq }).collect();
    Merge { update: (!update.is_empty()).then_some(update), conflicts: Vec::new() }
}

impl FileUndo {
    /// Records the thread's name in its state, if the state has this channel and holds another name. `log` is an ID
    /// never given to another thread.
    pub fn begin(state: &State, thread: &str, log: &str) -> Option<Update> {
        let cursor = state.get::<Self>()?;
        if cursor.thread.as_deref() == Some(thread) {
            return None;
        }
        let log = cursor.log.clone().unwrap_or_else(|| log.to_owned());
        Some(Update::new::<Self>(vec![UndoUpdate::Begin { thread: thread.to_owned(), log }]))
    }
}

impl UndoCursor {
    /// Returns the sequence number of the last change in a directory; 0 if there is none.
    pub(crate) fn last(&self, directory: &str) -> u64 {
        self.changes.get(directory).copied().unwrap_or(0)
    }

    /// Returns the directories with changes.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &String> {
        self.changes.keys()
    }

    /// Returns whether releases before the undo database changed files of a directory between two states.
    pub(crate) fn legacy_differs(&self, other: &Self, directory: &str) -> bool {
        self.reached.get(directory) != other.reached.get(directory)
    }

    /// Returns the number of other directories in which files changed between two states.
    pub(crate) fn elsewhere(&self, other: &Self, directory: &str) -> usize {
        let all = [&self.changes, &other.changes, &self.reached, &other.reached].into_iter().flat_map(BTreeMap::keys);
        let differs =
            |name: &&&String| self.last(name) != other.last(name) || self.legacy_differs(other, name.as_str());
        all.collect::<BTreeSet<_>>().iter().filter(|name| *name.as_str() != *directory).filter(differs).count()
    }
}

/// A thread's log for one directory, as its state knows it.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLog {
    /// Distinguishes threads that had the same name at different times.
    pub(crate) id: String,
    pub(crate) thread: String,
    pub(crate) directory: String,
    /// The threads that this one was copied from, the most recent last.
    pub(crate) copied_from: Vec<String>,
    /// Sequence number of the last change that the state includes.
    pub(crate) last: u64,
}

impl ThreadLog {
    /// Returns `None` if the state belongs to no thread.
    pub(crate) fn in_state(state: &State, directory: &str) -> Option<Self> {
        let cursor = state.get::<FileUndo>()?;
        let (id, thread, copied_from) = (cursor.log.clone()?, cursor.thread.clone()?, cursor.copied_from.clone());
        Some(Self { id, thread, directory: directory.to_owned(), copied_from, last: cursor.last(directory) })
    }

    /// Like [`in_state`](Self::in_state), for a thread that may be a copy that has not run yet.
    pub(crate) fn of_thread(state: &State, directory: &str, thread: &str) -> Option<Self> {
        let mut log = Self::in_state(state, directory)?;
        if log.thread != thread {
            log.copied_from.push(std::mem::replace(&mut log.thread, thread.to_owned()));
        }
        Some(log)
    }

    /// Returns the update that sets the thread and its position after a change.
    pub(crate) fn update(&self, seq: u64) -> Update {
        let begin = UndoUpdate::Begin { thread: self.thread.clone(), log: self.id.clone() };
        let advance = UndoUpdate::Advance { directory: self.directory.clone(), seq };
        Update::new::<FileUndo>(vec![begin, advance])
    }

    /// Returns the update that advances the position.
    pub(crate) fn advance(&self, seq: u64) -> Update {
        let directory = self.directory.clone();
        Update::new::<FileUndo>(vec![UndoUpdate::Advance { directory, seq }])
    }
}
