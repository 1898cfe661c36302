//! Runs, from a message to the end, with the approvals in between.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use deepagents::channels::{PinnedSkills, SkillPin};
use deepagents::core::error::Error;
use deepagents::core::interrupt::DecisionError;
use deepagents::core::journal::ThreadInfo;
use deepagents::core::message::ToolMessage;
use deepagents::core::model::Price;
use deepagents::fs::{Backend, ByteRange, VPath};
use deepagents::models::Catalogue;
use deepagents::{
    ActionRequest, DecisionRecord, EventKind, FinishReason, Message, Outcome, RunError, RunInput, State, Update,
};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Session;
use super::background::LookFirst;
use super::hooks::decides;
use crate::app::event::{Event, PendingApproval, RunEnd};
use crate::app::transcript::{Picture, pictures_of};
use crate::host::Connection;
use crate::text::shorten;

/// Maximum bytes of a file for which a pending approval shows the change.
const PREVIEW: u64 = 1 << 20;
/// Shown when a decision arrives after somebody else has decided.
pub(crate) const ANSWERED: &str = "the question was answered in the other window; your answer came too late";
/// Maximum characters of a thread's title, which is taken from its first message.
const TITLE: usize = 80;

impl Session {
    /// Starts a run with a message.
    pub(super) fn submit(
        &self,
        text: String,
        context: Vec<String>,
        skills: Vec<String>,
        decided: Vec<(ActionRequest, DecisionRecord)>,
    ) {
        if self.tell_background(&text) {
            return;
        }
        let (this, job) = (self.clone(), self.new_job());
        // Sending a message makes undone turns impossible to redo.
        self.with(|state| state.undone.clear());
        let unsent = text.clone();
        self.spawn(async move {
            let begun = async {
                let mut connection = this.ready().await?;
                let is_offered = |skill: &String| connection.offered.iter().any(|offered| offered.name == *skill);
                if skills.iter().any(is_offered) {
                    // Using a skill by name approves it for this session.
                    this.host.agree(Some(&skills)).await?;
                    this.connect(None);
                    connection = this.ready().await?;
                }
                if let Some(thread) = this.owned(&connection).await? {
                    return Err(worked_on(&thread));
                }
                this.catch_up(&connection).await?;
                let told = this.told_of(&connection, decided).await?;
                let (thread, note) = this.begin_thread(&connection, &text).await?;
                let message = this.message(&connection, text).await;
                let messages = told.into_iter().chain(context.into_iter().map(Message::harness)).chain([message]);
                let mut input = RunInput::messages(messages).thread(&thread);
                if !skills.is_empty() {
                    input = input.update(Update::new::<PinnedSkills>(SkillPin::Pin(skills)));
                }
                Ok::<_, String>((input, note, connection))
            };
            this.drive_when(begun, job, Some(unsent)).await
        });
    }

    /// Resumes a run that waits for these decisions or was left unfinished.
    pub(super) fn resume(&self, answers: Vec<(String, DecisionRecord)>, by_force: bool) {
        let (this, job) = (self.clone(), self.new_job());
        self.spawn(async move {
            let begun = async {
                let connection = this.ready().await?;
                let thread = this.thread().ok_or("there is no thread to resume")?;
                if !by_force && let Some(thread) = this.owned(&connection).await? {
                    return Err(if answers.is_empty() { worked_on(&thread) } else { ANSWERED.to_owned() });
                }
                let note = this.noted(&connection, &thread, this.noted_now()).await?;
                let input = answers
                    .into_iter()
                    .fold(RunInput::resume(&thread), |input, (id, decision)| input.decide(id, decision));
                Ok::<_, String>((if by_force { input.take_over() } else { input }, note, connection))
            };
            this.drive_when(begun, job, None).await
        });
    }

