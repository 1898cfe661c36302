//! One task: its states, and the work itself.

use std::sync::Weak;

use deepagents_core::agent::Agent;
use deepagents_core::message::Message;
use deepagents_core::run::{Outcome, Run, RunError, RunInput, Stop};
use deepagents_core::state::{State, StructuredResponse};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It works.
    Running,
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
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the work needs beside its input.
pub(super) struct Work {
    /// Weak, so that the agent object that owns the tasks can go away while they run.
    pub(super) tasks: Weak<Tasks>,
    pub(super) id: String,
    pub(super) agent: Agent,
    /// What every run of the task is given.
    pub(super) base: RunInput,
    pub(super) inbox: mpsc::UnboundedReceiver<String>,
    pub(super) cancel: CancellationToken,
}

impl Work {
    /// Works until there is nothing more to do.
    pub(super) async fn run(mut self, mut input: RunInput) {
        loop {
            let (ended, unheard) = self.attend(input).await;
            let Some(tasks) = self.tasks.upgrade() else { return };
            match tasks.ended(&self.id, ended, unheard, &mut self.inbox) {
                Some((left, texts)) => input = go_on(self.base.clone(), &left, texts),
                None => return,
            }
        }
    }

    /// Runs once; hands on what is said meanwhile, and gives back what was said too late.
    async fn attend(&mut self, input: RunInput) -> (Result<Outcome, Box<RunError>>, Vec<String>) {
        let mut run: Run = self.agent.run(input);
        let mut unheard = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    run.cancel();
                    break;
                }
                Some(text) = self.inbox.recv() => {
                    if !run.steer(text.as_str()) {
                        unheard.push(text);
                    }
                }
                event = run.next() => {
                    if event.is_none() {
                        break;
                    }
                }
            }
        }
        (run.outcome().await, unheard)
    }
}

/// The input of a run that goes on from a state with more to do.
pub(super) fn go_on(base: RunInput, left: &State, texts: Vec<String>) -> RunInput {
    let said = left.messages().iter().map(|message| (**message).clone());
    let input = said.chain(texts.into_iter().map(Message::user)).fold(base, RunInput::message);
    shared(input, left)
}

/// Adds what a state shares with sub-agents, such as files.
pub(super) fn shared(input: RunInput, state: &State) -> RunInput {
    let empty = State::new(state.schema().clone());
    match empty.join(&empty, state) {
        Ok((update, _)) => input.update(update),
        // Two states of one schema always fit.
        Err(_) => input,
    }
}

/// How a run ended, and what it said.
pub(super) fn verdict(ended: &Result<Outcome, Box<RunError>>) -> (TaskStatus, String) {
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(error) => return (TaskStatus::Error, error.to_string()),
    };
    let shaped = outcome.state.get::<StructuredResponse>().and_then(Option::as_ref).map(ToString::to_string);
    let said = || {
        let answers = outcome.messages().iter().rev().filter_map(|m| m.as_assistant());
        answers.map(|a| a.text().trim_end().to_owned()).find(|text| !text.is_empty()).unwrap_or_default()
    };
    let text = shaped.unwrap_or_else(|| if outcome.stop == Stop::ReturnDirect { outcome.text() } else { said() });
    match outcome.stop {
        Stop::Done | Stop::ReturnDirect | Stop::Ended | Stop::Empty => (TaskStatus::Success, text),
        Stop::Cancelled => (TaskStatus::Cancelled, text),
        Stop::StepLimit => (TaskStatus::Error, format!("It reached its limit of model calls. It last said: {text}")),
        Stop::TokenLimit => (TaskStatus::Error, format!("Its answer was cut off: {text}")),
        _ => (TaskStatus::Error, format!("It stopped before it was done. It last said: {text}")),
    }
}
