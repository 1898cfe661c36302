//! Reading a recording.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use deepagents_core::run::{InputRecord, Stop};
use deepagents_core::tool::CallId;
use deepagents_models::record::{Answer, RecordingError};
use serde::Deserialize;
use serde_json::Value;

use super::events::kind;
use super::line::{Asked, Called, Header, Line, VERSION};
use super::request::{LastRequests, Request};
use super::{Replay, RunRecordingError, StandIn, Tools};

/// A recorded run.
#[derive(Clone, Debug)]
pub struct RunRecording {
    pub(super) header: Header,
    pub(super) inputs: Vec<InputRecord>,
    /// What the models of each agent were asked, in the order in which they were.
    pub(super) exchanges: HashMap<Vec<String>, Vec<Exchange>>,
    pub(super) calls: HashMap<CallId, VecDeque<Called>>,
    /// Calls that ran sub-agents, as they are written.
    pub(super) below: HashSet<String>,
    pub(super) events: Vec<Value>,
    is_cut: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) turn: u32,
    pub(super) aside: bool,
    pub(super) request: Request,
    pub(super) digest: String,
    /// Nothing where the process ended first.
    pub(super) answer: Option<Answer>,
}

impl Exchange {
    /// Whether there is an end to the answer.
    pub(super) fn is_whole(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.broke_off())
    }
}

/// How far a recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// To the end of the run, whether it succeeded, failed or waits for a decision.
    Finished,
    /// Until the run was ended from outside: cancelled, or out of time.
    Halted(Stop),
    /// Up to a point in the middle of the run, such as where its process was killed.
    Unfinished,
}

impl RunRecording {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// When it cannot be opened or read, is no recording of a run, of a newer version, damaged, or of a steered run.
    #[allow(clippy::disallowed_methods, reason = "a recorder opens the one file it is given")]
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RunRecordingError> {
        let path = path.into();
        let at = path.clone();
        let read = tokio::task::spawn_blocking(move || match File::open(&at) {
            Ok(file) => Self::from_reader(BufReader::new(file)),
            Err(source) => Err(RunRecordingError::open(at, source)),
        });
        read.await.unwrap_or_else(|error| Err(RunRecordingError::open(path, io::Error::other(error))))
    }

    /// Reads a recording to its end; blocks while it does.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_reader(mut reader: impl BufRead) -> Result<Self, RunRecordingError> {
        let mut bytes = Vec::new();
        let mut read = |bytes: &mut Vec<u8>| {
            bytes.clear();
            reader.read_until(b'\n', bytes).map_err(|error| RunRecordingError::File(RecordingError::Read(error)))
        };
        read(&mut bytes)?;
        let mut loading = Loading::new(header(&bytes)?);
        let mut is_cut = false;
        for line in 2.. {
            if read(&mut bytes)? == 0 {
                break;
            }
            let damaged = |what: String| RunRecordingError::Damaged { line, what };
            match serde_json::from_slice(&bytes) {
                Ok(parsed) => loading.take(parsed).map_err(damaged)?,
                Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => {}
                // Only the last line can lack its end.
                Err(_) if !bytes.ends_with(b"\n") => is_cut = true,
                Err(error) => return Err(damaged(error.to_string())),
            }
        }
        let mut recording = loading.recording;
        recording.is_cut = is_cut;
        if recording.events.iter().any(|event| kind(event) == "steered") {
            return Err(RunRecordingError::Steered);
        }
        Ok(recording)
    }

    /// What the recording says of itself.
    pub fn header(&self) -> &Header {
        &self.header
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
        self.is_cut
    }

    /// How far it goes.
    pub fn standing(&self) -> Standing {
        let Some(last) = self.events.last() else { return Standing::Unfinished };
        let ends = self.events.iter().filter(|event| matches!(kind(event), "run_finished" | "run_failed")).count();
        if ends < self.inputs.len() {
            return Standing::Unfinished;
        }
        match kind(last) {
            "run_failed" => Standing::Finished,
            "run_finished" => match last.get("stop").map(Stop::deserialize) {
                Some(Ok(stop @ (Stop::Cancelled | Stop::Deadline))) => Standing::Halted(stop),
                _ => Standing::Finished,
            },
            _ => Standing::Unfinished,
        }
    }

    /// A model to build the agent with that is to be replayed.
    #[must_use]
    pub fn model(&self) -> StandIn {
        StandIn { name: self.header.model.clone(), profile: self.header.profile.clone() }
    }

    /// Something that plays it, once.
    #[must_use]
    pub fn replay(self, tools: Tools) -> Arc<Replay> {
        Replay::new(self, tools)
    }

    /// The events that a replay has to come to, and those that only tell how the run was ended from outside or what had
    /// begun when the recording ends.
    pub(super) fn split_events(&self) -> (Vec<&Value>, Vec<&Value>) {
        let standing = self.standing();
        if standing == Standing::Finished {
            return (self.events.iter().collect(), Vec::new());
        }
        let mut by_path: BTreeMap<Vec<&str>, Vec<&Value>> = BTreeMap::new();
        for event in &self.events {
            by_path.entry(path_of(event)).or_default().push(event);
        }
        let until: BTreeMap<Vec<&str>, usize> = by_path
            .into_iter()
            .map(|(path, events)| {
                let until = self.until(&path, &events, &standing);
                (path, until)
            })
            .collect();
        let mut seen: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
        self.events.iter().partition(|event| {
            let path = path_of(event);
            let until = until.get(&path).copied().unwrap_or_default();
            let at = seen.entry(path).or_default();
            *at += 1;
            *at <= until
        })
    }

    /// How many events of an agent come before the end of the recording takes hold.
    fn until(&self, path: &[&str], events: &[&Value], standing: &Standing) -> usize {
        let key: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let mut exchanges = self.exchanges.get(&key).into_iter().flatten();
        let broke_off = exchanges.rfind(|e| !e.aside).is_some_and(|exchange| !exchange.is_whole());
        let begun = events.iter().rposition(|event| kind(event) == "model_started");
        let until = begun.filter(|_| broke_off).map_or(events.len(), |at| at + 1);
        if *standing == Standing::Unfinished {
            // Which call made the last changes is not known before its end is.
            let told = events.iter().take(until).rposition(|event| kind(event) != "state_changed");
            return told.map_or(0, |at| at + 1);
        }
        let is_end = |event: &Value| match kind(event) {
            "run_finished" | "agent_finished" | "agent_failed" | "state_changed" | "tool_started" => true,
            "tool_finished" => {
                let call = event.get("call").and_then(|call| CallId::deserialize(call).ok());
                call.is_none_or(|call| !self.calls.contains_key(&call))
            }
            _ => false,
        };
        let work = events.iter().rposition(|event| !is_end(event)).map_or(0, |at| at + 1);
        until.min(work)
    }
}

