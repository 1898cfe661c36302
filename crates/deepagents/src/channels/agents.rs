//! The sub-agents that files and skills define.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use deepagents_fs::{VPath, Version};
use serde::{Deserialize, Serialize};

use crate::subagents::SubAgentSpec;

/// The sub-agents that files and skills define, kept up to date at the beginning of each run. An update of `None` has
/// them loaded anew.
#[derive(Debug)]
pub struct AgentsMetadata;

impl Channel for AgentsMetadata {
    const NAME: &'static str = "agents_metadata";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = Option<AgentCatalogue>;
    type Update = Option<AgentCatalogue>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// The sub-agents that files and skills define.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentCatalogue {
    /// Those that can be used, each name once: of files in the order of their sources, then of skills.
    pub agents: Vec<ListedAgent>,
    /// What is wrong with the others, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the catalogue was made from.
    #[serde(alias = "stamp")]
    pub fingerprint: AgentFingerprint,
}

/// A sub-agent and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedAgent {
    /// What defines it.
    pub origin: AgentOrigin,
    /// The sub-agent.
    pub definition: SubAgentSpec,
}

/// What defines a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentOrigin {
    /// A file of its own.
    File(VPath),
    /// The skill of this name.
    Skill(String),
}

/// What a catalogue was made from: while it stays the same, nothing is read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentFingerprint {
    /// The versions of the files, by source.
    pub sources: Vec<(VPath, BTreeMap<VPath, Version>)>,
    /// What skills define, with their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<(String, Vec<SubAgentSpec>)>,
}
