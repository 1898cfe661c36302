//! The sub-agents of a conversation: which there are, and what each has said and done.

use std::collections::BTreeMap;

use deepagents::core::journal::{RunStatus, SubAgentInfo};
use serde::{Deserialize, Serialize};

use super::Session;
use crate::app::event::{Choice, Choices, Event, ListOf};
use crate::app::transcript::items_of;
use crate::text::shorten;

/// Sub-agents that are listed.
const MOST: usize = 200;

/// What a sub-agent is found by.
#[derive(Serialize, Deserialize)]
enum Key {
    /// Its place below the agent of the conversation.
    Path(Vec<String>),
    /// The thread of one in the background.
    Thread(String),
}

impl Key {
    fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ended => "done",
        RunStatus::Failed => "failed",
        RunStatus::Interrupted => "waits for a decision",
        _ => "at work",
    }
}

impl Session {
    pub(super) fn list_sub_agents(&self) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Choose(this.sub_agents().await)) });
    }

    /// The sub-agents as a tree: each below the one that it works for, in order of their beginning.
    async fn sub_agents(&self) -> Result<Choices, String> {
        let mut rows = Vec::new();
        if let Some(thread) = self.thread() {
            let connection = self.connection().await?;
            let found = connection.agent.sub_agents(&thread).await.map_err(|error| error.to_string())?;
            for info in as_tree(found).into_iter().take(MOST) {
                let state = connection.agent.sub_agent_state(&thread, &info.path).await;
                let task = state.ok().and_then(|state| Some(state.messages().get(0)?.text())).unwrap_or_default();
                let indent = "  ".repeat(info.path.len().saturating_sub(1));
                rows.push(Choice {
                    key: Key::Path(info.path).to_text(),
                    label: format!("{indent}{}: {}", info.agent, shorten(&task, 60)),
                    detail: status_word(info.status).to_owned(),
                });
            }
            // Those that nobody waits for have threads of their own.
            let tasks = connection.agent.background(&thread).await.map_err(|error| error.to_string())?;
            for task in tasks.into_iter().take(MOST) {
                let state = connection.agent.state(&task.thread).await;
                let first = state.ok().and_then(|state| Some(state.messages().get(0)?.text())).unwrap_or_default();
                rows.push(Choice {
                    key: Key::Thread(task.thread).to_text(),
                    label: format!("{}: {}", task.agent, shorten(&first, 60)),
                    detail: format!("in the background · {}", status_word(task.status)),
                });
            }
        }
        Ok(Choices { of: ListOf::SubAgents, rows })
    }

    /// Reads what a sub-agent has said and done.
    pub(super) fn open_sub_agent(&self, key: String, title: String) {
        let this = self.clone();
        self.spawn(async move {
            let read = async {
                let key: Key = serde_json::from_str(&key).map_err(|error| error.to_string())?;
                let thread = this.thread().ok_or("there is no thread")?;
                let connection = this.connection().await?;
                let state = match &key {
                    Key::Path(path) => connection.agent.sub_agent_state(&thread, path).await,
                    Key::Thread(thread) => connection.agent.state(thread).await,
                };
                let state = state.map_err(|error| error.to_string())?;
                Ok::<_, String>(items_of(state.messages().iter().map(|message| &**message)))
            };
            Some(match read.await {
                Ok(items) => Event::Transcript { title, items },
                Err(problem) => Event::Notice { text: problem, bad: true },
            })
        });
    }
}

/// In the order of a tree.
fn as_tree(mut all: Vec<SubAgentInfo>) -> Vec<SubAgentInfo> {
    let starts: BTreeMap<Vec<String>, u64> = all.iter().map(|info| (info.path.clone(), info.start)).collect();
    all.sort_by_cached_key(|info| {
        let above = (1..=info.path.len()).filter_map(|depth| info.path.get(..depth));
        above.map(|path| starts.get(path).copied().unwrap_or(0)).collect::<Vec<u64>>()
    });
    all
}