fn path_of(event: &Value) -> Vec<&str> {
    event.get("path").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn header(bytes: &[u8]) -> Result<Header, RunRecordingError> {
    let foreign = |what: &str| RunRecordingError::Foreign(what.to_owned());
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty"));
    }
    let first: Value = serde_json::from_slice(bytes).map_err(|_| foreign("its first line is not JSON"))?;
    match first.get("kind").and_then(Value::as_str) {
        Some("run_recording") => {}
        Some("recording") => return Err(foreign("it is one of a model's answers; play it with `ReplayModel`")),
        _ => return Err(foreign("its first line is not of the kind `run_recording`")),
    }
    match first.get("v").and_then(Value::as_u64) {
        Some(found) if found > VERSION => Err(RunRecordingError::Newer { found }),
        Some(_) => {
            Header::deserialize(first).map_err(|error| RunRecordingError::Damaged { line: 1, what: error.to_string() })
        }
        None => Err(RunRecordingError::Damaged { line: 1, what: "the field `v` is missing".to_owned() }),
    }
}

/// A recording as far as it has been read.
struct Loading {
    recording: RunRecording,
    /// The last request of each agent, those beside the conversation apart.
    last: LastRequests,
}

impl Loading {
    fn new(header: Header) -> Self {
        let recording = RunRecording {
            header,
            inputs: Vec::new(),
            exchanges: HashMap::new(),
            calls: HashMap::new(),
            below: HashSet::new(),
            events: Vec::new(),
            is_cut: false,
        };
        Self { recording, last: HashMap::new() }
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        let recording = &mut self.recording;
        match line {
            Line::RunRecording(_) => return Err("a second header".to_owned()),
            Line::Input { input } => recording.inputs.push(*input),
            Line::Request(asked) => self.request(*asked)?,
            Line::Answer(answered) => {
                let at = usize::try_from(answered.n).ok();
                let exchanges = recording.exchanges.get_mut(&answered.path);
                match exchanges.and_then(|all| all.get_mut(at?)) {
                    Some(exchange) if exchange.answer.is_none() => exchange.answer = Some(answered.answer),
                    Some(_) => return Err("a second answer to a request".to_owned()),
                    None => return Err("an answer to no request".to_owned()),
                }
            }
            Line::Tool(called) => recording.calls.entry(called.call.clone()).or_default().push_back(*called),
            Line::Event { event } => {
                if kind(&event).is_empty() {
                    return Err("an event without a type".to_owned());
                }
                if kind(&event) == "agent_started"
                    && let Some((last, above)) = path_of(&event).split_last()
                    && let Some((_, number)) = last.rsplit_once(':')
                {
                    let above: String = above.iter().map(|part| format!("{part}/")).collect();
                    recording.below.insert(format!("{above}{number}"));
                }
                recording.events.push(event);
            }
        }
        Ok(())
    }

    fn request(&mut self, asked: Asked) -> Result<(), String> {
        let Asked { path, n, turn, aside, digest, delta } = asked;
        let exchanges = self.recording.exchanges.entry(path.clone()).or_default();
        if usize::try_from(n) != Ok(exchanges.len()) {
            return Err(format!("request {n} comes after {} of this agent", exchanges.len()));
        }
        let key = (path, aside);
        let request =
            Request::from_delta(delta, self.last.get(&key)).ok_or("the request before this one is missing")?;
        if request.digest() != digest {
            return Err("the digest is not that of the request".to_owned());
        }
        self.last.insert(key, request.clone());
        exchanges.push(Exchange { turn, aside, request, digest, answer: None });
        Ok(())
    }
}
