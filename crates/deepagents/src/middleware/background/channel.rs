//! The channel of a conversation's background tasks.

use deepagents_core::agent::BackgroundTask;
use deepagents_core::journal::LogPosition;
use deepagents_core::run::BudgetUsage;
use deepagents_core::state::{Channel, ChannelError, Sharing};
use serde::{Deserialize, Serialize};

use super::TaskStatus;

/// The background tasks of a conversation in the order of their start, with how much of each has been delivered to it.
#[derive(Debug)]
pub struct KnownTasks;

/// A task as known to its conversation. Its work and results are in the log of its own thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KnownTask {
    /// Its id.
    pub id: String,
    /// The name of the sub-agent.
    pub agent: String,
    /// Whether the work is not done by an agent and is therefore lost with its process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// The end of its log and its status as of the last message to the conversation about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<(LogPosition, TaskStatus)>,
    /// The position in its log up to which its state changes have been merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<LogPosition>,
    /// The position in its log up to which runs of the conversation have charged its usage, and the total charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<(LogPosition, BudgetUsage)>,
}

impl KnownTask {
    /// Returns `true` if the conversation was notified of the current status of the task.
    pub fn is_told(&self, task: &BackgroundTask) -> bool {
        self.told.is_some_and(|(at, _)| at == task.end)
    }

    /// Returns `true` if the task has ended and the conversation has received everything.
    pub fn is_delivered(&self, task: &BackgroundTask) -> bool {
        self.told.is_some_and(|(_, status)| status.is_ended()) && self.is_told(task)
    }
}

/// A change to the known tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KnownTaskChange {
    /// Adds a task, unless it is already known.
    Start(KnownTask),
    /// Records that the conversation is notified of a task.
    Deliver {
        /// The id of the task.
        id: String,
        /// The previous notification; the change is rejected if this is out of date.
        from: Option<(LogPosition, TaskStatus)>,
        /// The new notification.
        to: (LogPosition, TaskStatus),
        /// Whether the same update contains the task's state changes.
        joined: bool,
    },
    /// Records the usage charged so far: up to this position, this total.
    Count(String, LogPosition, BudgetUsage),
    /// Removes a task.
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
