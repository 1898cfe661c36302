//! Channels that several middlewares and applications read.

mod memory;
mod skills;

use deepagents_core::state::{Channel, ChannelError, Concurrent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use deepagents_core::state::{MessagesChannel, StructuredResponse};
pub use deepagents_fs::Files;
pub use memory::{MemoryContents, MemoryFile};
pub use skills::{PinUpdate, PinnedSkills, Skill, SkillAgent, SkillCatalogue, SkillStamp, SkillsMetadata};

/// The todo list. A sub-agent starts with an empty one and keeps its own.
#[derive(Debug)]
pub struct Todos;

impl Channel for Todos {
    const NAME: &'static str = "todos";
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = Vec<Todo>;
    type Update = Vec<Todo>;

    fn reduce(value: &mut Vec<Todo>, update: Vec<Todo>) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// An item of the todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Given by the harness and kept while the item lives.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// When the item appeared, RFC 3339.
    pub created_at: String,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Finished.
    Completed,
}

impl TodoStatus {
    /// The word in JSON and for the model.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}
