//! Saves user input that no run has received yet with its thread, so that it survives if the program is killed.

use deepagents::core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use super::run::is_owned;
use super::{Result, Session};
use crate::app::decided::KeptDecision;
use crate::host::Connection;

/// The metadata keys for waiting messages and for decisions.
const WAITING_KEY: &str = "waiting_messages";
const DECIDED_KEY: &str = "waiting_decisions";

/// The input to save with a thread, where it has changed.
#[derive(Default)]
pub(super) struct KeptWithThread {
    waiting: Option<Vec<String>>,
    decided: Option<Vec<KeptDecision>>,
}

impl Session {
    /// Saves the messages that wait on a thread.
    pub(super) fn keep_waiting(&self, thread: String, texts: Vec<String>) {
        self.save_with_thread(thread, |kept| kept.waiting = Some(texts));
    }

    /// Saves the decisions made on a thread while others are pending.
    pub(super) fn keep_decided(&self, thread: String, decided: Vec<KeptDecision>) {
        self.save_with_thread(thread, |kept| kept.decided = Some(decided));
    }

    /// Queues input to be saved with a thread. Changes are saved one after the other.
    fn save_with_thread(&self, thread: String, change: impl FnOnce(&mut KeptWithThread)) {
        let runs = self.with(|state| {
            change(state.kept.entry(thread).or_default());
            std::mem::replace(&mut state.is_saving, true)
        });
        if runs {
            return;
        }
        let this = self.clone();
        let keeper = tokio::spawn(async move {
            let next = || {
                this.with(|state| {
                    let next = state.kept.pop_first();
                    state.is_saving = next.is_some();
                    next
                })
            };
            while let Some((thread, kept)) = next() {
                // Input that cannot be saved is still shown; it is lost only if the program ends.
                let _ = this.save_kept(&thread, kept).await;
            }
        });
        self.with(|state| state.keeper = Some(keeper));
    }

    /// Waits until everything is saved, because the program is about to end.
    pub(crate) async fn wait_until_saved(&self) {
        if let Some(keeper) = self.with(|state| state.keeper.take()) {
            // A task that panicked has saved nothing.
            let _ = keeper.await;
        }
    }

    async fn save_kept(&self, thread: &str, kept: KeptWithThread) -> Result<()> {
        let connection = self.connection().await?;
        let threads = connection.journal.threads();
        // A deleted thread is not created again.
        let Some(info) = threads.get(thread).await? else { return Ok(()) };
        let decided = kept.decided.map(|decided| unhidden(&connection, decided));
        // Messages are saved with the agent's redactions applied; messages that the agent blocks are not saved.
        let received = |text: String| connection.agent.receive_text(text).ok();
        let waiting = kept.waiting.map(|texts| texts.into_iter().filter_map(received).collect::<Vec<_>>());
        let lists = [(WAITING_KEY, waiting.map(|texts| json!(texts))), (DECIDED_KEY, decided.map(|list| json!(list)))];
        let changes: Map<String, Value> = lists
            .into_iter()
            .filter_map(|(key, list)| match list? {
                Value::Array(list) if list.is_empty() => {
                    info.metadata.contains_key(key).then(|| (key.to_owned(), Value::Null))
                }
                list => Some((key.to_owned(), list)),
            })
            .collect();
        if !changes.is_empty() {
            threads.set_metadata(thread, changes).await?;
        }
        Ok(())
    }

    /// Takes the messages that waited on a thread that is being opened; they return to the user.
    pub(super) fn waited(&self, info: &ThreadInfo) -> Vec<String> {
        let kept = self.kept_with(info, WAITING_KEY);
        let texts: Vec<String> = kept.filter_map(Value::as_str).map(str::to_owned).collect();
        if !texts.is_empty() {
            self.keep_waiting(info.id.clone(), Vec::new());
        }
        texts
    }

    /// Returns the decisions made on a thread before it was opened, while others were pending.
    pub(super) fn decided_before(&self, info: &ThreadInfo) -> Vec<KeptDecision> {
        // A decision in the format of a later version is ignored, so the user is asked again.
        self.kept_with(info, DECIDED_KEY).filter_map(|kept| serde_json::from_value(kept.clone()).ok()).collect()
    }

    /// Returns the input saved with a thread that no one works on.
    fn kept_with<'a>(&self, info: &'a ThreadInfo, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let is_here = self.is_in_background(&info.id);
        let kept = info.metadata.get(key).and_then(Value::as_array).filter(|_| !is_here && !is_owned(self, info));
        kept.into_iter().flatten()
    }
}

/// Keeps the decisions that contain nothing the agent redacts. Only the run that takes a decision may redact it.
fn unhidden(connection: &Connection, mut decided: Vec<KeptDecision>) -> Vec<KeptDecision> {
    decided.retain(|kept| {
        let said = json!(kept.decided.decision).to_string();
        connection.agent.receive_text(said.as_str()).is_ok_and(|received| received == said)
    });
    decided
}
