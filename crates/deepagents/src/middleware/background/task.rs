//! One task: its states, and the work itself.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use deepagents_core::agent::{BackgroundRun, Paused};
use deepagents_core::interrupt::{Decision, DecisionError};
use deepagents_core::message::Block;
use deepagents_core::run::{FinishReason, Outcome, RunError};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{ChildState, ToolError, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;
use crate::subagents::result_text;

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It works.
    Running,
    /// It waits for a decision of a person.
    #[serde(rename = "waiting")]
    Interrupted,
    /// It has a result.
    Success,
    /// It failed, or stopped before it was done.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// The word in JSON and for the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "waiting",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether there is nothing more to come.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Interrupted)
    }
}

/// How a task stands.
pub(super) struct TaskState {
    pub(super) status: TaskStatus,
    /// Its result, or what went wrong.
    pub(super) said: String,
    /// What an agent has come to.
    pub(super) left: Option<State>,
    /// What something else than an agent hands back.
    pub(super) changes: (Option<ChildState>, Update),
    /// How to go on where it waits.
    pub(super) paused: Option<Paused>,
}

/// The work on a task, in a Tokio task of its own.
pub(super) struct Work {
    /// Weak, so that the agent object that owns the tasks can go away while they run.
    tasks: Weak<Tasks>,
    id: String,
    inbox: mpsc::UnboundedReceiver<String>,
    cancel: CancellationToken,
}

/// How the work on a task is reached.
pub(super) struct WorkHandle {
    pub(super) inbox: mpsc::UnboundedSender<String>,
    pub(super) cancel: CancellationToken,
}

impl Work {
    pub(super) fn new(tasks: &Arc<Tasks>, id: &str) -> (Self, WorkHandle) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let work = Self { tasks: Arc::downgrade(tasks), id: id.to_owned(), inbox, cancel: cancel.clone() };
        (work, WorkHandle { inbox: sender, cancel })
    }

    /// Works until there is nothing more to do.
    pub(super) async fn run(mut self, mut run: BackgroundRun) {
        loop {
            let (ended, undelivered) = self.attend(run).await;
            let Some(tasks) = self.tasks.upgrade() else { return };
            match tasks.ended(&self.id, ended, undelivered, &mut self.inbox) {
                Some(next) => run = next,
                None => return,
            }
        }
    }

    /// Attends to one run; hands on what is said meanwhile, and gives back what was said too late.
    async fn attend(&mut self, mut run: BackgroundRun) -> (TaskState, Vec<String>) {
        let mut undelivered = Vec::new();
        let mut cancelled = false;
        let ended = loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled(), if !cancelled => {
                    run.cancel();
                    cancelled = true;
                }
                Some(text) = self.inbox.recv() => {
                    if !run.steer(text.as_str()) {
                        undelivered.push(text);
                    }
                }
                ended = run.ended() => break ended,
            }
        };
        (task_state(ended), undelivered)
    }

    /// Waits for something else than an agent.
    pub(super) async fn call(mut self, work: BoxFuture<'static, Result<ToolOutput, ToolError>>) {
        let work = AssertUnwindSafe(work).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = self.cancel.cancelled() => TaskState::new(TaskStatus::Cancelled, String::new()),
            ended = work => match ended {
                Ok(ended) => of_call(ended),
                Err(_) => TaskState::new(TaskStatus::Error, "It panicked.".to_owned()),
            },
        };
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.ended(&self.id, ended, Vec::new(), &mut self.inbox);
        }
    }
}

impl TaskState {
    pub(super) fn new(status: TaskStatus, said: String) -> Self {
        Self { status, said, left: None, changes: (None, Update::none()), paused: None }
    }
}

fn of_call(ended: Result<ToolOutput, ToolError>) -> TaskState {
    let output = match ended {
        Ok(output) => output,
        Err(ToolError::Interrupted(_)) => {
            let why = "It asked a person something, which a closure in the background cannot wait for: delegate it with \
                       `task` instead.";
            return TaskState::new(TaskStatus::Error, why.to_owned());
        }
        Err(ToolError::Model { text, .. } | ToolError::Denied(text)) => return TaskState::new(TaskStatus::Error, text),
        Err(ToolError::Fatal(error)) => return TaskState::new(TaskStatus::Error, error.to_string()),
        Err(_) => return TaskState::new(TaskStatus::Error, "It failed.".to_owned()),
    };
    let texts = output.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
    let status = if output.is_error { TaskStatus::Error } else { TaskStatus::Success };
    TaskState { changes: (output.child_state, output.update), ..TaskState::new(status, texts) }
}

/// How a run ended, and what it said.
fn task_state(ended: Result<(Outcome, Option<Paused>), Box<RunError>>) -> TaskState {
    let (outcome, paused) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let left = Some(error.state.clone());
            return TaskState { left, ..TaskState::new(TaskStatus::Error, error.to_string()) };
        }
    };
    let text = result_text(&outcome);
    let (status, said) = match &outcome.stop {
        FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended | FinishReason::Empty => {
            (TaskStatus::Success, text)
        }
        FinishReason::Cancelled => (TaskStatus::Cancelled, text),
        FinishReason::Interrupted => (TaskStatus::Interrupted, String::new()),
        FinishReason::TokenLimit => (TaskStatus::Error, format!("Its answer was cut off: {text}")),
        stop => (TaskStatus::Error, format!("It may not have finished: {}. It last said: {text}", stop.reason())),
    };
    TaskState { left: Some(outcome.state), paused, ..TaskState::new(status, said) }
}

/// Goes on with a run that waits as if what it waits for had been refused, with more to hear.
pub(super) fn dismiss(paused: &Paused, texts: &[String]) -> Result<BackgroundRun, DecisionError> {
    let refused = || Decision::Reject { message: Some("something else is to be done".to_owned()) };
    let answers = paused.questions().into_iter().map(|question| (question.id, refused())).collect();
    let run = paused.answer(answers)?;
    for text in texts {
        run.steer(text.as_str());
    }
    Ok(run)
}
