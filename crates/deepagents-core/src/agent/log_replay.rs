//! Reads a thread's log forwards, with the state after each record.

use std::collections::{BTreeMap, VecDeque};

use super::ThreadAccess;
use crate::error::Result;
use crate::ids::{CallId, LogPosition, ThreadId};
use crate::journal::{ChildLog, LogEntry, Record, Replay, load_replay};
use crate::machine::Machine;
use crate::state::State;

/// The state of a thread and of its sub-agents, record by record. Use it to show a growing thread without reloading it
/// at each step.
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
    /// Sub-agents whose calls have not ended, by path.
    children: BTreeMap<Vec<String>, Child>,
    /// Entries that have been read but not returned.
    ready: VecDeque<LogEntry>,
}

#[derive(Debug)]
struct Child {
    name: String,
    /// The call that runs it.
    call: Option<CallId>,
    replay: Replay,
}

/// Number of entries read at once.
const PAGE: LogPosition = 256;

impl ThreadAccess {
    /// Starts reading a log at a position. A thread that does not exist counts as empty.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or has no state at the position.
    pub async fn replay(&self, thread: &str, from: LogPosition) -> Result<LogReplay> {
        let main = if from == 0 {
            Replay::new(self.schema.clone())
        } else {
            load_replay(&*self.journal, thread, self.schema.clone(), Some(from)).await?.replay
        };
        let (threads, thread, children) = (self.clone(), thread.to_owned(), BTreeMap::new());
        let mut replay = LogReplay { threads, thread, main, children, ready: VecDeque::new() };
        replay.adopt()?;
        Ok(replay)
    }
}

impl LogReplay {
    /// Returns the position after the last returned record.
    pub fn position(&self) -> LogPosition {
        self.main.end
    }

    /// Returns the state of the main agent. It does not include results of an incomplete turn.
    pub fn state(&self) -> &State {
        &self.main.state
    }

    /// Returns the state machine of the main agent at its last complete step.
    pub fn machine(&self) -> Option<&Machine> {
        self.main.machine.as_ref()
    }

    /// Returns the state of an agent, or `None` if it is not running.
    pub fn agent_state(&self, path: &[String]) -> Option<&State> {
        self.replay_of(path).map(|replay| &replay.state)
    }

    /// Returns the name of a sub-agent and the call that runs it, or `None` if it is not running.
    pub fn sub_agent(&self, path: &[String]) -> Option<(&str, Option<&CallId>)> {
        self.children.get(path).map(|child| (child.name.as_str(), child.call.as_ref()))
    }

    /// Returns the paths and names of the sub-agents that are running.
    pub fn sub_agents(&self) -> impl Iterator<Item = (&[String], &str)> {
        self.children.iter().map(|(path, child)| (path.as_slice(), child.name.as_str()))
    }

    /// Returns the state of an agent with the results of an incomplete turn, or `None` if it is not running.
    ///
    /// # Errors
    /// Returns an error if the results do not match the state.
    pub fn settled_state(&self, path: &[String]) -> Result<Option<State>> {
        let Some(replay) = self.replay_of(path) else { return Ok(None) };
        Ok(Some(replay.result_so_far(&self.thread)?.state))
    }

    /// Returns the number of an agent's turns up to its last complete step, with those that rewinds have skipped: the
    /// calls of its last turn have one less as the turn of their ids. Returns 0 if the agent is not running.
    pub fn turns(&self, path: &[String]) -> u32 {
        self.replay_of(path).map_or(0, |replay| replay.turns)
    }

    fn replay_of(&self, path: &[String]) -> Option<&Replay> {
        if path.is_empty() { Some(&self.main) } else { self.children.get(path).map(|child| &child.replay) }
    }

    /// Reads and applies the next record of the log. Returns `None` at the end of the log.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or does not match the channels.
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
            // The state after a rewind lies earlier in the log, so it is loaded from there.
            Record::Rewind { .. } => {
                let (journal, schema) = (&*self.threads.journal, self.threads.schema.clone());
                self.main = load_replay(journal, &self.thread, schema, Some(entry.position + 1)).await?.replay;
                self.adopt()
            }
            record => {
                if let Record::Child { path, entry } = &record {
                    self.take_child(path, entry)?;
                }
                self.main.take(&self.thread, record)?;
                let open = &self.main.children;
                self.children.retain(|path, _| path.get(..1).is_some_and(|first| open.contains_key(first)));
                Ok(())
            }
        }
    }

    fn take_child(&mut self, path: &[String], record: &Record) -> Result<()> {
        // The agent above knows the state that the call started with.
        if let Record::AgentStarted { agent, call, .. } = record {
            let above = match path.split_last() {
                Some((_, above)) if !above.is_empty() => self.children.get(above).map(|child| &child.replay),
                _ => Some(&self.main),
            };
            let base = call.as_ref().and_then(|call| above?.call_states.get(call).cloned());
            let replay = Replay { base, ..Replay::new(self.threads.schema.clone()) };
            self.children.insert(path.to_vec(), Child { name: agent.clone(), call: call.clone(), replay });
        }
        match self.children.get_mut(path) {
            Some(child) => Ok(child.replay.take(&self.thread, record.clone())?),
            None => Ok(()),
        }
    }

    /// Starts tracking the sub-agents that are running at the start position.
    fn adopt(&mut self) -> Result<()> {
        self.children.clear();
        let open: Vec<_> = self.main.children.values().cloned().collect();
        for record in open.into_iter().flat_map(ChildLog::into_records) {
            if let Record::Child { path, entry } = record {
                self.take_child(&path, &entry)?;
            }
        }
        Ok(())
    }
}
