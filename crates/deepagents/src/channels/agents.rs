//! The channel of sub-agents defined by files and skills.

use std::collections::BTreeMap;

use deepagents_fs::{VPath, Version};
use serde::{Deserialize, Serialize};

use crate::subagents::SubAgentSpec;

deepagents_core::last_value!(
    /// The sub-agents defined by files and skills, refreshed at the start of each run. An update of `None` forces a
    /// reload.
    pub AgentsMetadata("agents_metadata"): Option<AgentCatalogue> => private
);

/// The sub-agents defined by files and skills.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentCatalogue {
    /// The usable ones, with unique names: those of files in the order of their sources, then those of skills.
    pub agents: Vec<ListedAgent>,
    /// Problems with the others, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Identifies the sources of the catalogue.
    #[serde(alias = "stamp")]
    pub fingerprint: AgentFingerprint,
}

/// A sub-agent and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedAgent {
    /// The file or skill that defines it.
    pub origin: AgentOrigin,
    /// Its definition.
    pub definition: SubAgentSpec,
}

/// The origin of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentOrigin {
    /// A file of its own.
    File(VPath),
    /// The skill with this name.
    Skill(String),
}

/// Identifies the sources of a catalogue. As long as it is unchanged, nothing is read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentFingerprint {
    /// The versions of the files, by source.
    pub sources: Vec<(VPath, BTreeMap<VPath, Version>)>,
    /// The sub-agents that each skill defines, by the skill's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<(String, Vec<SubAgentSpec>)>,
}
