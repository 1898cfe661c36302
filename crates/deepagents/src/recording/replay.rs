//! Playing a recording.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::middleware::{ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{Beginning, ModelCall, Outcome, RunError, Tap};
use deepagents_core::tool::{CallId, ToolError};
use deepagents_models::record::Answer;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use super::events::{Compared, is_later, kind};
use super::line::{CallOutcome, CallResult, Called, FailedCall};
use super::load::Exchange;
use super::progress::{Expected, State};
use super::request::Request;
use super::{Departure, RunRecording, Standing};

/// How long a replay that has nothing to play waits for something to happen. Only tools take time in it, so that it is
/// stuck then: what was recorded does not come.
const fn patience(tools: Tools) -> Duration {
    match tools {
        Tools::Recorded => Duration::from_secs(10),
        Tools::Live => Duration::from_secs(600),
    }
}

/// Where the results of tools come from in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tools {
    /// From the recording: no tool is run. Calls that run sub-agents are made, and what these do is played.
    #[default]
    Recorded,
    /// From the tools: they are run, and have to do what they did.
    Live,
}

/// Plays a recording: a [`Tap`] that stands in the place of models and tools and compares what happens. One plays once.
/// See the [module](super) for an example.
pub struct Replay {
    recording: RunRecording,
    tools: Tools,
    standing: Standing,
    state: Mutex<State>,
    /// Counts whatever may let something that waits go on.
    changed: watch::Sender<u64>,
}

/// What came of a replay that did not depart.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// How the run ended, the last one where there were several; nothing where the recording holds none.
    pub result: Option<Result<Outcome, Box<RunError>>>,
    /// How far the recording goes, and with it the replay.
    pub standing: Standing,
}

impl Replayed {
    /// The answer, where the run came to one.
    pub fn text(&self) -> Option<String> {
        self.result.as_ref()?.as_ref().ok().map(Outcome::text)
    }
}

impl Replay {
    pub(super) fn new(recording: RunRecording, tools: Tools) -> Arc<Self> {
        let state = State::new(&recording);
        let standing = recording.standing();
        Arc::new(Self { recording, tools, standing, state: Mutex::new(state), changed: watch::Sender::new(0) })
    }

    /// The recording.
    pub fn recording(&self) -> &RunRecording {
        &self.recording
    }

    /// Plays the whole recording with an agent: what the run was given, and then whatever it went on with. An agent whose
    /// run had a thread needs a journal in which that thread is new.
    ///
    /// # Errors
    /// The first departure.
    pub async fn run(self: &Arc<Self>, agent: &Agent) -> Result<Replayed, Departure> {
        let mut result = None;
        for input in self.recording.inputs().to_vec() {
            let input = input.into_input(agent.schema());
            let input = input.map_err(|error| Departure::Input { reason: error.to_string() })?;
            result = Some(agent.run(input.tap(self.clone())).outcome().await);
            if let Some(departure) = self.departure() {
                return Err(departure);
            }
        }
        self.finish()?;
        Ok(Replayed { result, standing: self.standing.clone() })
    }

    /// The first departure so far.
    pub fn departure(&self) -> Option<Departure> {
        self.lock().departure.clone()
    }

    /// Whether an event is one that the recording has too, and not one that comes only because the recording ends before
    /// its run did.
    pub fn has(&self, event: &Event) -> bool {
        !self.lock().beyond.contains(&event.seq)
    }

    /// The events at the end of the recording that are not played: how the run was ended from outside, and what had
    /// begun where the recording ends.
    pub fn unplayed(&self) -> Vec<Event> {
        let (_, rest) = self.recording.split_events();
        rest.into_iter().filter_map(|event| Event::deserialize(event).ok()).collect()
    }

