//! The channels of available and requested skills.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_fs::{VPath, Version};
use serde::{Deserialize, Serialize};

use crate::subagents::SubAgentSpec;

deepagents_core::last_value!(
    /// The skills of the thread, refreshed at the start of each run. An update of `None` forces a reload.
    ///
    /// Callers may provide their own catalogue with [`RunInput::update`](deepagents_core::run::RunInput::update); one
    /// without a [`fingerprint`](SkillCatalogue::fingerprint) is used unchanged.
    ///
    /// ```
    /// use deepagents::RunInput;
    /// use deepagents::channels::{Skill, SkillCatalogue, SkillsMetadata};
    /// // Skills that no file defines.
    /// let mut skill = Skill::default();
    /// skill.name = "triage".into();
    /// skill.description = "Sorts reports of faults.".into();
    /// let catalogue = SkillCatalogue { skills: vec![skill], ..SkillCatalogue::default() };
    /// let input = RunInput::new("What came in?").update(deepagents::Update::new::<SkillsMetadata>(Some(catalogue)));
    /// ```
    pub SkillsMetadata("skills_metadata"): Option<SkillCatalogue> => private
);

/// The available skills.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SkillCatalogue {
    /// The skills in the order of their sources. If two have the same name, the later one takes the first one's place.
    pub skills: Vec<Skill>,
    /// Problems with sources and skills, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Identifies the sources of the catalogue; `None` if a caller provided it.
    #[serde(default, alias = "stamp", skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<SkillFingerprint>,
}

impl SkillCatalogue {
    /// Returns the skill with this name.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

/// Identifies the sources of a catalogue. As long as it is unchanged, nothing is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFingerprint {
    /// The sources in order.
    pub sources: Vec<VPath>,
    /// The versions of the files found there.
    pub versions: BTreeMap<VPath, Version>,
}

/// The metadata of a skill, from its file. The instructions themselves stay in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// The name, usually lower-case words joined by hyphens.
    pub name: String,
    /// Its purpose and when to use it, at most 1024 characters.
    pub description: String,
    /// The path of its file.
    pub path: VPath,
    /// Its licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Its requirements, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Other metadata from its author. Lists and mappings are JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Tools that it intends to use: advice, not a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Skill tools to offer once the skill has been read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Sub-agents that it defines, in its front matter or in an `agents.yaml` beside its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<SubAgentSpec>,
}

impl Skill {
    /// Creates a skill with these fields only.
    pub fn new(name: impl Into<String>, description: impl Into<String>, path: VPath) -> Self {
        Self { name: name.into(), description: description.into(), path, ..Self::default() }
    }
}

/// Names of skills to show to the model in full before its next call. An update adds names to the pending ones.
///
/// ```
/// use deepagents::RunInput;
/// use deepagents::Update;
/// use deepagents::channels::{SkillPin, PinnedSkills};
/// let input = RunInput::new("Make the report.").update(Update::new::<PinnedSkills>(SkillPin::Pin(vec!["pdf".into()])));
/// ```
#[derive(Debug)]
pub struct PinnedSkills;

impl Channel for PinnedSkills {
    const NAME: &'static str = "pinned_skills";
    // Callers may set it, also through a server.
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::separate().not_projected();
    type Value = Vec<String>;
    type Update = SkillPin;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        match update {
            SkillPin::Pin(names) => value.extend(names),
            SkillPin::Shown { shown } => value.retain(|name| !shown.contains(name)),
        }
        Ok(())
    }
}

/// A change to the pinned skills. As JSON, a list of names or `{"shown": [...]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SkillPin {
    /// Requests that these be shown.
    Pin(Vec<String>),
    /// Records that these were shown.
    Shown {
        /// Their names.
        shown: Vec<String>,
    },
}
