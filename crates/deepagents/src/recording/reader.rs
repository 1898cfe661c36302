//! Reading a recording.

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
    /// Calls that ran sub-agents, as they are written.
    pub(super) with_sub_agents: HashSet<String>,
    pub(super) events: Vec<Value>,
}

/// How far a recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// To the end of the run, whether it succeeded, failed or waits for a decision.
    Finished,
    /// Until the run was ended from outside: cancelled, or out of time.
    Halted(FinishReason),
    /// Up to a point in the middle of the run, such as where its process was killed.
    Unfinished,
}

impl RunRecording {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// When it cannot be opened or read, is no recording of a run, of a newer version, damaged, or of a steered run.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        open(path, Self::from_reader).await
    }

    /// Reads a recording to its end; blocks while it does.
    ///
    /// # Errors
    /// As [`open`](Self::open).
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

    /// What the recording says of itself.
    pub fn header(&self) -> &Header {
        &self.models.header
    }

    /// What the run was given: first the task, then whatever it went on with, such as answers.
    pub fn inputs(&self) -> &[InputRecord] {
        &self.inputs
    }

    /// The events, in the order in which they happened.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// Whether the last line was cut off and passed over.
    pub fn is_cut(&self) -> bool {
        self.models.cut.is_some()
    }

    /// How far it goes.
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

    /// A model to build the agent with that is to be replayed.
    #[must_use]
    pub fn model(&self) -> PlaceholderModel {
        PlaceholderModel { name: self.header().model.clone(), profile: self.header().profile.clone() }
    }

    /// Something that plays it, once.
    #[must_use]
    pub fn replay(self, tools: Tools) -> Arc<Replay> {
        Replay::new(self, tools)
    }

    /// The events that a replay has to come to, and those that only tell how the run was ended from outside or what had
    /// begun when the recording ends.
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

    /// How many events of an agent come before the end of the recording takes hold.
    fn count_before_end(&self, path: &[&str], events: &[&Value], completeness: &Completeness) -> usize {
        let key: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let mut exchanges = self.models.exchanges.get(&key).into_iter().flatten();
        let broke_off = exchanges.rfind(|exchange| !exchange.aside).is_some_and(|exchange| !exchange.is_whole());
        let begun = events.iter().rposition(|event| kind(event) == "model_started");
        let end = begun.filter(|_| broke_off).map_or(events.len(), |at| at + 1);
        let is_work = |event: &Value| match kind(event) {
            // Which call made the last changes is not known before its end is.
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

/// Has the name and profile of the recorded model, so that an agent is built for it as it was. It answers only through a
/// [`Replay`].
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