    /// Drives the run that `begun` prepares, unless it is cancelled first.
    async fn drive_when(
        &self,
        begun: impl Future<Output = Result<(RunInput, Map<String, Value>, Connection), String>> + Send,
        job: CancellationToken,
        unsent: Option<String>,
    ) -> Option<Event> {
        let stop = tokio::select! {
            begun = begun => match begun {
                Ok((input, note, connection)) => return Some(self.drive(&connection, input, note, job).await),
                Err(problem) => Err(problem),
            },
            () = job.cancelled() => Ok(FinishReason::Cancelled),
        };
        self.tell(not_begun(stop, unsent));
        self.follow_again();
        None
    }

    /// Returns the open thread if another live process owns it.
    async fn owned(&self, connection: &Connection) -> Result<Option<String>, String> {
        let Some(thread) = self.thread() else { return Ok(None) };
        let info = connection.journal.threads().get(&thread).await.map_err(|error| error.to_string())?;
        Ok(info.is_some_and(|info| is_owned(self, &info)).then_some(thread))
    }

    /// Returns the thread for a message, and the metadata that it shall record. Creates and titles a new thread if none
    /// is open.
    async fn begin_thread(&self, connection: &Connection, text: &str) -> Result<(String, Map<String, Value>), String> {
        let mut metadata = self.noted_now();
        metadata.insert("model".to_owned(), json!(connection.model));
        let thread = match self.thread() {
            Some(thread) => thread,
            None => {
                let id = self.host.new_thread(&*connection.journal).await?;
                // What the agent redacts in the message is redacted in the title too.
                let hidden = connection.agent.receive_text(text).map_err(|error| error.to_string())?;
                metadata.insert("title".to_owned(), json!(shorten(&hidden, TITLE)));
                self.with(|state| state.thread = Some(id.clone()));
                id
            }
        };
        let note = self.noted(connection, &thread, metadata).await?;
        Ok((thread, note))
    }

    /// Returns the metadata that a thread used here records, as of now.
    pub(super) fn noted_now(&self) -> Map<String, Value> {
        self.host.metadata(self.policy.mode())
    }

    /// Returns the metadata for a thread to record once this process owns it.
    async fn noted(
        &self,
        connection: &Connection,
        thread: &str,
        metadata: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let threads = connection.journal.threads();
        // A thread keeps the directory in which it was started.
        let known = threads.get(thread).await.map_err(|error| error.to_string())?;
        let has_root = known.is_some_and(|info| info.metadata.contains_key("root"));
        Ok(metadata.into_iter().filter(|(key, _)| !has_root || key != "root").collect())
    }

