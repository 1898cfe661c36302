//! The skills there are, and the ones the caller wants used.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use deepagents_fs::{VPath, Version};
use serde::{Deserialize, Serialize};

use crate::subagents::SubAgentSpec;

/// The skills of the thread, kept up to date at the beginning of each run. An update of `None` has them loaded anew.
///
/// A caller may give a catalogue of its own with [`RunInput::update`](deepagents_core::run::RunInput::update); one
/// without a [`fingerprint`](SkillCatalogue::fingerprint) is used as it is.
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
#[derive(Debug)]
pub struct SkillsMetadata;

impl Channel for SkillsMetadata {
    const NAME: &'static str = "skills_metadata";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = Option<SkillCatalogue>;
    type Update = Option<SkillCatalogue>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// The skills there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SkillCatalogue {
    /// In the order of their sources; of two with one name the later, in the place of the first.
    pub skills: Vec<Skill>,
    /// What is wrong with sources and skills, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the catalogue was made from; none for one that a caller gave.
    #[serde(default, alias = "stamp", skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<SkillFingerprint>,
}

impl SkillCatalogue {
    /// The skill of a name.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

/// What a catalogue was made from: while it stays the same, nothing is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFingerprint {
    /// The sources in order.
    pub sources: Vec<VPath>,
    /// The versions of the files found there.
    pub versions: BTreeMap<VPath, Version>,
}

/// A skill: what its file says of it. The instructions themselves stay in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// The name, as a rule lower-case words joined by hyphens.
    pub name: String,
    /// What it is for and when to use it, at most 1024 characters.
    pub description: String,
    /// Its file.
    pub path: VPath,
    /// Its licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What it needs to work, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Whatever else its author noted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Tools it means to use: advice, not a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Skill tools that are offered once the skill has been read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Sub-agents it defines, in its front matter or in a file `agents.yaml` beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<SubAgentSpec>,
}

impl Skill {
    /// A skill of which nothing more is known.
    pub fn new(name: impl Into<String>, description: impl Into<String>, path: VPath) -> Self {
        Self { name: name.into(), description: description.into(), path, ..Self::default() }
    }
}

/// Names of skills that the model is to be shown in full before its next call: names are added to those that wait.
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
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
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

/// A change to the pinned skills; as JSON a list of names, or `{"shown": [...]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SkillPin {
    /// Wants these shown.
    Pin(Vec<String>),
    /// These were shown.
    Shown {
        /// Their names.
        shown: Vec<String>,
    },
}
