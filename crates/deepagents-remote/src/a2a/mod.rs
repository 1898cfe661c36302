//! Agent2Agent, versions 0.3 and 1.0: JSON-RPC over HTTP, with a stream of events if the agent supports it.
//!
//! A piece of work is a remote task. The protocol has no way to find a task whose id was never received, so the log
//! records a message before it is sent. After a crash, a message in doubt is sent again to agents that accept a message
//! at most once (the extension [`ONCE`], which `deepagents serve` supports). For other agents, it is an error.

mod card;
mod rpc;
mod task;
mod version;

use deepagents_core::message::Usage;
use deepagents_core::tool::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::agent::{Work, WorkError};
use crate::error::RemoteError;
use crate::http::{Failure, Http, Polling};
use crate::progress::usage_of;
use crate::questions::{self, RemoteInterrupt};
use crate::sse::{SseReader, TooLong};
use card::Card;
use task::{Part, State, View};
use version::{Operation, Version};

/// The extension of agents that accept a message id at most once, however often it is sent.
pub(crate) const ONCE: &str = "urn:deepagents:a2a:message-once";

const INTERRUPTS_KEY: &str = "pauses";
const TASK: &str = "task";
const SENDING: &str = "sending";
const CHARGED: &str = "charged";

/// An A2A agent.
pub(crate) struct A2a {
    http: Http,
    assistant: Option<String>,
    card: OnceCell<Card>,
}

/// The task, as recorded in the local log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnownTask {
    id: String,
    context: String,
    /// The number of messages that the task has received.
    received: usize,
}

impl A2a {
    pub(crate) fn new(http: Http, assistant: Option<String>) -> Self {
        Self { http, assistant, card: OnceCell::new() }
    }

    async fn card(&self) -> Result<&Card, RemoteError> {
        self.card.get_or_try_init(|| Card::fetch(&self.http, self.assistant.as_deref())).await
    }

    /// Does the work and returns the agent's result.
    pub(crate) async fn work(&self, work: &Work<'_>) -> Result<String, WorkError> {
        let scope = work.scope;
        let mut pauses: Vec<Vec<RemoteInterrupt>> = work.recorded(INTERRUPTS_KEY).unwrap_or_default();
        let mut part = Part::Text(work.description.to_owned());
        for asked in &pauses {
            part = self.answered(work, asked).await?;
        }
        let mut view = View::default();
        loop {
            let round = pauses.len();
            self.deliver(work, round, &part, &mut view).await?;
            self.follow(work, &mut view).await?;
            self.charge_usage(work, &view).await?;
            match view.state {
                State::Completed => return Ok(view.result()),
                State::Asks => {
                    let asked = view.pauses();
                    pauses.push(asked.clone());
                    scope.record(INTERRUPTS_KEY, json!(pauses)).await?;
                    part = self.answered(work, &asked).await?;
                }
                _ => return Err(view.error(&self.http.host).into()),
            }
        }
    }

    async fn answered(&self, work: &Work<'_>, asked: &[RemoteInterrupt]) -> Result<Part, WorkError> {
        let (answers, resume) = work.ask(asked).await?;
        if asked.iter().any(|pause| pause.decisions || pause.id.is_some()) {
            return Ok(Part::Data(json!({"resume": resume})));
        }
        let words: Vec<String> = answers.iter().flatten().map(questions::decision_text).collect();
        Ok(Part::Text(words.join("\n")))
    }