    /// Drives a run to its end, forwarding its events.
    async fn drive(
        &self,
        connection: &Connection,
        mut input: RunInput,
        note: Map<String, Value>,
        job: CancellationToken,
    ) -> Event {
        let mut seen = BTreeSet::new();
        let (thread, number) = (self.thread(), self.with(|state| state.present));
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
                    input = decided
                        .into_iter()
                        .fold(RunInput::resume(thread), |input, (id, decision)| input.decide(id, decision));
                    continue;
                }
            }
            return self.ended(connection, result, cancelled).await;
        }
    }

    /// Returns whether a run is in the foreground.
    fn is_present(&self, number: u64) -> bool {
        self.with(|state| state.present == number)
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
            for text in std::mem::take(&mut state.early) {
                handle.steer(text);
            }
            state.run = Some(handle);
        });
        let mut cancelled = false;
        let mut finished = BTreeSet::new();
        // The models of sub-agents by path.
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
            // Hooks that may decide on the user's behalf are asked first.
            if let EventKind::ActionRequested { question } = &event.kind
                && !decides(connection)
            {
                self.tell(Event::ApprovalRequested(Box::new(preview(connection, (**question).clone()).await)));
            }
            match &event.kind {
                EventKind::ToolFinished { id, error: false, .. } if event.path.is_empty() => {
                    finished.insert(id.clone());
                }
                // A turn's tool results are in the state once the next model call starts.
                EventKind::ModelStarted { .. } if event.path.is_empty() && !finished.is_empty() => {
                    let pictures = pictures(&run.handle().snapshot().await.state, &std::mem::take(&mut finished));
                    if !pictures.is_empty() {
                        self.tell(Event::Pictures(pictures));
                    }
                }
                _ => {}
            }
            let mut cost = None;
            match &event.kind {
                EventKind::ModelStarted { model, .. } if !event.path.is_empty() => {
                    models.insert(event.path.to_vec(), model.clone());
                }
                EventKind::ModelFinished { usage, .. } => {
                    let price = models.get(&*event.path).and_then(|model| price_of(&connection.catalogue, model));
                    cost = price.map(|price| (event.path.to_vec(), price.cost(*usage)));
                }
                _ => {}
            }
            self.tell(Event::Run(Box::new(event)));
            if let Some((path, dollars)) = cost {
                self.tell(Event::Cost { path, dollars });
            }
        }
        let result = run.outcome().await;
        self.with(|state| {
            // A run that was sent to the background is no longer in the foreground.
            if state.present == number {
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
        let mut end = match result {
            Ok(outcome) => {
                let mut questions = Vec::new();
                for request in outcome.action_requests() {
                    self.asked(connection, &request);
                    questions.push(preview(connection, request).await);
                }
                RunEnd { questions, text: outcome.text(), stop: Ok(outcome.stop), unsent: None }
            }
            Err(error) => RunEnd {
                stop: Err(if is_late { ANSWERED.to_owned() } else { self.host.explain_failure(&error) }),
                questions: Vec::new(),
                text: String::new(),
                unsent: None,
            },
        };
        // A failure caused by the cancellation counts as a cancellation.
        if cancelled && end.stop.is_err() {
            end.stop = Ok(FinishReason::Cancelled);
        }
        Event::RunEnded(Box::new(end))
    }
}

/// Returns whether a decision came too late because another program has decided.
fn is_answered(error: &Error) -> bool {
    matches!(error, Error::Answer(DecisionError::Unknown { .. } | DecisionError::Answered { .. }))
}

/// Returns the images in the results of these calls, which are the last results of the conversation.
fn pictures(state: &State, calls: &BTreeSet<String>) -> Vec<Picture> {
    let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
    // Messages sent in the meantime come after the results.
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

/// Builds the end event of a run that did not start.
fn not_begun(stop: Result<FinishReason, String>, unsent: Option<String>) -> Event {
    Event::RunEnded(Box::new(RunEnd { stop, questions: Vec::new(), text: String::new(), unsent }))
}

/// Builds a pending approval, with the contents of the file that the call would change.
pub(super) async fn preview(connection: &Connection, request: ActionRequest) -> PendingApproval {
    let path = matches!(request.tool.as_str(), "write_file" | "edit_file")
        .then(|| request.args.get("file_path").and_then(Value::as_str))
        .flatten();
    let file = match path.map(VPath::parse) {
        Some(Ok(path)) => {
            let read = connection.files.read(&State::default(), &path, ByteRange::first(PREVIEW)).await;
            read.ok().map(|read| String::from_utf8_lossy(&read.bytes).into_owned())
        }
        _ => None,
    };
    let tool = connection.agent.definition().tools().iter().find(|tool| tool.name == request.tool).cloned();
    PendingApproval { tool: tool.filter(|_| request.agent.is_none()), request, file, task: None }
}

/// Returns whether another program works on a thread.
pub(super) fn is_owned(this: &Session, info: &ThreadInfo) -> bool {
    info.owner.is_some() && !this.host.is_gone(info)
}

const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Arc<Session>>();
};

/// Returns the price of a model, which events name with its provider.
pub(super) fn price_of(catalogue: &Catalogue, model: &str) -> Option<Price> {
    let name = model.split_once(':').map_or(model, |(_, name)| name);
    catalogue.lookup(name)?.price
}

fn worked_on(thread: &str) -> String {
    format!(
        "another program is working on the thread {thread}; wait until it is done, take it over with /takeover, or begin a \
         thread of your own with /new"
    )
}
