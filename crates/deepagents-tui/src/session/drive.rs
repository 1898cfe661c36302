//! Drives a run: its events, its pending approvals and its end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use deepagents::core::error::Error;
use deepagents::core::interrupt::DecisionError;
use deepagents::core::message::ToolMessage;
use deepagents::fs::{Backend, ByteRange, VPath};
use deepagents::{ActionRequest, DecisionRecord, EventKind, FinishReason, Message, Outcome, RunError, RunInput, State};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::follower::LookFirst;
use super::hooks::decides;
use super::{Session, Shared, cost};
use crate::app::event::{Event, PendingApproval, RunEnd};
use crate::app::transcript::{Picture, pictures_of};
use crate::host::Connection;
use crate::view::LaidOut;

/// Maximum bytes of a file for which a pending approval shows the change.
const MAX_PREVIEW_BYTES: u64 = 1 << 20;
/// Shown when a decision arrives after somebody else has decided.
pub(crate) const ANSWERED: &str = "the question was answered in the other window; your answer came too late";

impl Session {
    /// Drives a run to its end, forwarding its events.
    pub(super) async fn drive(
        &self,
        connection: &Connection,
        mut input: RunInput,
        note: Map<String, Value>,
        job: CancellationToken,
    ) -> Event {
        let mut seen = BTreeSet::new();
        let (thread, number) = (self.thread(), self.with(|state| state.foreground));
        loop {
            let (result, cancelled) = self.drive_once(connection, input.note(note.clone()), &job, number).await;
            if let Some(thread) = thread.as_ref().filter(|_| !self.is_present(number)) {
                return self.background_ended(thread.clone(), result);
            }
            if let (Ok(outcome), false) = (&result, cancelled) {
                let questions = outcome.action_requests();
                let decided = self.decided_by_hooks(connection, &questions, &mut seen);
                let decided = tokio::select! {
                    decided = decided => decided,
                    () = job.cancelled() => Vec::new(),
                };
                if let (Some(thread), false) = (&outcome.thread, decided.is_empty()) {
                    input = resuming(thread, decided);
                    continue;
                }
            }
            return self.ended(connection, result, cancelled).await;
        }
    }

    /// Returns whether a run is in the foreground.
    fn is_present(&self, number: u64) -> bool {
        self.with(|state| state.foreground == number)
    }

    /// Runs once to the end or an interrupt. Returns the outcome and whether the run was cancelled.
    async fn drive_once(
        &self,
        connection: &Connection,
        input: RunInput,
        job: &CancellationToken,
        number: u64,
    ) -> (Result<Outcome, Box<RunError>>, bool) {
        let mut run = connection.agent.run(input);
        let handle = run.handle();
        self.with(|state| {
            for message in std::mem::take(&mut state.early) {
                handle.steer(message);
            }
            state.run = Some(handle);
        });
        let mut cancelled = false;
        let mut finished = BTreeSet::new();
        // The models of the agents, by path.
        let mut models: HashMap<Vec<String>, String> = HashMap::new();
        loop {
            let event = tokio::select! {
                biased;
                () = job.cancelled(), if !cancelled => {
                    cancelled = true;
                    run.interrupt();
                    continue;
                }
                event = run.next() => event,
            };
            let Some(event) = event else { break };
            if !self.is_present(number) {
                continue;
            }
            let mut paid = None;
            match &event.kind {
                // Hooks that may decide on the user's behalf are asked first.
                EventKind::ActionRequested { question } if !decides(connection) => {
                    self.emit(Event::ApprovalRequested(Box::new(preview(connection, (**question).clone()).await)));
                }
                EventKind::ToolFinished { id, error: false, .. } if event.path.is_empty() => {
                    finished.insert(id.clone());
                }
                EventKind::ModelStarted { model, .. } => {
                    models.insert(event.path.to_vec(), model.clone());
                    // A turn's tool results are in the state once the next model call starts.
                    if event.path.is_empty() && !finished.is_empty() {
                        let state = run.handle().snapshot().await.state;
                        self.show_pictures(pictures(&state, &std::mem::take(&mut finished)));
                    }
                }
                EventKind::ModelFinished { usage, .. } => {
                    let model = models.get(&*event.path).map(String::as_str);
                    let dollars = cost::of_answer(connection, &event.path, model, *usage);
                    paid = dollars.map(|dollars| (event.path.to_vec(), dollars));
                }
                _ => {}
            }
            let pictures = match &event.kind {
                EventKind::Steered { text } if event.path.is_empty() => self.with(|state| state.take_pictures(text)),
                _ => Vec::new(),
            };
            self.emit(Event::Run(Box::new(event)));
            self.show_pictures(pictures);
            if let Some((path, dollars)) = paid {
                self.emit(Event::Cost { path, dollars });
            }
        }
        let result = run.outcome().await;
        self.with(|state| {
            // A run that was sent to the background is no longer in the foreground.
            if state.foreground == number {
                state.run = None;
            }
        });
        (result, cancelled)
    }