    /// Sends the message of a round, unless it was received already, and reads the immediate response.
    async fn deliver(&self, work: &Work<'_>, round: usize, part: &Part, view: &mut View) -> Result<(), WorkError> {
        let scope = work.scope;
        let known: Option<KnownTask> = work.recorded(TASK);
        if known.as_ref().is_some_and(|known| known.received > round) {
            return Ok(());
        }
        let card = self.card().await?;
        let mut in_doubt = scope.recorded(SENDING).is_some_and(|sending| sending == json!(round));
        if !in_doubt {
            if work.continues && round == 0 {
                self.cancel_earlier(work, card).await;
            }
            scope.record(SENDING, round).await?;
        }
        scope.begin_model_call().map_err(ToolError::from)?;
        let message = task::message(card.version, work, round, part, known.as_ref());
        let mut tries = self.http.tries();
        loop {
            if in_doubt && !card.takes_once {
                match &known {
                    // If the task no longer asks, or asks something else, it has received the answer.
                    Some(known) if self.has_moved(work, known, view).await? => {
                        return Ok(self.note(work, view, round).await?);
                    }
                    Some(_) => {}
                    None => return Err(RemoteError::InDoubt { host: self.http.host.clone() }.into()),
                }
            }
            view.begin_round();
            match self.send(card, &message, work, view).await {
                Err(ReadError::Local(error)) => return Err(error.into()),
                // If the response contains a task, the task has started.
                Err(ReadError::Failure(failure)) if view.id.is_none() => {
                    in_doubt = true;
                    tries.again(failure).await?;
                }
                _ => return Ok(self.note(work, view, round).await?),
            }
        }
    }

    async fn note(&self, work: &Work<'_>, view: &View, round: usize) -> Result<(), ToolError> {
        if let Some(id) = &view.id {
            let context = view.context.clone().unwrap_or_else(|| work.conversation.clone());
            let known = KnownTask { id: id.clone(), context, received: round + 1 };
            work.scope.record(TASK, json!(known)).await?;
        }
        Ok(())
    }

    /// Returns whether a task has moved past the question last recorded for it.
    async fn has_moved(&self, work: &Work<'_>, known: &KnownTask, view: &mut View) -> Result<bool, WorkError> {
        let asked: Vec<Vec<RemoteInterrupt>> = work.recorded(INTERRUPTS_KEY).unwrap_or_default();
        self.refresh(work, known, view).await?;
        Ok(!matches!(view.state, State::Asks) || asked.last() != Some(&view.pauses()))
    }

    /// Sends a message once, as a stream if the agent supports it.
    async fn send(&self, card: &Card, message: &Value, work: &Work<'_>, view: &mut View) -> Result<(), ReadError> {
        let params = card.version.sent(message);
        if !card.streaming {
            let result = rpc::call(card, Operation::Send, params).await?;
            view.take(&result, work.scope);
            return Ok(());
        }
        self.read_stream(card, Operation::SendAndStream, params, work, view).await
    }

