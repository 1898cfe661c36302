//! Reads recordings.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use deepagents_core::run::{FinishReason, InputRecord};
use deepagents_core::tool::CallId;
use deepagents_models::recording::{Header, Recording, RecordingError, open};
use futures_util::stream::{self, BoxStream};
use serde::Deserialize;
use serde_json::Value;

use super::events::{kind, path};
use super::line::{Line, ToolLine};
use super::{Replay, Tools};

/// A recorded run.
///
/// ```
/// use deepagents::recording::{Completeness, RunRecording};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let recording = RunRecording::open("run.jsonl").await?;
/// if recording.completeness() != Completeness::Finished {
///     println!("it ends before its run did");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RunRecording {
    pub(super) models: Recording,
    pub(super) inputs: Vec<InputRecord>,
    pub(super) calls: HashMap<CallId, VecDeque<ToolLine>>,
    /// Calls that ran sub-agents, as JSON text.
    pub(super) with_sub_agents: HashSet<String>,
    pub(super) events: Vec<Value>,
}

/// How complete a recording is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// It covers the whole run, whether that succeeded, failed or waits for a decision.
    Finished,
    /// It covers a run that was ended from outside: cancelled, suspended or out of time.
    Halted(FinishReason),
    /// It ends in the middle of the run, for example because the process was killed.
    Unfinished,
}

impl RunRecording {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or read, is not a recording of a run, has a newer version, is
    /// damaged, or records a steered run.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        open(path, Self::from_reader).await
    }

    /// Reads a recording to its end. Blocks.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_reader(reader: impl BufRead) -> Result<Self, RecordingError> {
        let (mut inputs, mut calls, mut events) = (Vec::new(), HashMap::<_, VecDeque<_>>::new(), Vec::new());
        let models = Recording::read(reader, |bytes| {
            match serde_json::from_slice::<Line<Value>>(bytes).map_err(|error| error.to_string())? {
                Line::Input { input } => inputs.push(*input),
                Line::Tool(line) => calls.entry(line.call.clone()).or_default().push_back(*line),
                Line::Event { event } if kind(&event).is_empty() => return Err("an event without a type".to_owned()),
                Line::Event { event } => events.push(event),
            }
            Ok(())
        })?;
        if models.header.agent.is_none() {
            let what = "it is a recording of a model, not of a run; play it with `ReplayModel`";
            return Err(RecordingError::Foreign(what.to_owned()));
        }
        if events.iter().any(|event| kind(event) == "steered") {
            let what = "the run was given messages while it was going on (it was steered); record it without them";
            return Err(RecordingError::Unplayable(what.to_owned()));
        }
        let started = events.iter().filter(|event| kind(event) == "agent_started");
        let with_sub_agents = started.filter_map(|event| {
            let path = path(event);
            let (last, above) = path.split_last()?;
            let above: String = above.iter().map(|part| format!("{part}/")).collect();
            Some(format!("{above}{}", last.rsplit_once(':')?.1))
        });
        Ok(Self { with_sub_agents: with_sub_agents.collect(), models, inputs, calls, events })
    }

    /// Returns the header of the recording.
    pub fn header(&self) -> &Header {
        &self.models.header
    }

    /// Returns the inputs: first the task, then those with which the run was continued, such as answers.
    pub fn inputs(&self) -> &[InputRecord] {
        &self.inputs
    }

    /// Returns the events in the order in which they occurred.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// Returns `true` if the last line was truncated and skipped.
    pub fn is_cut(&self) -> bool {
        self.models.cut.is_some()
    }

    /// Returns how complete the recording is.
    pub fn completeness(&self) -> Completeness {
        let ends = self.events.iter().filter(|event| matches!(kind(event), "run_finished" | "run_failed")).count();
        let Some(last) = self.events.last().filter(|_| ends >= self.inputs.len()) else {
            return Completeness::Unfinished;
        };
        match (kind(last), last.get("stop").map(FinishReason::deserialize)) {
            ("run_finished", Some(Ok(stop)))
                if matches!(stop, FinishReason::Cancelled | FinishReason::Deadline | FinishReason::Suspended) =>
            {
                Completeness::Halted(stop)
            }
            ("run_finished" | "run_failed", _) => Completeness::Finished,
            _ => Completeness::Unfinished,
        }
    }

    /// Returns a placeholder model with which to build the agent for a replay.
    #[must_use]
    pub fn model(&self) -> PlaceholderModel {
        PlaceholderModel { name: self.header().model.clone(), profile: self.header().profile.clone() }
    }

    /// Returns a replay of the recording, which can be used once.
    #[must_use]
    pub fn replay(self, tools: Tools) -> Arc<Replay> {
        Replay::new(self, tools)
    }

    /// Splits the events into those that a replay must reproduce, and those that result from ending the run from
    /// outside or from work in progress at the end of the recording.
    pub(super) fn split_events(&self) -> (Vec<&Value>, Vec<&Value>) {
        let completeness = self.completeness();
        if completeness == Completeness::Finished {
            return (self.events.iter().collect(), Vec::new());
        }
        let mut by_path: HashMap<Vec<&str>, Vec<&Value>> = HashMap::new();
        for event in &self.events {
            by_path.entry(path(event)).or_default().push(event);
        }
        let count = |(path, events): (Vec<_>, Vec<_>)| {
            let count = self.count_before_end(&path, &events, &completeness);
            (path, count)
        };
        let mut left: HashMap<Vec<&str>, usize> = by_path.into_iter().map(count).collect();
        self.events.iter().partition(|event| {
            let left = left.get_mut(&path(event)).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_some()
        })
    }

    /// Counts the events of an agent before the recording's end affects it.
    fn count_before_end(&self, path: &[&str], events: &[&Value], completeness: &Completeness) -> usize {
        let key: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let mut exchanges = self.models.exchanges.get(&key).into_iter().flatten();
        let broke_off = exchanges.rfind(|exchange| !exchange.aside).is_some_and(|exchange| !exchange.is_whole());
        let begun = events.iter().rposition(|event| kind(event) == "model_started");
        let end = begun.filter(|_| broke_off).map_or(events.len(), |at| at + 1);
        let is_work = |event: &Value| match kind(event) {
            // The call that made the last change is known only when the call ends.
            "state_changed" => false,
            _ if *completeness == Completeness::Unfinished => true,
            "run_finished" | "agent_finished" | "agent_failed" | "tool_started" => false,
            "tool_finished" => {
                let call = event.get("call").and_then(|call| CallId::deserialize(call).ok());
                call.is_some_and(|call| self.calls.contains_key(&call))
            }
            _ => true,
        };
        events.iter().take(end).rposition(|event| is_work(event)).map_or(0, |at| at + 1)
    }
}

/// A model with the name and profile of the recorded one, so that the agent is built as it was for the recording. It
/// only answers through a [`Replay`].
#[derive(Clone, Debug)]
pub struct PlaceholderModel {
    name: String,
    profile: ModelProfile,
}

impl ChatModel for PlaceholderModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let what = "the placeholder for a recorded model only answers in a replay; give the run its observer";
        Box::pin(stream::iter([Err(ModelError::invalid(what))]))
    }
}
