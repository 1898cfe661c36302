//! What waits to be told to a run, kept with its thread: a program that is killed has not lost it.

use deepagents::core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use super::Session;
use super::run::is_owned;

/// Where it stands in the metadata of a thread.
const WAITING: &str = "waiting_messages";

impl Session {
    /// Keeps what waits on a thread, one change after the other.
    pub(super) fn keep_waiting(&self, thread: String, texts: Vec<String>) {
        let runs = self.with(|state| {
            state.waiting.insert(thread, texts);
            std::mem::replace(&mut state.keeps, true)
        });
        if runs {
            return;
        }
        let this = self.clone();
        let next = move || {
            this.with(|state| {
                let next = state.waiting.pop_first();
                state.keeps = next.is_some();
                next
            })
        };
        let this = self.clone();
        self.spawn(async move {
            while let Some((thread, texts)) = next() {
                // What cannot be kept is still shown, and is lost with the program alone.
                let _ = this.keep(&thread, texts).await;
            }
            None
        });
    }

    async fn keep(&self, thread: &str, texts: Vec<String>) -> Result<(), String> {
        let connection = self.connection().await?;
        let threads = connection.journal.threads();
        // A thread that was deleted is not begun again.
        let known = threads.get(thread).await.map_err(|error| error.to_string())?;
        let Some(info) = known else { return Ok(()) };
        if texts.is_empty() && !info.metadata.contains_key(WAITING) {
            return Ok(());
        }
        let value = if texts.is_empty() { Value::Null } else { json!(texts) };
        let set = threads.set_metadata(thread, Map::from_iter([(WAITING.to_owned(), value)])).await;
        set.map_err(|error| error.to_string())
    }

    /// What waited on a thread that is opened; it is the person's again.
    pub(super) fn waited(&self, info: &ThreadInfo) -> Vec<String> {
        let is_here = self.with(|state| state.background.iter().any(|background| background.thread == info.id));
        let kept = info.metadata.get(WAITING).and_then(Value::as_array).filter(|_| !is_here && !is_owned(self, info));
        let texts: Vec<String> = kept.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if !texts.is_empty() {
            self.keep_waiting(info.id.clone(), Vec::new());
        }
        texts
    }
}
