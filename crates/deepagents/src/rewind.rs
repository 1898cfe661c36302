//! Going back to a checkpoint with files and conversation together.
//!
//! A [`LocalBackend`] that was opened with [`LocalOptions::undo`](deepagents_fs::LocalOptions::undo) records what the
//! runs of threads change in its directory: by the file tools, by sub-agents, by anything else that goes through the
//! backend. What commands change (`execute`) is not recorded and stays as it is.

use deepagents_core::agent::RewindPlan;
use deepagents_core::error::Error;
use deepagents_core::journal::LogPosition;
use deepagents_core::state::State;
use deepagents_fs::{LocalBackend, OnConflict, RestoreError, RestorePlan, VPath};

use crate::DeepAgent;

/// A way back to a checkpoint of a thread, with the files that the agent has changed since.
///
/// [`plan`](Self::plan) says what would become of which file, [`apply`](Self::apply) does it. Files that somebody else
/// has changed are conflicts: they are overwritten only with [`OnConflict::Overwrite`]. What is overwritten is recorded, so
/// that going back can be undone by going back to [`Done::left`]. One directory goes back with the conversation; where
/// an agent works in several, use [`LocalBackend::restore`] for each within
/// [`Agent::rewind_with`](deepagents_core::agent::Agent::rewind_with).
///
/// ```
/// use std::sync::Arc;
/// use deepagents::fs::{LocalBackend, LocalOptions, OnConflict, UndoStore};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::rewind::Rewind;
/// use deepagents::{DeepAgent, MemoryJournal, RunInput};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let (dir, beside) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let (dir, undo) = (dir.path(), beside.path().join("undo.db"));
/// let files = LocalBackend::open_with(dir, LocalOptions { undo: Some(UndoStore::at(undo)), ..LocalOptions::default() })?;
/// let model = ScriptedModel::new([
///     Turn::call("write_file", json!({"file_path": "/a.txt", "content": "one"})),
///     Turn::text("Written."),
/// ]);
/// let agent = DeepAgent::builder().model(model).backend(files.clone()).journal(MemoryJournal::new()).build()?;
/// agent.invoke(RunInput::new("Write a.txt.").thread("t1")).await?;
/// assert!(dir.join("a.txt").exists());
///
/// let first = agent.history("t1", None, 100).await?.last().map_or(0, |checkpoint| checkpoint.position);
/// let back = Rewind::new(&agent, &files, "t1", first);
/// let plan = back.plan().await?;
/// assert!(plan.conflicts.is_empty());
/// let done = back.apply(&plan, OnConflict::Refuse).await?;
/// assert!(!dir.join("a.txt").exists());
///
/// let undo = Rewind::new(&agent, &files, "t1", done.left);
/// undo.apply(&undo.plan().await?, OnConflict::Refuse).await?;
/// assert!(dir.join("a.txt").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rewind {
    agent: DeepAgent,
    files: LocalBackend,
    thread: String,
    to: LogPosition,
}

/// What was done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done {
    /// What was put back or removed.
    pub restored: Vec<VPath>,
    /// What stays as it was on account of somebody else's changes.
    pub skipped: Vec<VPath>,
    /// Commands that the agent and its sub-agents ran after the checkpoint (`execute`); what they changed stays as it is.
    pub commands: usize,
    /// The position that was left: going back to it undoes this.
    pub left: LogPosition,
    /// The position the thread goes on from.
    pub end: LogPosition,
}

/// Why a thread did not go back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// The thread: somebody works on it, or it has no state at the position.
    #[error(transparent)]
    Thread(#[from] Error),
    /// The files; the conversation stays as it was.
    #[error(transparent)]
    Files(#[from] RestoreError),
}

impl Rewind {
    /// The way back of a thread to a position of its log, such as that of a checkpoint. `files` is the backend that
    /// the agent's files are in, below whatever wraps it.
    pub fn new(agent: &DeepAgent, files: &LocalBackend, thread: impl Into<String>, to: LogPosition) -> Self {
        Self { agent: agent.clone(), files: files.clone(), thread: thread.into(), to }
    }

    /// What would become of the files.
    ///
    /// # Errors
    /// When the thread has no state at the position, or the files cannot be read.
    pub async fn plan(&self) -> Result<RestorePlan, RewindError> {
        let here = self.agent.state(&self.thread).await?;
        let there = self.agent.state_at(&self.thread, self.to).await?;
        Ok(self.files.plan_restore(&self.thread, &here, &there).await?)
    }

    /// Goes back: puts the files back as planned, then lets the conversation go on from the position. Nobody else can
    /// work on the thread meanwhile. A process that ends half way leaves the conversation as it was; going back again
    /// does the rest.
    ///
    /// # Errors
    /// When the plan no longer holds, when there are conflicts that are to be refused, or when somebody works on the
    /// thread: nothing is changed then.
    pub async fn apply(&self, plan: &RestorePlan, on: OnConflict) -> Result<Done, RewindError> {
        let (mut restored, mut skipped, mut ran) = (Vec::new(), Vec::new(), 0);
        let work = async |here: State, there: State| {
            ran = self.commands().await?;
            let done = self.files.restore(&self.thread, &here, &there, plan, on).await?;
            (restored, skipped) = (done.restored, done.skipped);
            Ok::<_, RewindError>(RewindPlan { left: done.left, goes_on: done.goes_on })
        };
        let back = self.agent.rewind_with(&self.thread, self.to, work).await?;
        Ok(Done { restored, skipped, commands: ran, left: back.left, end: back.end })
    }

    /// How many commands ran since the position, those of sub-agents too.
    async fn commands(&self) -> Result<usize, Error> {
        let calls = self.agent.threads()?.calls_since(&self.thread, self.to).await?;
        Ok(calls.iter().filter(|(_, tool)| tool == "execute").count())
    }
}
