//! Sub-agents: their specs, their workers, and the registry of an agent.
//!
//! A [`SubAgentSpec`] is the common description of a sub-agent, whether it comes from a file, from JSON, from a skill
//! or from code. [`SubAgentDefaults`] holds the settings that all sub-agents of an agent share. Anything else that can
//! do work is a [`SubAgent`]: a built agent, a closure, or your own type. The middlewares
//! [`SubAgents`](crate::middleware::SubAgents) and [`BackgroundAgents`](crate::middleware::BackgroundAgents) delegate
//! to both.

mod agent;
mod budget;
mod closure;
mod defaults;
#[cfg(feature = "remote")]
mod durable;
mod model;
mod read;
mod registry;
#[cfg(feature = "remote")]
mod remote;
mod result;
mod server;
mod spec;
mod summarization;

pub use agent::{AgentSubAgent, DynSubAgent, SubAgent, SubAgentResult, SubAgentTask};
pub use budget::BudgetSpec;
pub use closure::sub_agent_fn;
pub use defaults::SubAgentDefaults;
pub use model::ModelSpec;
pub use read::DefinitionError;
#[cfg(feature = "remote")]
pub use remote::{RemoteAccess, RemoteSubAgent};
pub use server::{Headers, ServerProtocol};
pub use spec::{Mode, SubAgentSpec};
pub use summarization::SummarizationSpec;

pub(crate) use agent::{Concurrency, Depth};
pub(crate) use read::{MAX_NAME, read};
pub(crate) use registry::{ListingTool, Registry};
pub(crate) use result::result_text;
pub(crate) use server::variables;
