//! Sub-agents defined by files and skills: discovery, and reading after changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, State};
use deepagents_fs::{Backend, Entry, Kind, VPath, Version};
use futures_util::{StreamExt, stream};

use crate::channels::{AgentCatalogue, AgentFingerprint, AgentOrigin, ListedAgent, SkillsMetadata};
use crate::front_matter::{self, Texts};
use crate::shared::Shared;
use crate::subagents::{self, SubAgentSpec};
use crate::workspace::{MAX_CONCURRENT_CHECKS, Workspace, read_whole_text, version_of, versions_of};

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// Maximum number of sub-agents that files and skills may define; each is a line in every request.
const MAX_AGENTS: usize = 100;
/// Maximum number of files and directories to check per source.
const MAX_FILES: usize = 500;

/// A directory of files that define sub-agents: `<name>.md`, or `<name>/AGENTS.md`.
///
/// ```
/// use deepagents::fs::StateBackend;
/// use deepagents::middleware::subagents::AgentSource;
/// let project: AgentSource = "/.deepagents/agents".into();
/// let elsewhere = AgentSource::on("/agents", StateBackend::new());
/// ```
#[derive(Clone, Debug)]
pub struct AgentSource {
    path: String,
    backend: Option<Shared<dyn Backend>>,
    shown_as: Option<String>,
}

impl AgentSource {
    /// Uses a directory of a backend other than the agent's.
    pub fn on(path: impl Into<String>, backend: impl Backend) -> Self {
        Self { backend: Some(Shared(Arc::new(backend))), ..Self::from(path) }
    }

    /// Sets how the directory is shown to people in messages about its files; its path by default.
    #[must_use]
    pub fn shown_as(mut self, place: impl Into<String>) -> Self {
        self.shown_as = Some(place.into());
        self
    }
}

impl<P: Into<String>> From<P> for AgentSource {
    /// Uses a directory of the agent's backend.
    fn from(path: P) -> Self {
        Self { path: path.into(), backend: None, shown_as: None }
    }
}

/// The sources of sub-agent definitions.
pub(crate) struct AgentFiles {
    workspace: Workspace,
    sources: Vec<Source>,
}

/// A directory whose files define sub-agents.
struct Source {
    path: VPath,
    backend: Option<Shared<dyn Backend>>,
    shown_as: Option<String>,
}

impl Source {
    /// Returns how a path in it is shown to people.
    fn shown(&self, path: &VPath) -> String {
        let below = self.shown_as.as_deref().zip(path.as_str().strip_prefix(self.path.as_str()));
        below.map_or_else(|| path.to_string(), |(place, rest)| format!("{place}{rest}"))
    }
}

/// A file that may define a sub-agent.
struct Candidate {
    /// The index of its source.
    source: usize,
    name: String,
    path: VPath,
    /// How it is shown to people.
    shown: String,
}

impl AgentFiles {
    pub(crate) fn new(workspace: Workspace, sources: Vec<AgentSource>) -> Result<Self, BuildError> {
        let parse = |source: AgentSource| {
            let path = VPath::parse(&source.path);
            let path =
                path.map_err(|error| BuildError::Option(format!("sub-agents cannot have this path: {error}")))?;
            Ok(Source { path, backend: source.backend, shown_as: source.shown_as })
        };
        Ok(Self { workspace, sources: sources.into_iter().map(parse).collect::<Result<_, BuildError>>()? })
    }

    pub(super) fn channels(&self) -> Vec<ChannelSpec> {
        if self.sources.is_empty() { Vec::new() } else { self.workspace.channels() }
    }

    /// Returns the catalogue if it differs from the known one. `admit` returns an error if a definition is unusable.
    pub(super) async fn refreshed(
        &self,
        cx: &Context,
        known: Option<&AgentCatalogue>,
        admit: impl Fn(&ListedAgent) -> Result<(), String>,
    ) -> Option<AgentCatalogue> {
        let state = cx.state();
        let mut own = None;
        let mut warnings = Vec::new();
        let mut sources = Vec::new();
        let mut candidates = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            let backend = match &source.backend {
                Some(backend) => backend.0.clone(),
                None => own.get_or_insert_with(|| self.workspace.backend_for(cx)).clone(),
            };
            let (found, versions) = survey(&*backend, state, source, number, &mut warnings).await;
            candidates.extend(found.into_iter().map(|candidate| (backend.clone(), candidate)));
            sources.push((source.path.clone(), versions));
        }
        let skills = of_skills(state).map(|(name, agents)| (name.to_owned(), agents.to_vec())).collect();
        let fingerprint = AgentFingerprint { sources, skills };
        let unchanged =
            known.map_or(fingerprint == AgentFingerprint::default(), |known| known.fingerprint == fingerprint);
        if unchanged {
            return None;
        }
        let reads = candidates.into_iter().map(|(backend, candidate)| async move {
            let text = read_whole_text(&*backend, state, &candidate.path, MAX_BYTES).await;
            let defined = text.and_then(|text| define(&text, &candidate.name));
            (candidate, defined)
        });
        let reads: Vec<_> = reads.collect();
        let read: Vec<_> = stream::iter(reads).buffered(MAX_CONCURRENT_CHECKS).collect().await;
        let mut found: Vec<Found> = Vec::new();
        for (Candidate { source, path, shown, .. }, defined) in read {
            match defined {
                Err(why) => warnings.push(format!("Skipped {shown}: {why}")),
                Ok((definition, odd)) => {
                    warnings.extend(odd.map(|odd| format!("{shown}: {odd}")));
                    let listed = ListedAgent { origin: AgentOrigin::File(path), definition };
                    place(&mut found, Found { source, shown, listed }, &mut warnings);
                }
            }
        }
        let of_files = found.into_iter().map(|found| (found.shown, found.listed));
        let of_skills = fingerprint.skills.iter().flat_map(|(skill, agents)| {
            let listed = move |definition: &SubAgentSpec| {
                let origin = AgentOrigin::Skill(skill.clone());
                (format!("the skill `{skill}`"), ListedAgent { origin, definition: definition.clone() })
            };
            agents.iter().map(listed)
        });
        let mut agents: Vec<(String, ListedAgent)> = Vec::new();
        for (shown, listed) in of_files.chain(of_skills) {
            let left_out = match agents.iter().find(|(_, known)| known.definition.name == listed.definition.name) {
                Some((known, _)) => Some(format!("{known} defines one of that name")),
                None if agents.len() >= MAX_AGENTS => Some(format!("there are {MAX_AGENTS} already")),
                None => admit(&listed).err(),
            };
            match left_out {
                Some(why) => {
                    warnings.push(format!("{shown}: the sub-agent `{}` was left out: {why}", listed.definition.name))
                }
                None => agents.push((shown, listed)),
            }
        }
        let agents = agents.into_iter().map(|(_, listed)| listed).collect();
        Some(AgentCatalogue { agents, warnings, fingerprint })
    }
}

