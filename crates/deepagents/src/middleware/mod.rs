//! The standard middlewares. Each uses the core, the files crate and itself, never a sibling.

pub mod approval;
pub mod background;
pub mod caching;
pub mod filesystem;
pub mod hooks;
pub mod memory;
pub mod patch;
pub mod skills;
pub mod subagents;
pub mod summarization;
pub mod todo;
mod tool_filter;
pub mod unsupported;
#[cfg(all(unix, feature = "web"))]
pub mod web;

pub use approval::HumanInTheLoop;
pub use background::BackgroundAgents;
pub use caching::{PromptCaching, UnsupportedModel};
pub use filesystem::Filesystem;
pub use memory::Memory;
pub use patch::PatchToolCalls;
pub use skills::Skills;
pub use subagents::SubAgents;
pub use summarization::Summarization;
pub use todo::TodoList;
pub use tool_filter::ToolFilter;
pub use unsupported::UnsupportedContent;