    /// Says, once all is run, whether all was played.
    ///
    /// # Errors
    /// The first departure.
    pub fn finish(&self) -> Result<(), Departure> {
        let mut state = self.lock();
        if state.departure.is_none() {
            state.departure = state.missing().or_else(|| {
                let whole = self.standing == Standing::Finished;
                state.unasked().filter(|_| whole)
            });
        }
        state.departure.clone().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stir(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Notes a departure, the first one only, and ends the run.
    fn depart(&self, departure: Departure) -> Departure {
        let mut state = self.lock();
        let first = state.departure.get_or_insert(departure).clone();
        if let Some(cancel) = &state.cancel {
            cancel.cancel();
        }
        drop(state);
        self.stir();
        first
    }

    /// Waits for something that has to happen before. Whatever waits for nothing to happen is stuck.
    async fn wait(&self, ready: impl Fn(&State) -> bool) -> Result<(), Departure> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let state = self.lock();
                if let Some(departure) = &state.departure {
                    return Err(departure.clone());
                }
                if ready(&state) {
                    return Ok(());
                }
            }
            if tokio::time::timeout(patience(self.tools), changes.changed()).await.is_err() {
                let missing = self.lock().missing();
                return match missing {
                    Some(missing) => Err(self.depart(missing)),
                    None => Ok(()),
                };
            }
        }
    }

    /// Waits for the end of a recording that ends before its run.
    async fn over(&self) -> Departure {
        self.end_if_over();
        match self.wait(|state| state.is_over).await {
            // The run is cancelled where the recording ends, so that nobody hears this.
            Ok(()) => std::future::pending().await,
            Err(departure) => departure,
        }
    }

    fn end_if_over(&self) {
        let mut state = self.lock();
        if self.standing != Standing::Finished && state.left == 0 && !state.is_over {
            state.is_over = true;
            if let Some(cancel) = &state.cancel {
                cancel.cancel();
            }
        }
    }

    /// What is answered to a request.
    fn answer(&self, call: &ModelCall, request: &Request) -> Result<Option<Answer>, Departure> {
        let path = call.path.to_vec();
        let mut state = self.lock();
        if let Some(departure) = &state.departure {
            return Err(departure.clone());
        }
        let digest = request.digest();
        let exchanges = state.exchanges.entry(path.clone()).or_default();
        let fits = |exchange: &&mut Option<Exchange>| {
            exchange.as_ref().is_some_and(|e| e.aside == call.aside && e.digest == digest)
        };
        if let Some(exchange) = exchanges.iter_mut().find(fits).and_then(Option::take) {
            let is_last = exchanges.iter().flatten().all(|later| later.aside != call.aside);
            let ends_here = self.standing != Standing::Finished && is_last && !exchange.is_whole();
            return Ok(exchange.answer.filter(|_| !ends_here));
        }
        let unplayed = exchanges.iter().flatten().filter(|exchange| exchange.aside == call.aside);
        // The first of those that share the longest conversation with the request.
        let nearest = unplayed.rev().max_by_key(|exchange| exchange.request.shared_with(request));
        match nearest.and_then(|exchange| Some((exchange.turn, exchange.request.difference(request)?))) {
            Some((turn, difference)) => Err(Departure::Request { path, turn, difference: Box::new(difference) }),
            None if self.standing == Standing::Finished => Err(Departure::NotAsked { path, turn: call.turn }),
            None => Ok(None),
        }
    }

    /// Plays how a call ended.
    async fn call(&self, request: &ToolRequest) -> Result<ToolResponse> {
        let id = request.id().clone();
        let (called, asked) = {
            let mut state = self.lock();
            let called = state.calls.get_mut(&id).and_then(VecDeque::pop_front);
            let asked = state.asked.entry(id.clone()).or_default();
            if let Some(Called { outcome: CallOutcome::Asked(questions), .. }) = &called {
                asked.extend(questions.iter().cloned());
            }
            (called, asked.clone())
        };
        for text in self.told(&id) {
            request.cx.progress(text).await;
        }
        let name = request.call.name.clone();
        let Some(called) = called else {
            if self.standing == Standing::Finished {
                return Err(Error::other(self.depart(Departure::NotCalled { call: id, name })));
            }
            return Err(Error::other(self.over().await));
        };
        match called.outcome {
            CallOutcome::Result(CallResult { content, is_error, update, artifact }) => {
                let update = update.resolve(request.cx.state().schema()).map_err(|error| {
                    Error::other(self.depart(Departure::Result { call: id, name, reason: error.to_string() }))
                })?;
                let mut response = ToolResponse::default();
                (response.content, response.is_error, response.update, response.artifact) =
                    (content, is_error, update, artifact);
                Ok(response)
            }
            CallOutcome::Asked(_) => {
                for question in asked {
                    if let Err(ToolError::Paused(pause)) = request.cx.ask(question.text, question.allowed) {
                        return Err(Error::Paused(pause));
                    }
                }
                let reason = "its questions have answers already".to_owned();
                Err(Error::other(self.depart(Departure::Result { call: id, name, reason })))
            }
            CallOutcome::Failed { error: FailedCall::Tool { name, source } } => {
                Err(Error::Tool { name, source: source.into() })
            }
            CallOutcome::Failed { error: FailedCall::Model(failure) } => Err(Error::Model(failure.into_error())),
            CallOutcome::Failed { error: FailedCall::Other(text) } => Err(Error::Other(text.into())),
            CallOutcome::Crashed { text } => resume_unwind(Box::new(text)),
        }
    }

    /// What a call told while it ran.
    fn told(&self, call: &CallId) -> Vec<String> {
        let told = self.recording.events().iter().filter(|event| kind(event) == "tool_progress");
        let of_call = told.filter(|event| event.get("call").is_some_and(|id| is_call(id, call)));
        of_call.filter_map(|event| event.get("text")?.as_str()).map(str::to_owned).collect()
    }

    /// Waits until the calls have ended that ended before this one when they were recorded.
    async fn turn_of(&self, call: &CallId) -> Result<()> {
        let whole = self.standing == Standing::Finished;
        let its_turn = |state: &State| {
            let lane = state.lanes.iter().find(|(lane, _)| lane.is_of(&call.path)).map(|(_, expected)| expected);
            let rest = lane.into_iter().flat_map(Expected::rest);
            let mut ends = rest.filter(|event| kind(event) == "tool_finished").filter_map(|event| event.get("call"));
            match ends.next() {
                // What the recording has no end of comes last.
                Some(first) => is_call(first, call) || whole && !ends.any(|later| is_call(later, call)),
                None => true,
            }
        };
        self.wait(its_turn).await.map_err(Error::other)
    }
}

