//! Lists to choose from, previews of their entries, and operations on threads.

use std::time::{Duration, Instant};

use deepagents::Message;
use deepagents::core::message::Author;
use deepagents::core::run::interrupted_words;
use deepagents::models::credentials::Secret;
use serde_json::{Map, json};

use super::run::is_owned;
use super::threads::of_state;
use super::{Result, Session};
use crate::app::effect::ListOf;
use crate::app::event::{Choice, Choices, Event, Opened};
use crate::app::transcript::Item;
use crate::host::{Begin, Connection, Effort};
use crate::text::shorten;

/// How long a list may take before it is shown incomplete.
const LIST_DELAY: Duration = Duration::from_millis(300);
/// Maximum number of messages to rewind to.
const MAX_MESSAGES: usize = 40;
/// Maximum characters of an answer in a preview.
const MAX_ANSWER_CHARS: usize = 400;

impl Session {
    /// Loads a list to choose from.
    pub(super) fn list(&self, of: ListOf) {
        let number = self.with(|state| {
            state.listing += 1;
            state.listing
        });
        self.spawn(|this| async move {
            let rows = match of {
                ListOf::Threads => this.threads().await?,
                ListOf::Checkpoints => return this.list_checkpoints(number).await,
                ListOf::SubAgents => this.sub_agents().await?,
                ListOf::Models => {
                    let models = this.host.models().await.into_iter();
                    models.map(|(name, detail)| Choice::new(&name, &name, detail)).collect()
                }
                // The interface knows these lists already.
                ListOf::Efforts | ListOf::Themes | ListOf::Providers => return Ok(None),
            };
            Ok(Some(Event::Choose(Choices { of, rows })))
        });
    }

    /// Loads the messages to rewind to. Each takes a pass over the log, so a list that takes long is shown while it
    /// grows, unless another one was requested.
    async fn list_checkpoints(&self, number: u64) -> Result<Option<Event>> {
        let (began, mut is_shown) = (Instant::now(), false);
        let is_wanted = || self.with(|state| state.listing == number);
        let event = |rows: &[Choice], is_shown: bool| {
            let choices = Choices { of: ListOf::Checkpoints, rows: rows.to_vec() };
            if is_shown { Event::Refreshed(choices) } else { Event::Choose(choices) }
        };
        let show = |rows: &[Choice]| {
            if is_wanted() && began.elapsed() >= LIST_DELAY {
                self.emit(event(rows, std::mem::replace(&mut is_shown, true)));
            }
            is_wanted()
        };
        let rows = self.checkpoints(MAX_MESSAGES, show).await?;
        Ok(is_wanted().then(|| event(&rows, is_shown)))
    }

    /// Sets the reasoning effort and rebuilds the agent.
    pub(super) fn set_effort(&self, effort: Option<Effort>) {
        match self.host.set_effort(effort) {
            Ok(()) => {
                self.connect(None);
                self.emit(Event::EffortSet(effort));
            }
            Err(problem) => self.emit(Event::problem(problem)),
        }
    }

    /// Saves the key of a provider.
    pub(super) fn save_key(&self, provider: String, key: Secret) {
        self.spawn(|this| async move { Ok(Some(Event::KeySaved(this.host.save_key(&provider, key.expose()).await))) });
    }

    /// Loads the preview of the selected entry.
    pub(super) fn preview(&self, of: ListOf, key: String) {
        self.spawn(|this| async move {
            let items = match of {
                ListOf::Threads => this.thread_preview(&key).await,
                ListOf::Checkpoints => this.rewind_preview(key.parse()?).await,
                ListOf::Models | ListOf::Efforts | ListOf::Themes | ListOf::Providers | ListOf::SubAgents => {
                    return Ok(None);
                }
            };
            let items = items.unwrap_or_else(|problem| vec![Item::Note { text: problem.to_string(), bad: true }]);
            Ok(Some(Event::Previewed { of, key, items }))
        });
    }

    /// Returns the last message and the last answer of a thread.
    async fn thread_preview(&self, id: &str) -> Result<Vec<Item>> {
        let connection = self.connection().await?;
        let state = connection.agent.state(id).await?;
        let messages = state.messages();
        let said = messages.iter().rev().find(|message| is_human(message));
        let answered =
            messages.iter().rev().find(|message| message.as_assistant().is_some() && !message.text().trim().is_empty());
        let mut items: Vec<Item> = said.map(|message| Item::User(shorten(&message.text(), 200))).into_iter().collect();
        items.extend(answered.map(|message| {
            let text = message.text();
            Item::Answer(interrupted_words(&text).unwrap_or(&text).chars().take(MAX_ANSWER_CHARS).collect())
        }));
        Ok(items)
    }

    pub(super) fn delete_thread(&self, id: String) {
        self.spawn(|this| async move {
            this.delete(&id).await?;
            this.refreshed().await
        });
    }

    async fn delete(&self, id: &str) -> Result<()> {
        if self.thread().as_deref() == Some(id) {
            return Err("this thread is open; leave it first with /new".into());
        }
        let connection = self.connection().await?;
        let threads = connection.journal.threads();
        if threads.get(id).await?.is_some_and(|info| is_owned(self, &info)) {
            return Err("another program is working on this thread; it is not deleted".into());
        }
        threads.delete(id).await?;
        Ok(())
    }

    pub(super) fn rename_thread(&self, id: String, title: String) {
        self.spawn(|this| async move {
            let connection = this.connection().await?;
            let metadata = Map::from_iter([("title".to_owned(), json!(shorten(&title, 80)))]);
            connection.journal.threads().set_metadata(&id, metadata).await?;
            this.refreshed().await
        });
    }

    async fn refreshed(&self) -> Result<Option<Event>> {
        Ok(Some(Event::Refreshed(Choices { of: ListOf::Threads, rows: self.threads().await? })))
    }

    /// Copies a thread and opens the copy.
    pub(super) fn fork_thread(&self, id: String) {
        self.spawn_opening(|this| async move { this.forked(&id).await });
    }

    async fn forked(&self, id: &str) -> Result<Opened> {
        let connection = self.connection().await?;
        let copy = self.host.new_thread(&*connection.journal).await?;
        let threads = connection.journal.threads();
        threads.copy(id, &copy, None).await?;
        let mut metadata = self.current_metadata();
        metadata.insert("forked_from".to_owned(), json!(id));
        threads.set_metadata(&copy, metadata).await?;
        self.host.adopt(&connection, &copy).await?;
        let mut opened = self.opened(&Begin::Resume(copy)).await?;
        opened.note.get_or_insert_with(|| "this is a copy; messages here do not change the other thread".to_owned());
        Ok(opened)
    }

    /// Returns the conversation of the open thread as it is now.
    pub(super) async fn present(&self, connection: &Connection) -> Result<Opened> {
        let thread = self.thread().ok_or("there is no thread")?;
        let state = connection.agent.state(&thread).await?;
        Ok(Opened { thread: Some(thread), ..of_state(&state) })
    }
}

/// Returns whether a message is the user's, and not one that the harness adds.
pub(super) fn is_human(message: &Message) -> bool {
    message.as_user().is_some_and(|user| user.author == Author::Human)
}
