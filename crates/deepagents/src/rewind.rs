//! Rewinds a thread to a checkpoint, files and conversation together.
//!
//! A [`LocalBackend`] opened with [`LocalOptions::undo`](deepagents_fs::LocalOptions::undo) records the changes that
//! runs make in its directory: by the file tools, by sub-agents, and by anything else that goes through the backend.
//! Changes made by commands (`execute`) are not recorded and stay in place.

use deepagents_core::agent::RewindPlan;
use deepagents_core::error::Error;
use deepagents_core::journal::LogPosition;
use deepagents_core::state::State;
use deepagents_fs::{LocalBackend, OnConflict, RestoreError, RestorePlan, VPath};

use crate::DeepAgent;

/// Rewinds a thread to a checkpoint, including the files that the agent has changed since.
///
/// [`plan`](Self::plan) shows what would happen to each file, and [`apply`](Self::apply) does it. Files that somebody
/// else has changed are conflicts: they are overwritten only with [`OnConflict::Overwrite`]. Overwritten contents are
/// recorded, so a rewind can be undone by rewinding to [`RewindReport::left`].
///
/// Only one directory is rewound with the conversation. If an agent works in several, call [`LocalBackend::restore`]
/// for each within [`Agent::rewind_with`](deepagents_core::agent::Agent::rewind_with).
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

/// The result of a rewind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RewindReport {
    /// Files that were restored or removed.
    pub restored: Vec<VPath>,
    /// Files that were left unchanged because somebody else had changed them.
    pub skipped: Vec<VPath>,
    /// Number of commands (`execute`) that the agent and its sub-agents ran after the checkpoint; their changes stay in
    /// place.
    pub commands: usize,
    /// The position before the rewind: rewinding to it undoes this one.
    pub left: LogPosition,
    /// The position from which the thread continues.
    pub end: LogPosition,
}

/// An error from a rewind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// The thread is in use, or has no state at the position.
    #[error(transparent)]
    Thread(#[from] Error),
    /// The files could not be restored; the conversation is unchanged.
    #[error(transparent)]
    Files(#[from] RestoreError),
}

impl Rewind {
    /// Prepares to rewind a thread to a position of its log, such as that of a checkpoint. `files` is the backend with
    /// the agent's files, without any wrappers.
    pub fn new(agent: &DeepAgent, files: &LocalBackend, thread: impl Into<String>, to: LogPosition) -> Self {
        Self { agent: agent.clone(), files: files.clone(), thread: thread.into(), to }
    }

    /// Returns what a rewind would do to the files.
    ///
    /// # Errors
    /// Returns an error if the thread has no state at the position, or the files cannot be read.
    pub async fn plan(&self) -> Result<RestorePlan, RewindError> {
        let here = self.agent.state(&self.thread).await?;
        let there = self.agent.state_at(&self.thread, self.to).await?;
        Ok(self.files.plan_restore(&self.thread, &here, &there).await?)
    }

    /// Restores the files as planned, then rewinds the conversation to the position. The thread is locked meanwhile. If
    /// the process ends half way, the conversation is unchanged and another rewind completes the work.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the plan is out of date, if there are conflicts and `on` refuses them,
    /// or if the thread is in use.
    pub async fn apply(&self, plan: &RestorePlan, on: OnConflict) -> Result<RewindReport, RewindError> {
        let (mut restored, mut skipped, mut ran) = (Vec::new(), Vec::new(), 0);
        let work = async |here: State, there: State| {
            ran = self.commands().await?;
            let done = self.files.restore(&self.thread, &here, &there, plan, on).await?;
            (restored, skipped) = (done.restored, done.skipped);
            Ok::<_, RewindError>(RewindPlan { left: done.left, target: done.target })
        };
        let back = self.agent.rewind_with(&self.thread, self.to, work).await?;
        Ok(RewindReport { restored, skipped, commands: ran, left: back.left, end: back.end })
    }

    /// Returns the number of commands that ran since the position, including those of sub-agents.
    async fn commands(&self) -> Result<usize, Error> {
        let calls = self.agent.threads()?.calls_since(&self.thread, self.to).await?;
        Ok(calls.iter().filter(|(_, tool)| tool == "execute").count())
    }
}