    /// Reads a stream to its end, or until the task ends or asks.
    async fn read_stream(
        &self,
        card: &Card,
        operation: Operation,
        params: Value,
        work: &Work<'_>,
        view: &mut View,
    ) -> Result<(), ReadError> {
        let mut body = rpc::stream(card, operation, params).await?;
        let mut reader = SseReader::default();
        if let Some(text) = body.whole.take() {
            view.take(&rpc::read(card, operation, &text)?, work.scope);
            return Ok(());
        }
        let unreadable = |error: TooLong| Failure::Final(self.http.unreadable(card.version.method(operation), &error));
        while let Some(bytes) = body.next().await {
            for event in reader.push(&bytes).map_err(unreadable)? {
                view.take(&rpc::read(card, operation, &event.data)?, work.scope);
                if view.id.is_some() && work.recorded::<KnownTask>(TASK).is_none() {
                    // With its id recorded, the task can be found again.
                    self.note(work, view, 0).await?;
                }
            }
            if !view.state.is_open() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until the task ends or asks, reconnecting as needed.
    async fn follow(&self, work: &Work<'_>, view: &mut View) -> Result<(), WorkError> {
        let card = self.card().await?;
        let (mut tries, mut polling, mut resubscribes) = (self.http.tries(), Polling::new(), card.streaming);
        loop {
            let Some(known) = work.recorded::<KnownTask>(TASK) else {
                // The agent answered with a message instead of a task.
                return Ok(());
            };
            if view.state.is_open() || !view.is_whole {
                self.refresh(work, &known, view).await?;
            }
            if !view.state.is_open() {
                return Ok(());
            }
            if !resubscribes {
                polling.pause().await;
                continue;
            }
            let params = card.version.task(&known.id, &known.context);
            match self.read_stream(card, Operation::Subscribe, params, work, view).await {
                Ok(()) => {
                    // The server responds, even if its stream ends early.
                    tries.progressed();
                    if view.state.is_open() {
                        polling.pause().await;
                    }
                }
                Err(ReadError::Failure(Failure::Final(_))) => resubscribes = false,
                Err(ReadError::Failure(failure)) => tries.again(failure).await?,
                Err(ReadError::Local(error)) => return Err(error.into()),
            }
            view.is_whole = false;
        }
    }

    /// Fetches the current state of the task.
    async fn refresh(&self, work: &Work<'_>, known: &KnownTask, view: &mut View) -> Result<(), WorkError> {
        let card = self.card().await?;
        let params = card.version.task(&known.id, &known.context);
        let mut tries = self.http.tries();
        loop {
            match rpc::call(card, Operation::Get, params.clone()).await {
                Ok(result) => {
                    view.take(&result, work.scope);
                    view.is_whole = true;
                    return Ok(());
                }
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    /// Charges the usage that the task reports.
    async fn charge_usage(&self, work: &Work<'_>, view: &View) -> Result<(), WorkError> {
        let usage = view.metadata.as_ref().map(|metadata| usage_of(&json!({"usage_metadata": metadata.get("usage")})));
        let total = usage.unwrap_or_default();
        let charged: Usage = work.recorded(CHARGED).unwrap_or_default();
        let charged = crate::progress::most(charged, work.scope.spent().usage);
        let new = crate::progress::subtract(total, charged);
        if new != Usage::default() {
            work.scope.charge(new, 0.0).await?;
            work.scope.record(CHARGED, json!(total)).await?;
        }
        Ok(())
    }

    /// Cancels the tasks of earlier calls in the conversation, if the agent can list them.
    async fn cancel_earlier(&self, work: &Work<'_>, card: &Card) {
        // Version 0.3 has no such list.
        if card.version == Version::V0_3 {
            return;
        }
        // What is left is among the newest tasks, and servers may read each one in full.
        let params = json!({"contextId": work.conversation, "pageSize": 10});
        let Ok(listed) = rpc::call(card, Operation::List, params).await else { return };
        for task in listed.get("tasks").and_then(Value::as_array).into_iter().flatten() {
            // Servers may ignore the filter.
            let is_of_conversation = task.get("contextId").and_then(Value::as_str) == Some(work.conversation.as_str());
            if let Some(id) = task.get("id").and_then(Value::as_str)
                && is_of_conversation
                && State::of(task).is_open()
            {
                // If the task has ended meanwhile, the agent returns an error.
                let _ = rpc::call(card, Operation::Cancel, card.version.task(id, &work.conversation)).await;
            }
        }
    }

    /// Cancels the task.
    pub(crate) async fn cancel(&self, work: &Work<'_>) -> Option<()> {
        let card = self.card().await.ok()?;
        let known: Option<KnownTask> = work.recorded(TASK);
        let id = match known {
            Some(known) => known.id,
            // If the response to the message has not arrived, the message is sent again to learn the task's id.
            None if card.takes_once && work.scope.recorded(SENDING).is_some() => {
                let part = Part::Text(work.description.to_owned());
                let message = task::message(card.version, work, 0, &part, None);
                let result = rpc::call(card, Operation::Send, card.version.sent(&message)).await.ok()?;
                version::unwrap_result(&result).1.get("id")?.as_str()?.to_owned()
            }
            None => return None,
        };
        let params = card.version.task(&id, &work.conversation);
        rpc::call(card, Operation::Cancel, params).await.ok().map(drop)
    }
}

/// Why a single attempt to read results stopped. The caller decides whether to retry.
enum ReadError {
    Failure(Failure),
    /// The local log cannot be written.
    Local(ToolError),
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<ToolError> for ReadError {
    fn from(error: ToolError) -> Self {
        Self::Local(error)
    }
}

/// Returns the id of a message, which is the same each time the message is sent.
fn message_id(work: &Work<'_>, round: usize) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{}#{round}", work.key).as_bytes()).to_string()
}
