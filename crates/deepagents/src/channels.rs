//! State channels that several middlewares and applications read.

mod agents;
mod hooks;
mod memory;
mod results;
mod skills;
mod todos;

pub(crate) use crate::middleware::summarization::ShownPart;
pub use agents::{AgentCatalogue, AgentFingerprint, AgentOrigin, AgentsMetadata, ListedAgent};
pub use deepagents_core::state::{MessagesChannel, StructuredResponse};
pub use deepagents_fs::Files;
pub use hooks::{CallReview, CallReviews, HookDecision, HookReviews, HookReviewsChange};
pub use memory::{MemoryContents, MemoryFile};
pub(crate) use results::{StoredResults, file_reference};
pub use skills::{PinnedSkills, Skill, SkillCatalogue, SkillFingerprint, SkillPin, SkillsMetadata};
pub use todos::{Todo, TodoChange, TodoStatus, TodoUpdate, Todos};
