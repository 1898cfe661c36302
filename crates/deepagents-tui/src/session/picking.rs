//! Lists to choose from, previews of their entries, and operations on threads.

use deepagents::core::message::Author;
use deepagents::core::run::interrupted_words;
use serde_json::{Map, json};

use super::Session;
use super::run::is_owned;
use super::threads::of_state;
use crate::app::effect::{ListOf, Secret};
use crate::app::event::{Choice, Choices, Event};
use crate::app::transcript::Item;
use crate::host::{Begin, Effort};
use crate::text::shorten;

/// Maximum characters of an answer in a preview.
const MAX_ANSWER_CHARS: usize = 400;

impl Session {
    pub(super) fn list_models(&self) {
        let this = self.clone();
        self.spawn(async move {
            let models = this.host.models().await;
            let rows = models.into_iter().map(|(name, detail)| Choice { key: name.clone(), label: name, detail });
            Some(Event::Choose(Ok(Choices { of: ListOf::Models, rows: rows.collect() })))
        });
    }

    /// Sets the reasoning effort and rebuilds the agent.
    pub(super) fn set_effort(&self, effort: Option<Effort>) {
        let set = self.host.set_effort(effort).map(|()| effort);
        if set.is_ok() {
            self.connect(None);
        }
        self.emit(Event::EffortSet(set));
    }

    /// Saves the key of a provider.
    pub(super) fn save_key(&self, provider: String, key: Secret) {
        let this = self.clone();
        self.spawn(async move { Some(Event::KeySaved(this.host.save_key(&provider, &key.0).await)) });
    }

    /// Loads the preview of the selected entry.
    pub(super) fn preview(&self, of: ListOf, key: String) {
        let this = self.clone();
        self.spawn(async move {
            let items = match of {
                ListOf::Threads => this.thread_preview(&key).await,
                ListOf::Checkpoints => this.rewind_preview(key.parse().ok()?).await,
                ListOf::Models | ListOf::Efforts | ListOf::Themes | ListOf::Providers | ListOf::SubAgents => {
                    return None;
                }
            };
            let items = items.unwrap_or_else(|problem| vec![Item::Note { text: problem, bad: true }]);
            Some(Event::Previewed { of, key, items })
        });
    }

    /// Returns the last message and the last answer of a thread.
    async fn thread_preview(&self, id: &str) -> Result<Vec<Item>, String> {
        let connection = self.connection().await?;
        let state = connection.agent.state(id).await.map_err(|error| error.to_string())?;
        let messages = state.messages();
        let said =
            messages.iter().rev().find(|message| message.as_user().is_some_and(|user| user.author == Author::Human));
        let answered =
            messages.iter().rev().find(|message| message.as_assistant().is_some() && !message.text().trim().is_empty());
        let mut items: Vec<Item> = said.map(|message| Item::User(shorten(&message.text(), 200))).into_iter().collect();
        items.extend(answered.map(|message| {
            let text = message.text();
            let text: String = interrupted_words(&text).unwrap_or(&text).chars().take(MAX_ANSWER_CHARS).collect();
            Item::Answer(text)
        }));
        Ok(items)
    }

    pub(super) fn delete_thread(&self, id: String) {
        let this = self.clone();
        self.spawn(async move {
            let deleted = this.delete(&id).await;
            if let Err(problem) = deleted {
                return Some(Event::Notice { text: problem, bad: true });
            }
            this.refreshed().await
        });
    }

    async fn delete(&self, id: &str) -> Result<(), String> {
        if self.thread().as_deref() == Some(id) {
            return Err("this thread is open; leave it first with /new".to_owned());
        }
        let connection = self.connection().await?;
        let threads = connection.journal.threads();
        let info = threads.get(id).await.map_err(|error| error.to_string())?;
        if info.is_some_and(|info| is_owned(self, &info)) {
            return Err("another program is working on this thread; it is not deleted".to_owned());
        }
        threads.delete(id).await.map_err(|error| error.to_string())?;
        Ok(())
    }

    pub(super) fn rename_thread(&self, id: String, title: String) {
        let this = self.clone();
        self.spawn(async move {
            let renamed = async {
                let connection = this.connection().await?;
                let metadata = Map::from_iter([("title".to_owned(), json!(shorten(&title, 80)))]);
                let set = connection.journal.threads().set_metadata(&id, metadata).await;
                set.map_err(|error| error.to_string())
            };
            match renamed.await {
                Ok(()) => this.refreshed().await,
                Err(problem) => Some(Event::Notice { text: problem, bad: true }),
            }
        });
    }

    async fn refreshed(&self) -> Option<Event> {
        match self.threads().await {
            Ok(choices) => Some(Event::Refreshed(choices)),
            Err(problem) => Some(Event::Notice { text: problem, bad: true }),
        }
    }

    /// Copies a thread and opens the copy.
    pub(super) fn fork_thread(&self, id: String) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Opened(this.forked(&id).await.map(Box::new))) });
    }

    async fn forked(&self, id: &str) -> Result<crate::app::event::Opened, String> {
        let connection = self.connection().await?;
        let copy = self.host.new_thread(&*connection.journal).await?;
        let threads = connection.journal.threads();
        threads.copy(id, &copy, None).await.map_err(|error| error.to_string())?;
        let mut metadata = self.current_metadata();
        metadata.insert("forked_from".to_owned(), json!(id));
        threads.set_metadata(&copy, metadata).await.map_err(|error| error.to_string())?;
        self.host.adopt(&connection, &copy).await?;
        let mut opened = self.opened(&Begin::Resume(copy)).await?;
        opened.note.get_or_insert_with(|| "this is a copy; messages here do not change the other thread".to_owned());
        Ok(opened)
    }

    /// Returns the conversation of the open thread as it is now.
    pub(super) async fn present(
        &self,
        connection: &crate::host::Connection,
    ) -> Result<crate::app::event::Opened, String> {
        let thread = self.thread().ok_or("there is no thread")?;
        let state = connection.agent.state(&thread).await.map_err(|error| error.to_string())?;
        let mut opened = of_state(&state);
        opened.thread = Some(thread);
        Ok(opened)
    }
}
