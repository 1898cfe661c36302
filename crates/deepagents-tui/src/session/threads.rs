//! Threads: opening them, going back in them, compacting them.

use deepagents::channels::Todos;
use deepagents::core::interrupt::ActionRequests;
use deepagents::core::journal::{CheckpointSource, RunStatus, ThreadInfo, ThreadQuery};
use deepagents::core::message::Author;
use deepagents::fs::OnConflict;
use deepagents::rewind::Rewind;
use deepagents::{EventKind, Message, State, Usage};
use futures_util::TryStreamExt;
use serde_json::Value;

use super::Session;
use super::run::{is_owned, preview};
use crate::app::event::{Choice, Choices, Event, ListOf, Opened};
use crate::app::transcript::items_of;
use crate::host::{Begin, Connection};
use crate::text::shorten;

/// Threads that are listed.
const THREADS: usize = 200;
/// Checkpoints that are looked through for messages.
const CHECKPOINTS: usize = 2_000;
/// Messages that can be gone back to.
const MESSAGES: usize = 40;

impl Session {
    pub(super) fn list_threads(&self) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Choose(this.threads().await)) });
    }

    async fn threads(&self) -> Result<Choices, String> {
        let connection = self.connection().await?;
        let metadata = self.host.metadata();
        let root = metadata.get("root").cloned().unwrap_or_default();
        let query = ThreadQuery::default().metadata("root", root).limit(THREADS);
        let found = connection.journal.threads().list(&query).await.map_err(|error| error.to_string())?;
        let present = self.thread();
        let rows = found.into_iter().filter(|info| info.damage.is_none()).map(|info| {
            let title = info.metadata.get("title").and_then(Value::as_str).unwrap_or("(untitled)").to_owned();
            let here = if present.as_ref() == Some(&info.id) { " · this one" } else { "" };
            let state = match info.status {
                RunStatus::Interrupted => " · waits for a decision",
                RunStatus::Open => " · unfinished",
                _ => "",
            };
            let when = info.updated_at.to_string();
            let when = when.get(..16).unwrap_or(&when).replace('T', " ");
            Choice { key: info.id.clone(), label: title, detail: format!("{when}{state}{here}") }
        });
        Ok(Choices { of: ListOf::Threads, rows: rows.collect() })
    }

    pub(super) fn list_models(&self) {
        let rows =
            self.host.models().into_iter().map(|(name, detail)| Choice { key: name.clone(), label: name, detail });
        self.tell(Event::Choose(Ok(Choices { of: ListOf::Models, rows: rows.collect() })));
    }

    pub(super) fn open(&self, id: String) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Opened(this.opened(&Begin::Resume(id)).await.map(Box::new))) });
    }

    /// Opens the thread to begin with.
    pub(crate) fn begin(&self, begin: Begin) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Opened(this.opened(&begin).await.map(Box::new))) });
    }

    async fn opened(&self, begin: &Begin) -> Result<Opened, String> {
        let connection = self.connection().await?;
        let info = match begin {
            Begin::New => return Ok(Opened::default()),
            Begin::Resume(id) => self.host.find_thread(&*connection.journal, id).await?,
            Begin::Continue => {
                let root = self.host.metadata().get("root").cloned().unwrap_or_default();
                let query = ThreadQuery::default().metadata("root", root).limit(1);
                let found = connection.journal.threads().list(&query).await.map_err(|error| error.to_string())?;
                found.into_iter().next().ok_or("there is no thread of this directory yet")?
            }
        };
        let state = connection.agent.state(&info.id).await.map_err(|error| error.to_string())?;
        if self.thread().is_some_and(|open| open != info.id) {
            self.leave("resume");
        }
        self.with(|shared| shared.thread = Some(info.id.clone()));
        let note = self.unfinished(&connection, &info, &state);
        let mut opened = of_state(&state);
        opened.thread = Some(info.id.clone());
        opened.note = note;
        let waits = matches!(info.status, RunStatus::Interrupted | RunStatus::Open) && !is_owned(self, &info);
        let asked = state.get::<ActionRequests>().filter(|_| waits);
        if is_owned(self, &info) {
            self.watch(&connection, &info);
        }
        for review in asked.into_iter().flat_map(|asked| asked.values()).filter(|review| review.decision.is_none()) {
            opened.questions.push(preview(&connection, review.request.clone()).await);
        }
        Ok(opened)
    }

    /// Shows what another program does with the open thread, step by step, until it is done there.
    fn watch(&self, connection: &Connection, info: &ThreadInfo) {
        let (this, connection, thread, from) = (self.clone(), connection.clone(), info.id.clone(), info.end);
        self.spawn(async move {
            let mut events = std::pin::pin!(connection.agent.threads().ok()?.watch(&thread, from));
            loop {
                let event = events.try_next().await.ok()??;
                let is_step = matches!(event.kind, EventKind::ModelFinished { .. } | EventKind::ToolFinished { .. });
                let ended = event.path.is_empty() && event.kind.is_end();
                if this.thread().as_ref() != Some(&thread) || this.is_running() {
                    return None;
                }
                if !(ended || is_step && event.path.is_empty()) {
                    continue;
                }
                let state = connection.agent.state(&thread).await.ok()?;
                let mut opened = of_state(&state);
                opened.thread = Some(thread.clone());
                if ended {
                    opened.note = Some("the other program is done with its turn".to_owned());
                    return Some(Event::Watched(Box::new(opened)));
                }
                this.tell(Event::Watched(Box::new(opened)));
            }
        });
    }

    /// What is said about a run that did not end.
    fn unfinished(&self, _connection: &Connection, info: &ThreadInfo, state: &State) -> Option<String> {
        if is_owned(self, info) {
            return Some("another program works on this thread; it is shown as it goes on".to_owned());
        }
        let open = open_calls(state);
        match info.status {
            RunStatus::Open | RunStatus::Failed if !open.is_empty() => Some(format!(
                "the last run was cut off during {}: whether that had an effect is not known, and it is not done again \
                 by itself. Say how to go on, or /resume",
                open.join(", ")
            )),
            RunStatus::Open => {
                Some("the last run was cut off; say how to go on, or /resume to let it go on".to_owned())
            }
            _ => None,
        }
    }

    pub(super) fn list_checkpoints(&self) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Choose(this.checkpoints().await)) });
    }

    /// The messages that can be gone back to, newest first, each with the position before it.
    async fn checkpoints(&self) -> Result<Choices, String> {
        let mut rows = Vec::new();
        let Some(thread) = self.thread() else { return Ok(Choices { of: ListOf::Checkpoints, rows }) };
        let connection = self.connection().await?;
        let history = connection.agent.history(&thread, None, CHECKPOINTS).await.map_err(|error| error.to_string())?;
        let at = |position: u64| history.iter().find(|checkpoint| checkpoint.position == position);
        // The branch that the thread is on, from its end back: others were left by going back.
        let mut next = history.first();
        while let Some(checkpoint) = next {
            next = checkpoint.parent.and_then(at);
            if checkpoint.origin != CheckpointSource::Input {
                continue;
            }
            let state =
                connection.agent.state_at(&thread, checkpoint.position).await.map_err(|error| error.to_string())?;
            let human = |message: &Message| message.as_user().is_some_and(|user| user.author == Author::Human);
            if let Some(message) = state.messages().iter().rev().find(|message| human(message)) {
                let text = message.text();
                let key = checkpoint.parent.unwrap_or(0).to_string();
                rows.push(Choice { key, label: shorten(&text, 200), detail: text });
            }
            if rows.len() >= MESSAGES {
                break;
            }
        }
        Ok(Choices { of: ListOf::Checkpoints, rows })
    }

    pub(super) fn rewind(&self, position: u64, text: String, files: bool) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Opened(this.rewound(position, text, files).await.map(Box::new))) });
    }

    async fn rewound(&self, position: u64, text: String, files: bool) -> Result<Opened, String> {
        let connection = self.connection().await?;
        let thread = self.thread().ok_or("there is no thread")?;
        let agent = &connection.agent;
        let mut notes = Vec::new();
        if files {
            let back = Rewind::new(agent, &connection.files, thread.as_str(), position);
            let plan = back.plan().await.map_err(|error| error.to_string())?;
            let done = back.apply(&plan, OnConflict::Skip).await.map_err(|error| error.to_string())?;
            let names =
                |paths: &[deepagents::fs::VPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            if !done.restored.is_empty() {
                notes.push(format!("put back: {}", names(&done.restored)));
            }
            if !done.skipped.is_empty() {
                notes.push(format!("kept, since somebody else has changed them: {}", names(&done.skipped)));
            }
            if done.commands > 0 {
                notes.push(format!("what {} did stays", crate::text::count(done.commands, "command")));
            }
        } else {
            agent.rewind(&thread, position).await.map_err(|error| error.to_string())?;
        }
        let state = agent.state(&thread).await.map_err(|error| error.to_string())?;
        let mut opened = of_state(&state);
        opened.thread = Some(thread);
        notes.insert(0, "went back".to_owned());
        opened.note = Some(notes.join("; "));
        opened.input = Some(text);
        Ok(opened)
    }

    pub(super) fn compact(&self) {
        let (this, job) = (self.clone(), self.new_job());
        self.spawn(async move {
            let compacted = async {
                let connection = this.connection().await?;
                let Some(thread) = this.thread() else { return Ok("there is nothing to compact yet".to_owned()) };
                match connection.agent.compact(&thread).await {
                    Ok(Some(count)) => {
                        Ok(format!("{} became a summary for the model", crate::text::count(count, "message")))
                    }
                    Ok(None) => Ok("there is nothing to compact".to_owned()),
                    Err(error) => Err(format!("the conversation was not compacted: {error}")),
                }
            };
            let result = tokio::select! {
                result = compacted => result,
                () = job.cancelled() => Err("interrupted; the conversation was not compacted".to_owned()),
            };
            Some(Event::Compacted(result))
        });
    }
}

/// A thread's conversation as it is shown.
fn of_state(state: &State) -> Opened {
    let mut usage = Usage::default();
    let mut context = 0;
    for answer in state.messages().iter().filter_map(|message| message.as_assistant()) {
        if let Some(spent) = answer.usage {
            usage += spent;
            context = spent.total();
        }
    }
    Opened {
        items: items_of(state.messages().iter().map(|message| &**message)),
        todos: state.get::<Todos>().cloned().unwrap_or_default(),
        usage,
        context,
        ..Opened::default()
    }
}

/// Calls of the last answer that have no result, as people read them.
fn open_calls(state: &State) -> Vec<String> {
    let messages = state.messages();
    let Some(at) = messages.last_assistant() else { return Vec::new() };
    let answered: Vec<String> =
        messages.tail(at).filter_map(|message| message.as_tool()).map(|result| result.call_id.clone()).collect();
    let answer = messages.get(at).and_then(|message| message.as_assistant());
    let calls = answer.into_iter().flat_map(|answer| answer.tool_calls());
    calls
        .filter(|call| !answered.contains(&call.id))
        .map(|call| format!("`{}`", crate::view::call_title(&call.name, &call.args)))
        .collect()
}