fn is_call(id: &Value, call: &CallId) -> bool {
    CallId::deserialize(id).is_ok_and(|id| id == *call)
}

impl Tap for Replay {
    fn begin(&self, beginning: Beginning<'_>) -> Result<()> {
        let mut state = self.lock();
        if state.is_over {
            beginning.cancel.cancel();
        }
        state.cancel = Some(beginning.cancel);
        state.beyond.clear();
        state.departure.clone().map_or(Ok(()), |departure| Err(Error::other(departure)))
    }

    fn model(
        self: Arc<Self>,
        call: ModelCall,
        _model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let failure = |departure: Departure| Err(ModelError::invalid(format!("the replay departs: {departure}")));
        match self.answer(&call, &Request::of(&request)) {
            // An answer that nobody waited for to its end.
            Ok(Some(answer)) if answer.broke_off() => Box::pin(stream::iter(answer.play()).chain(stream::pending())),
            Ok(Some(answer)) => Box::pin(stream::iter(answer.play())),
            Ok(None) => {
                let over = async move { failure(self.over().await) };
                Box::pin(stream::once(over))
            }
            Err(departure) => Box::pin(stream::iter([failure(self.depart(departure))])),
        }
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        Box::pin(async move {
            let id = request.id().clone();
            let ended = if self.tools == Tools::Live || self.recording.below.contains(&id.to_string()) {
                next.run(request).await
            } else {
                self.call(&request).await
            };
            if !matches!(ended, Err(Error::Paused(_))) {
                self.turn_of(&id).await?;
            }
            ended
        })
    }

    fn event(&self, event: &Event) {
        let Ok(value) = serde_json::to_value(event) else { return };
        let Some(compared) = Compared::of(&value) else { return };
        if is_later(kind(&value)) && !self.recording.events.iter().any(|event| kind(event) == kind(&value)) {
            return;
        }
        let mut state = self.lock();
        if state.departure.is_some() {
            return;
        }
        let path = event.path.to_vec();
        let found = match state.compare(compared) {
            Ok(false) if self.standing == Standing::Finished => {
                Err(Departure::ExtraEvent { path, kind: kind(&value).to_owned() })
            }
            Ok(false) => {
                state.beyond.insert(event.seq);
                Ok(())
            }
            Ok(true) => Ok(()),
            Err(departure) => Err(departure),
        };
        drop(state);
        match found {
            Ok(()) => self.end_if_over(),
            Err(departure) => drop(self.depart(departure)),
        }
        self.stir();
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Replay").field("left", &state.left).field("departure", &state.departure).finish_non_exhaustive()
    }
}
