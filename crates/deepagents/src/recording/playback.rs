//! Answers in place of models and tools, and compares requests and events.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::middleware::{ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{ModelCall, RunObserver, RunStart};
use deepagents_core::tool::{CallId, ToolError};
use deepagents_models::recording::{Answer, Request, take_exchange};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::Value;

use super::events::{Compared, is_later, kind};
use super::expected::{Expected, State};
use super::line::{CallError, CallOutcome, CallResult, ToolLine};
use super::{Divergence, Replay, Tools};
use crate::shared::lock;

impl Replay {
    /// Returns the recorded answer to a request, or `None` if the recording ends before it.
    fn answer(&self, call: &ModelCall, request: &Request) -> Result<Option<Answer>, Divergence> {
        let path = call.path.to_vec();
        let mut state = lock(&self.state);
        if let Some(divergence) = &state.divergence {
            return Err(divergence.clone());
        }
        let exchanges = state.exchanges.entry(path.clone()).or_default();
        match take_exchange(exchanges, request, |exchange| exchange.aside == call.aside) {
            Ok(exchange) => {
                let is_last = exchanges.iter().all(|later| later.aside != call.aside);
                let ends_here = !self.is_whole() && is_last && !exchange.is_whole();
                Ok(exchange.answer.filter(|_| !ends_here))
            }
            Err(Some((near, difference))) => {
                Err(Divergence::Request { path, turn: near.turn, difference: Box::new(difference) })
            }
            Err(None) if self.is_whole() => Err(Divergence::NotAsked { path, turn: call.turn }),
            Err(None) => Ok(None),
        }
    }

    /// Replays the outcome of a call.
    async fn call(&self, request: &ToolRequest) -> Result<ToolResponse> {
        let id = request.id().clone();
        let (called, asked) = {
            let mut state = lock(&self.state);
            state.answered.insert((id.path.clone(), id.turn));
            let called = state.calls.get_mut(&id).and_then(VecDeque::pop_front);
            let asked = state.asked.entry(id.clone()).or_default();
            if let Some(ToolLine { outcome: CallOutcome::Interrupted(questions), .. }) = &called {
                asked.extend(questions.iter().cloned());
            }
            (called, asked.clone())
        };
        for text in self.progress_of(&id) {
            request.cx.progress(text);
        }
        let name = request.call.name.clone();
        let Some(called) = called else {
            if self.is_whole() {
                return Err(Error::other(self.diverge(Divergence::NotCalled { call: id, tool: name })));
            }
            return Err(Error::other(self.wait_for_end().await));
        };
        match called.outcome {
            CallOutcome::Result(CallResult { content, is_error, is_synthetic, update, artifact, decision }) => {
                let update = update.resolve(request.cx.state().schema()).map_err(|error| {
                    Error::other(self.diverge(Divergence::Result { call: id, tool: name, reason: error.to_string() }))
                })?;
                let mut response = ToolResponse::default();
                (response.content, response.is_error, response.update, response.artifact) =
                    (content, is_error, update, artifact);
                (response.is_synthetic, response.decision) = (is_synthetic, decision);
                Ok(response)
            }
            CallOutcome::Interrupted(_) => {
                for question in asked {
                    if let Err(ToolError::Interrupted(pause)) = request.cx.interrupt(question.text, question.allowed) {
                        return Err(Error::Interrupted(pause));
                    }
                }
                let reason = "its questions have already been answered".to_owned();
                Err(Error::other(self.diverge(Divergence::Result { call: id, tool: name, reason })))
            }
            CallOutcome::Failed { error } => Err(match error {
                CallError::Tool { name, source } => Error::Tool { name, source: source.into() },
                CallError::Model(error) => Error::Model(error),
                CallError::Other(text) => Error::Other(text.into()),
            }),
            CallOutcome::Crashed { text } => resume_unwind(Box::new(text)),
        }
    }

    /// Returns the recorded progress of a call.
    fn progress_of(&self, call: &CallId) -> Vec<String> {
        let reported = self.recording.events().iter().filter(|event| kind(event) == "tool_progress");
        let of_call = reported.filter(|event| event.get("call").is_some_and(|id| is_call(id, call)));
        of_call.filter_map(|event| event.get("text")?.as_str()).map(str::to_owned).collect()
    }

    /// Waits for the calls that ended before this one in the recording.
    async fn turn_of(&self, call: &CallId) -> Result<()> {
        let whole = self.is_whole();
        let its_turn = |state: &State| {
            let lane = state.lanes.iter().find(|(lane, _)| lane.is_of(&call.path)).map(|(_, expected)| expected);
            let rest = lane.into_iter().flat_map(Expected::rest);
            let mut ends = rest.filter(|event| kind(event) == "tool_finished").filter_map(|event| event.get("call"));
            match ends.next() {
                // Calls whose end was not recorded come last.
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

impl RunObserver for Replay {
    fn begin(&self, beginning: RunStart<'_>) -> Result<()> {
        let mut state = lock(&self.state);
        if state.is_over {
            beginning.cancel.cancel();
        }
        state.cancel = Some(beginning.cancel);
        state.beyond.clear();
        state.divergence.clone().map_or(Ok(()), |divergence| Err(Error::other(divergence)))
    }

    fn model(
        self: Arc<Self>,
        call: ModelCall,
        _model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let failure = |divergence: Divergence| Err(ModelError::invalid(format!("the replay diverges: {divergence}")));
        match self.answer(&call, &Request::from(&request)) {
            // The recorded run abandoned this answer before its end.
            Ok(Some(answer)) if answer.broke_off() => Box::pin(stream::iter(answer.play()).chain(stream::pending())),
            Ok(Some(answer)) => Box::pin(stream::iter(answer.play())),
            Ok(None) => {
                let over = async move { failure(self.wait_for_end().await) };
                Box::pin(stream::once(over))
            }
            Err(divergence) => Box::pin(stream::iter([failure(self.diverge(divergence))])),
        }
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        Box::pin(async move {
            let id = request.id().clone();
            let ended = if self.tools == Tools::Live || self.recording.with_sub_agents.contains(&id.to_string()) {
                next.run(request).await
            } else {
                self.call(&request).await
            };
            if !matches!(ended, Err(Error::Interrupted(_))) {
                self.turn_of(&id).await?;
            }
            ended
        })
    }

    fn event(&self, event: &Event) {
        let Ok(value) = serde_json::to_value(event) else { return };
        let Some(compared) = Compared::from_event(&value) else { return };
        if is_later(kind(&value)) && !self.recording.events.iter().any(|event| kind(event) == kind(&value)) {
            return;
        }
        let mut state = lock(&self.state);
        if state.divergence.is_some() {
            return;
        }
        let path = event.path.to_vec();
        let found = state.compare(compared);
        if found == Ok(false) && !self.is_whole() {
            state.beyond.insert(event.seq);
        }
        drop(state);
        match found {
            Ok(false) if self.is_whole() => {
                self.diverge(Divergence::ExtraEvent { path, kind: kind(&value).to_owned() });
            }
            Ok(_) => self.end_if_over(),
            Err(divergence) => drop(self.diverge(divergence)),
        }
        self.changed.send_replace(());
    }
}