    /// Reports how a run ended, with the pending approvals for the user.
    async fn ended(&self, connection: &Connection, result: Result<Outcome, Box<RunError>>, cancelled: bool) -> Event {
        let is_late = result.as_ref().is_err_and(|error| is_answered(&error.error));
        if let Some(thread) = self.thread() {
            // What the other window did to the thread has not been shown yet.
            self.follow(connection, thread, if is_late { LookFirst::Yes } else { LookFirst::No });
        }
        match result {
            Ok(outcome) => {
                self.with(|state| state.goal = None);
                let mut questions = Vec::new();
                for request in outcome.action_requests() {
                    self.asked(connection, &request);
                    questions.push(preview(connection, request).await);
                }
                Event::RunEnded(Box::new(RunEnd {
                    questions,
                    text: outcome.text(),
                    stop: Ok(outcome.stop),
                    unsent: None,
                    early: self.with(Shared::take_unsent),
                }))
            }
            // A failure caused by the cancellation counts as a cancellation.
            Err(_) if cancelled => RunEnd::without_outcome(Ok(FinishReason::Cancelled), None),
            Err(_) if is_late => RunEnd::without_outcome(Err(ANSWERED.to_owned()), None),
            Err(error) => RunEnd::without_outcome(Err(self.host.explain_failure(&error)), None),
        }
    }
}

/// Returns the input that resumes a run with these decisions.
pub(super) fn resuming(thread: &str, decided: Vec<(String, DecisionRecord)>) -> RunInput {
    decided.into_iter().fold(RunInput::resume(thread), |input, (id, decision)| input.decide(id, decision))
}

/// Returns whether a decision came too late because another program has decided.
fn is_answered(error: &Error) -> bool {
    matches!(error, Error::Answer(DecisionError::Unknown { .. } | DecisionError::Answered { .. }))
}

/// Returns the images in the results of these calls, which are the last results of the conversation.
fn pictures(state: &State, calls: &BTreeSet<String>) -> Vec<Picture> {
    let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
    // Messages added meanwhile follow the results.
    let recent = state.messages().iter().rev().skip_while(|message| !is_result(message)).take_while(is_result);
    let mut results: Vec<&ToolMessage> = recent
        .filter_map(|message| match &**message {
            Message::Tool(result) if calls.contains(&result.call_id) => Some(result),
            _ => None,
        })
        .collect();
    results.reverse();
    results.into_iter().flat_map(|result| pictures_of(&result.content)).collect()
}

/// Builds a pending approval, with the contents of the file that the call would change.
pub(super) async fn preview(connection: &Connection, request: ActionRequest) -> PendingApproval {
    let path = request.args.get("file_path").and_then(Value::as_str).and_then(|path| VPath::parse(path).ok());
    let file = match path.filter(|_| matches!(request.tool.as_str(), "write_file" | "edit_file")) {
        Some(path) => {
            let read = connection.files.read(&State::default(), &path, ByteRange::first(MAX_PREVIEW_BYTES)).await;
            read.ok().map(|read| String::from_utf8_lossy(&read.bytes).into_owned())
        }
        None => None,
    };
    let tool = connection.agent.definition().tools().iter().find(|tool| tool.name == request.tool).cloned();
    let tool = tool.filter(|_| request.agent.is_none());
    PendingApproval { tool, request, file, task: None, laid_out: LaidOut::default() }
}
