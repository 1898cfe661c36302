//! How far the log of a thread had come, as part of its state.

use std::collections::{BTreeMap, BTreeSet};

use deepagents_core::state::{Channel, ChannelError, Merge, Sharing, State, Update};
use serde::{Deserialize, Serialize};

/// How far the files of a thread had been changed: each checkpoint of the thread names the files that belong to it.
/// Sub-agents share it; it is empty unless a backend records what is changed.
#[derive(Debug)]
pub struct FileUndo;

/// The value of [`FileUndo`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UndoCursor {
    /// Tells threads apart that have had the same name.
    #[serde(rename = "line", skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    /// The thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The threads that this one was copied from, the last one last.
    #[serde(alias = "earlier", skip_serializing_if = "Vec::is_empty")]
    copied_from: Vec<String>,
    /// The number of the last change in each directory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    changes: BTreeMap<String, u64>,
    /// The same in the logs of versions before the undo database, which are no longer read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reached: BTreeMap<String, u64>,
}

/// A change of [`FileUndo`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UndoUpdate {
    /// A thread goes on, perhaps as a copy of another.
    Begin {
        /// The thread.
        thread: String,
        /// What tells it from others of its name, if it has none yet.
        #[serde(rename = "line")]
        log: String,
    },
    /// Files of a directory were changed.
    Advance {
        /// The directory.
        directory: String,
        /// The number of the change.
        seq: u64,
    },
    /// What versions before the undo database wrote for `Advance`.
    Reached {
        /// The directory.
        root: String,
        /// The number of the change.
        seq: u64,
    },
}

impl Channel for FileUndo {
    /// As in the journals of earlier versions.
    const NAME: &'static str = "kept_files";
    // Sub-agents go on with it, and callers have nothing to do with it.
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

/// How much further a sub-agent came.
fn further(parent: &UndoCursor, _: &UndoCursor, child: &UndoCursor) -> Merge<Vec<UndoUpdate>> {
    let further = child.changes.iter().filter(|(directory, seq)| parent.last(directory) < **seq);
    let update: Vec<UndoUpdate> =
        further.map(|(directory, seq)| UndoUpdate::Advance { directory: directory.clone(), seq: *seq }).collect();
    Merge { update: (!update.is_empty()).then_some(update), conflicts: Vec::new() }
}

impl FileUndo {
    /// Tells the state which thread it is of, where it has this channel and says otherwise. `log` is an
    /// id that no other thread has been given.
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
    /// The number of the last change in a directory; 0 for none.
    pub(crate) fn last(&self, directory: &str) -> u64 {
        self.changes.get(directory).copied().unwrap_or(0)
    }

    /// The directories with changes.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &String> {
        self.changes.keys()
    }

    /// Whether versions before the undo database have changed files of a directory between two states.
    pub(crate) fn legacy_differs(&self, other: &Self, directory: &str) -> bool {
        self.reached.get(directory) != other.reached.get(directory)
    }

    /// In how many directories other than this one files were changed between two states.
    pub(crate) fn elsewhere(&self, other: &Self, directory: &str) -> usize {
        let all = [&self.changes, &other.changes, &self.reached, &other.reached].into_iter().flat_map(BTreeMap::keys);
        let differs =
            |name: &&&String| self.last(name) != other.last(name) || self.legacy_differs(other, name.as_str());
        all.collect::<BTreeSet<_>>().iter().filter(|name| *name.as_str() != *directory).filter(differs).count()
    }
}

/// The log of a thread in a directory, as its state knows it.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLog {
    /// Tells threads apart that have had the same name.
    pub(crate) id: String,
    pub(crate) thread: String,
    pub(crate) directory: String,
    /// The threads that this one was copied from, the last one last.
    pub(crate) copied_from: Vec<String>,
    /// The number of the last change that the state has.
    pub(crate) last: u64,
}

impl ThreadLog {
    /// Nothing where the state is of no thread.
    pub(crate) fn in_state(state: &State, directory: &str) -> Option<Self> {
        let cursor = state.get::<FileUndo>()?;
        let (id, thread, copied_from) = (cursor.log.clone()?, cursor.thread.clone()?, cursor.copied_from.clone());
        Some(Self { id, thread, directory: directory.to_owned(), copied_from, last: cursor.last(directory) })
    }

    /// The same for a thread whose copy may not have begun to run.
    pub(crate) fn of_thread(state: &State, directory: &str, thread: &str) -> Option<Self> {
        let mut log = Self::in_state(state, directory)?;
        if log.thread != thread {
            log.copied_from.push(std::mem::replace(&mut log.thread, thread.to_owned()));
        }
        Some(log)
    }

    /// The state of the thread after changes up to a number.
    pub(crate) fn update(&self, seq: u64) -> Update {
        let begin = UndoUpdate::Begin { thread: self.thread.clone(), log: self.id.clone() };
        let advance = UndoUpdate::Advance { directory: self.directory.clone(), seq };
        Update::new::<FileUndo>(vec![begin, advance])
    }

    /// What a change adds to the state.
    pub(crate) fn advance(&self, seq: u64) -> Update {
        let directory = self.directory.clone();
        Update::new::<FileUndo>(vec![UndoUpdate::Advance { directory, seq }])
    }
}
