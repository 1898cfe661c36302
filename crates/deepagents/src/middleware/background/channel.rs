//! What a conversation knows of its tasks.

use deepagents_core::agent::BackgroundTask;
use deepagents_core::journal::LogPosition;
use deepagents_core::run::BudgetUsage;
use deepagents_core::state::{Channel, ChannelError, Sharing};
use serde::{Deserialize, Serialize};

use super::TaskStatus;

/// The tasks of a conversation, in order of their beginning, and what of each has reached it.
#[derive(Debug)]
pub struct KnownTasks;

/// A task as its conversation knows it. What it does and has come to is in the log of its own thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KnownTask {
    /// Its id.
    pub id: String,
    /// The sub-agent.
    pub agent: String,
    /// Whether it is the work of something else than an agent, which is lost with its process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// Where its log ended when the conversation was last told of it, and how it stood then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<(LogPosition, TaskStatus)>,
    /// Up to where in its log the state has what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<LogPosition>,
    /// Up to where in its log runs of the conversation have counted what it spent, and how much that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<(LogPosition, BudgetUsage)>,
}

impl KnownTask {
    /// Whether the conversation was told how the task stands.
    pub fn is_told(&self, task: &BackgroundTask) -> bool {
        self.told.is_some_and(|(at, _)| at == task.end)
    }

    /// Whether the conversation has all that came of the task, which has ended.
    pub fn is_delivered(&self, task: &BackgroundTask) -> bool {
        self.told.is_some_and(|(_, status)| status.is_ended()) && self.is_told(task)
    }
}

/// A change to what a conversation knows of its tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KnownTaskChange {
    /// One more, unless it is known already.
    Start(KnownTask),
    /// The conversation is told of one.
    Deliver {
        /// The task.
        id: String,
        /// What it was told of last; a change that was made from another state of things is refused.
        from: Option<(LogPosition, TaskStatus)>,
        /// What it is told now.
        to: (LogPosition, TaskStatus),
        /// Whether what the task changed is part of the same update.
        joined: bool,
    },
    /// What one has spent is counted: up to this position, so much in all.
    Count(String, LogPosition, BudgetUsage),
    /// One less.
    Forget(String),
}

impl Channel for KnownTasks {
    const NAME: &'static str = "background_tasks";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = Vec<KnownTask>;
    type Update = Vec<KnownTaskChange>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        for change in update {
            match change {
                KnownTaskChange::Start(task) => {
                    if value.iter().all(|known| known.id != task.id) {
                        value.push(task);
                    }
                }
                KnownTaskChange::Deliver { id, from, to, joined } => {
                    let Some(task) = value.iter_mut().find(|known| known.id == id) else { continue };
                    if task.told != from {
                        let reason = format!("the result of {id} was given by another call; check it once more");
                        return Err(ChannelError::Refused { channel: Self::NAME, reason });
                    }
                    task.told = Some(to);
                    if joined {
                        task.joined = Some(to.0);
                    }
                }
                KnownTaskChange::Count(id, at, spent) => {
                    if let Some(task) = value.iter_mut().find(|known| known.id == id) {
                        task.counted = Some((at, spent));
                    }
                }
                KnownTaskChange::Forget(id) => value.retain(|known| known.id != id),
            }
        }
        Ok(())
    }
}
