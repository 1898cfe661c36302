//! Runs: from a message to the end, with the questions between.

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

/// Bytes of a file that a question shows the change of.
const PREVIEW: u64 = 1 << 20;
/// What is said to who decides after somebody else has.
pub(crate) const ANSWERED: &str = "what was asked here was answered in the other window; your answer came too late";
/// Characters of the first message that a thread is called by.
const TITLE: usize = 80;

impl Session {
    /// Begins a run with a message.
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
        // What was undone is gone for good once something else is said.
        self.with(|state| state.undone.clear());
        let unsent = text.clone();
        self.spawn(async move {
            let begun = async {
                let mut connection = this.ready().await?;
                let is_offered = |skill: &String| connection.offered.iter().any(|offered| offered.name == *skill);
                if skills.iter().any(is_offered) {
                    // Who uses a skill by its name agrees to it, for this session.
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

    /// Goes on with a run that waits for these answers, or was left unfinished.
    pub(super) fn resume(&self, answers: Vec<(String, DecisionRecord)>, by_force: bool) {
        let (this, job) = (self.clone(), self.new_job());
        self.spawn(async move {
            let begun = async {
                let connection = this.ready().await?;
                let thread = this.thread().ok_or("there is no thread to go on with")?;
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

    /// Runs what comes of a beginning, unless it is cancelled before.
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

    /// The open thread, where it belongs to another process that lives.
    async fn owned(&self, connection: &Connection) -> Result<Option<String>, String> {
        let Some(thread) = self.thread() else { return Ok(None) };
        let info = connection.journal.threads().get(&thread).await.map_err(|error| error.to_string())?;
        Ok(info.is_some_and(|info| is_owned(self, &info)).then_some(thread))
    }

    /// The thread of a message and what it is to note; a new one is given its name.
    async fn begin_thread(&self, connection: &Connection, text: &str) -> Result<(String, Map<String, Value>), String> {
        let mut metadata = self.noted_now();
        metadata.insert("model".to_owned(), json!(connection.model));
        let thread = match self.thread() {
            Some(thread) => thread,
            None => {
                let id = self.host.new_thread(&*connection.journal).await?;
                // What is hidden in the message is hidden in its name too.
                let hidden = connection.agent.receive_text(text).map_err(|error| error.to_string())?;
                metadata.insert("title".to_owned(), json!(shorten(&hidden, TITLE)));
                self.with(|state| state.thread = Some(id.clone()));
                id
            }
        };
        let note = self.noted(connection, &thread, metadata).await?;
        Ok((thread, note))
    }

    /// What a thread notes that is worked on here, as things are now.
    pub(super) fn noted_now(&self) -> Map<String, Value> {
        self.host.metadata(self.policy.mode())
    }

    /// What a thread is to note once it is this process'.
    async fn noted(
        &self,
        connection: &Connection,
        thread: &str,
        metadata: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let threads = connection.journal.threads();
        // A thread stays that of the directory where it was begun.
        let known = threads.get(thread).await.map_err(|error| error.to_string())?;
        let has_root = known.is_some_and(|info| info.metadata.contains_key("root"));
        Ok(metadata.into_iter().filter(|(key, _)| !has_root || key != "root").collect())
    }

    /// Runs to the end, and says what happens on the way.
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

    /// Whether a run is the one in front.
    fn is_present(&self, number: u64) -> bool {
        self.with(|state| state.present == number)
    }

    /// One run to its end, and whether it was cancelled.
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
        // The models of sub-agents, by their paths.
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
            // Where hooks may decide in the person's place, they are asked first.
            if let EventKind::ActionRequested { question } = &event.kind
                && !decides(connection)
            {
                self.tell(Event::ApprovalRequested(Box::new(preview(connection, (**question).clone()).await)));
            }
            match &event.kind {
                EventKind::ToolFinished { id, error: false, .. } if event.path.is_empty() => {
                    finished.insert(id.clone());
                }
                // The results of a turn have joined the conversation when the model is asked about them.
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
            // One that was sent to the background is not the one in front any more.
            if state.present == number {
                state.run = None;
            }
        });
        (result, cancelled)
    }

    /// How a run ended, with the questions that are the person's.
    async fn ended(&self, connection: &Connection, result: Result<Outcome, Box<RunError>>, cancelled: bool) -> Event {
        let is_late = result.as_ref().is_err_and(|error| is_answered(&error.error));
        if let Some(thread) = self.thread() {
            // What the other window has made of it has not been shown.
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
        // What fails because it is ended was ended.
        if cancelled && end.stop.is_err() {
            end.stop = Ok(FinishReason::Cancelled);
        }
        Event::RunEnded(Box::new(end))
    }
}

/// Whether a decision comes too late, as another program has taken one.
fn is_answered(error: &Error) -> bool {
    matches!(error, Error::Answer(DecisionError::Unknown { .. } | DecisionError::Answered { .. }))
}

/// The pictures in the results of these calls, which are the last of the conversation.
fn pictures(state: &State, calls: &BTreeSet<String>) -> Vec<Picture> {
    let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
    // What was said meanwhile stands behind them.
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

/// The end of a run that did not begin.
fn not_begun(stop: Result<FinishReason, String>, unsent: Option<String>) -> Event {
    Event::RunEnded(Box::new(RunEnd { stop, questions: Vec::new(), text: String::new(), unsent }))
}

/// A question with the text of the file that it is about.
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

/// Whether another program works on a thread.
pub(super) fn is_owned(this: &Session, info: &ThreadInfo) -> bool {
    info.owner.is_some() && !this.host.is_gone(info)
}

const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Arc<Session>>();
};

/// What the tokens of a model cost, which events name with its provider.
pub(super) fn price_of(catalogue: &Catalogue, model: &str) -> Option<Price> {
    let name = model.split_once(':').map_or(model, |(_, name)| name);
    catalogue.lookup(name)?.price
}

fn worked_on(thread: &str) -> String {
    format!(
        "another program works on the thread {thread}; wait until it is done there, take it over with /takeover, or begin a \
         thread of your own with /new"
    )
}
