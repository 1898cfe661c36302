//! Reading a thread's log forwards, with the state that each record leaves.

use std::collections::{BTreeMap, VecDeque};

use super::ThreadAccess;
use crate::error::Result;
use crate::ids::{CallId, LogPosition, ThreadId};
use crate::journal::{ChildLog, LogEntry, Record, Replay, load_replay};
use crate::machine::Machine;
use crate::state::State;

/// The state of a thread and of its sub-agents, record by record: for those who show a thread as it grows without
/// loading it again for each step.
///
/// ```
/// use deepagents_core::agent::ThreadAccess;
/// # async fn example(threads: ThreadAccess) -> deepagents_core::error::Result<()> {
/// let mut replay = threads.replay("t1", 0).await?;
/// while let Some(entry) = replay.next().await? {
///     println!("{}: {} messages", entry.position, replay.state().messages().len());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LogReplay {
    threads: ThreadAccess,
    thread: ThreadId,
    main: Replay,
    /// The sub-agents whose calls have not ended, by path.
    children: BTreeMap<Vec<String>, Replay>,
    /// Their names, and the calls that run them.
    names: BTreeMap<Vec<String>, (String, Option<CallId>)>,
    /// Entries that have been read and not been given.
    ready: VecDeque<LogEntry>,
}

/// How many entries are read at once.
const PAGE: LogPosition = 256;

impl ThreadAccess {
    /// Begins to read a log from a position. A thread that does not exist is an empty one.
    ///
    /// # Errors
    /// When the log cannot be read, or has no state at the position.
    pub async fn replay(&self, thread: &str, from: LogPosition) -> Result<LogReplay> {
        let main = if from == 0 {
            Replay::new(self.schema.clone())
        } else {
            load_replay(&*self.journal, thread, self.schema.clone(), Some(from)).await?.fold
        };
        let (threads, thread) = (self.clone(), thread.to_owned());
        let mut replay = LogReplay {
            threads,
            thread,
            main,
            children: BTreeMap::new(),
            names: BTreeMap::new(),
            ready: VecDeque::new(),
        };
        replay.adopt()?;
        Ok(replay)
    }
}

impl LogReplay {
    /// The position after the last record that was given.
    pub fn position(&self) -> LogPosition {
        self.main.end
    }

    /// The state of the main agent. Results of a turn that is not complete are no part of it.
    pub fn state(&self) -> &State {
        &self.main.state
    }

    /// The decisions at the last complete step of the main agent.
    pub fn machine(&self) -> Option<&Machine> {
        self.main.machine.as_ref()
    }

    /// The state of an agent; none where it is not at work.
    pub fn agent_state(&self, path: &[String]) -> Option<&State> {
        if path.is_empty() { Some(self.state()) } else { self.children.get(path).map(|child| &child.state) }
    }

    /// The name of a sub-agent and the call that runs it; none where it is not at work.
    pub fn sub_agent(&self, path: &[String]) -> Option<(&str, Option<&CallId>)> {
        self.names.get(path).map(|(name, call)| (name.as_str(), call.as_ref()))
    }

    /// Reads the next record of the log and takes it in; none at its end.
    ///
    /// # Errors
    /// When the log cannot be read, or does not fit the channels.
    pub async fn next(&mut self) -> Result<Option<LogEntry>> {
        if self.ready.is_empty() {
            let end = self.threads.journal.threads().get(&self.thread).await?.map_or(0, |info| info.end);
            let from = self.position();
            if from < end {
                let page = from..end.min(from + PAGE);
                self.ready.extend(self.threads.journal.read(&self.thread, page).await?);
            }
        }
        let Some(entry) = self.ready.pop_front() else { return Ok(None) };
        self.take(entry.clone()).await?;
        Ok(Some(entry))
    }

    async fn take(&mut self, entry: LogEntry) -> Result<()> {
        match entry.record {
            // What the thread goes on from lies before; the log is followed there.
            Record::Rewind { .. } => {
                let (journal, schema) = (&*self.threads.journal, self.threads.schema.clone());
                self.main = load_replay(journal, &self.thread, schema, Some(entry.position + 1)).await?.fold;
                self.adopt()
            }
            record => {
                if let Record::Child { path, entry } = &record {
                    self.take_child(path, entry)?;
                }
                self.main.take(&self.thread, record)?;
                let open = &self.main.children;
                let is_open = |path: &Vec<String>| path.get(..1).is_some_and(|first| open.contains_key(first));
                self.children.retain(|path, _| is_open(path));
                self.names.retain(|path, _| is_open(path));
                Ok(())
            }
        }
    }

    fn take_child(&mut self, path: &[String], record: &Record) -> Result<()> {
        // The state that its call began with is known to the agent above.
        if let Record::AgentStarted { agent, call, .. } = record {
            self.names.insert(path.to_vec(), (agent.clone(), call.clone()));
            let above = match path.split_last() {
                Some((_, above)) if !above.is_empty() => self.children.get(above),
                _ => Some(&self.main),
            };
            let base = call.as_ref().and_then(|call| above?.call_states.get(call).cloned());
            self.children.insert(path.to_vec(), Replay { base, ..Replay::new(self.threads.schema.clone()) });
        }
        match self.children.get_mut(path) {
            Some(child) => Ok(child.take(&self.thread, record.clone())?),
            None => Ok(()),
        }
    }

    /// Takes in the sub-agents that are at work where reading begins.
    fn adopt(&mut self) -> Result<()> {
        self.children.clear();
        self.names.clear();
        let open: Vec<_> = self.main.children.values().cloned().collect();
        for record in open.into_iter().flat_map(ChildLog::into_records) {
            if let Record::Child { path, entry } = record {
                self.take_child(&path, &entry)?;
            }
        }
        Ok(())
    }
}