/// Returns the sub-agents that each skill defines, with the skill's name.
fn of_skills(state: &State) -> impl Iterator<Item = (&str, &[SubAgentSpec])> {
    let skills = state.get::<SkillsMetadata>().and_then(Option::as_ref);
    let skills = skills.into_iter().flat_map(|catalogue| &catalogue.skills).filter(|skill| !skill.agents.is_empty());
    skills.map(|skill| (skill.name.as_str(), skill.agents.as_slice()))
}

/// Returns `true` if the definitions of skills have changed.
pub(super) fn skills_changed(state: &State, known: Option<&AgentCatalogue>) -> bool {
    let known = known.into_iter().flat_map(|known| &known.fingerprint.skills);
    !of_skills(state).eq(known.map(|(name, agents)| (name.as_str(), agents.as_slice())))
}

/// A sub-agent defined by a file.
struct Found {
    /// The index of its source.
    source: usize,
    /// How its file is shown to people.
    shown: String,
    listed: ListedAgent,
}

/// Adds a sub-agent; one of a later source replaces one of an earlier source.
fn place(found: &mut Vec<Found>, new: Found, warnings: &mut Vec<String>) {
    let name = &new.listed.definition.name;
    match found.iter_mut().find(|known| known.listed.definition.name == *name) {
        Some(known) if known.source == new.source => {
            warnings.push(format!("{}: {} already defines a sub-agent `{name}`", new.shown, known.shown));
        }
        Some(known) => *known = new,
        None => found.push(new),
    }
}

/// Returns the files in a source that may define sub-agents, with their versions.
async fn survey(
    backend: &dyn Backend,
    state: &State,
    source: &Source,
    number: usize,
    warnings: &mut Vec<String>,
) -> (Vec<Candidate>, BTreeMap<VPath, Version>) {
    let path = &source.path;
    let listing = match backend.list(state, path).await {
        Ok(listing) => listing,
        Err(error) => {
            // The directory of a source may not exist yet.
            let Some(version) = version_of(&error) else { return Default::default() };
            warnings.push(format!("Cannot load sub-agents from '{}': {error}", source.shown(path)));
            return (Vec::new(), BTreeMap::from([(path.clone(), version)]));
        }
    };
    let candidates = listing.entries.iter().filter_map(|entry| {
        let (name, path) = definition_file(entry)?;
        Some(Candidate { source: number, name: name.to_owned(), shown: source.shown(&path), path })
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    if candidates.len() > MAX_FILES {
        warnings.push(format!(
            "{} holds more than {MAX_FILES} files and directories; those after the first were left out",
            source.shown(path)
        ));
        candidates.truncate(MAX_FILES);
    }
    let paths = candidates.iter().map(|candidate| candidate.path.clone()).collect();
    let versions = versions_of(backend, state, paths).await;
    candidates.retain(|candidate| versions.contains_key(&candidate.path));
    (candidates, versions)
}

/// Returns the default name of the sub-agent that an entry of a source may define, and the file that defines it.
pub(crate) fn definition_file(entry: &Entry) -> Option<(&str, VPath)> {
    let name = entry.path.name().filter(|name| !name.starts_with('.'))?;
    match entry.kind {
        Kind::Directory => Some((name, entry.path.join("AGENTS.md").ok()?)),
        _ => Some((name.strip_suffix(".md")?, entry.path.clone())),
    }
}

/// Parses a file into a definition: front matter followed by the prompt.
pub(crate) fn define(text: &str, name: &str) -> Result<(SubAgentSpec, Option<String>), String> {
    let (head, body) = front_matter::parse_lenient(text, Texts::ByKey).map_err(|error| error.to_string())?;
    let (mut definition, odd) = subagents::read(head, Some(name))?;
    let body = body.trim();
    if !body.is_empty() {
        if definition.system_prompt.is_some() {
            return Err("its prompt is in the front matter and below it; put it in one place".to_owned());
        }
        definition.system_prompt = Some(body.to_owned());
    }
    Ok((definition, odd))
}
