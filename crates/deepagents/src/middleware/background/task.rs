//! One task: its states, and the work itself.

use std::panic::AssertUnwindSafe;
use std::sync::Weak;

use deepagents_core::ask::{AnswerError, Decision};
use deepagents_core::message::Block;
use deepagents_core::run::{Beside, Outcome, Paused, RunError, Stop};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{Handback, ToolError, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;
use crate::report;

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It works.
    Running,
    /// It waits for a decision of a person.
    Waiting,
    /// It has a result.
    Success,
    /// It failed, or stopped before it was done.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// The word in JSON and for the model.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether there is nothing more to come.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// How a part of the work ended.
pub(super) struct Ended {
    pub(super) status: TaskStatus,
    pub(super) said: String,
    /// What an agent has come to.
    pub(super) left: Option<State>,
    /// What a closure hands back.
    pub(super) changes: (Option<Handback>, Update),
    /// How to go on where it waits.
    pub(super) paused: Option<Paused>,
}

/// What the work needs.
pub(super) struct Work {
    /// Weak, so that the agent object that owns the tasks can go away while they run.
    pub(super) tasks: Weak<Tasks>,
    pub(super) id: String,
    pub(super) inbox: mpsc::UnboundedReceiver<String>,
    pub(super) cancel: CancellationToken,
}

impl Work {
    /// Works until there is nothing more to do.
    pub(super) async fn run(mut self, mut run: Beside) {
        loop {
            let (ended, unheard) = self.attend(run).await;
            let Some(tasks) = self.tasks.upgrade() else { return };
            match tasks.ended(&self.id, ended, unheard, &mut self.inbox) {
                Some(next) => run = next,
                None => return,
            }
        }
    }

    /// Attends to one run; hands on what is said meanwhile, and gives back what was said too late.
    async fn attend(&mut self, mut run: Beside) -> (Ended, Vec<String>) {
        let mut unheard = Vec::new();
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
                        unheard.push(text);
                    }
                }
                ended = run.ended() => break ended,
            }
        };
        (verdict(ended), unheard)
    }

    /// Runs a closure.
    pub(super) async fn call(mut self, work: BoxFuture<'static, Result<ToolOutput, ToolError>>) {
        let work = AssertUnwindSafe(work).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Ended::without(TaskStatus::Cancelled, String::new()),
            ended = work => match ended {
                Ok(ended) => of_call(ended),
                Err(_) => Ended::without(TaskStatus::Error, "It panicked.".to_owned()),
            },
        };
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.ended(&self.id, ended, Vec::new(), &mut self.inbox);
        }
    }
}

impl Ended {
    fn without(status: TaskStatus, said: String) -> Self {
        Self { status, said, left: None, changes: (None, Update::none()), paused: None }
    }
}

fn of_call(ended: Result<ToolOutput, ToolError>) -> Ended {
    let output = match ended {
        Ok(output) => output,
        Err(ToolError::Paused(_)) => {
            let why = "It asked a person something, which a closure in the background cannot wait for: delegate it with \
                       `task` instead.";
            return Ended::without(TaskStatus::Error, why.to_owned());
        }
        Err(ToolError::Model(text) | ToolError::Denied(text)) => return Ended::without(TaskStatus::Error, text),
        Err(ToolError::Fatal(error)) => return Ended::without(TaskStatus::Error, error.to_string()),
        Err(_) => return Ended::without(TaskStatus::Error, "It failed.".to_owned()),
    };
    let texts = output.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
    let status = if output.is_error { TaskStatus::Error } else { TaskStatus::Success };
    Ended { changes: (output.handback, output.update), ..Ended::without(status, texts) }
}

/// How a run ended, and what it said.
fn verdict(ended: Result<(Outcome, Option<Paused>), Box<RunError>>) -> Ended {
    let (outcome, paused) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let left = Some(error.state.clone());
            return Ended { left, ..Ended::without(TaskStatus::Error, error.to_string()) };
        }
    };
    let text = report::of(&outcome);
    let (status, said) = match &outcome.stop {
        Stop::Done | Stop::ReturnDirect | Stop::Ended | Stop::Empty => (TaskStatus::Success, text),
        Stop::Cancelled => (TaskStatus::Cancelled, text),
        Stop::Waiting => (TaskStatus::Waiting, String::new()),
        Stop::TokenLimit => (TaskStatus::Error, format!("Its answer was cut off: {text}")),
        stop => (TaskStatus::Error, format!("It may not have finished: {}. It last said: {text}", stop.words())),
    };
    Ended { left: Some(outcome.state), paused, ..Ended::without(status, said) }
}

/// Goes on with a run that waits as if what it waits for had been refused, with more to hear.
pub(super) fn dismiss(paused: &Paused, texts: &[String]) -> Result<Beside, AnswerError> {
    let refused = || Decision::Reject { message: Some("something else is to be done".to_owned()) };
    let answers = paused.questions().into_iter().map(|question| (question.id, refused())).collect();
    let run = paused.answer(answers)?;
    for text in texts {
        run.steer(text.as_str());
    }
    Ok(run)
}
