//! Sub-agents that files and skills define: finding them, and reading them when something changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, State};
use deepagents_fs::{Backend, FsError, Kind, VPath, Version};
use futures_util::{StreamExt, stream};

use crate::channels::{AgentCatalogue, AgentOrigin, AgentStamp, ListedAgent, SkillsMetadata};
use crate::definition::{self, AgentDefinition};
use crate::front_matter;
use crate::workspace::{Workspace, whole_text};

/// Bytes that a file may have.
const MAX_BYTES: u64 = 256 * 1024;
/// Sub-agents that files and skills may define; each is a line of every request.
const MAX_AGENTS: usize = 100;
/// Files and directories of a source that are looked into.
const MAX_FILES: usize = 500;
/// Files looked at at once.
const AT_ONCE: usize = 16;

/// A directory of files that define sub-agents: `<name>.md`, and `AGENTS.md` in directories `<name>`.
///
/// ```
/// use deepagents::fs::StateBackend;
/// use deepagents::middleware::subagents::AgentSource;
/// let project: AgentSource = "/.deepagents/agents".into();
/// let elsewhere = AgentSource::on("/agents", StateBackend::new());
/// ```
#[derive(Clone)]
pub struct AgentSource {
    path: String,
    backend: Option<Arc<dyn Backend>>,
}

impl AgentSource {
    /// A directory of another backend than the agent's.
    pub fn on(path: impl Into<String>, backend: impl Backend) -> Self {
        Self { path: path.into(), backend: Some(Arc::new(backend)) }
    }
}

impl From<&str> for AgentSource {
    fn from(path: &str) -> Self {
        Self { path: path.to_owned(), backend: None }
    }
}

impl From<String> for AgentSource {
    fn from(path: String) -> Self {
        Self { path, backend: None }
    }
}

impl std::fmt::Debug for AgentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSource").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Where sub-agents are defined.
pub(crate) struct AgentFiles {
    workspace: Workspace,
    sources: Vec<(VPath, Option<Arc<dyn Backend>>)>,
}

/// A file that may define a sub-agent.
struct Candidate {
    /// The source's number.
    source: usize,
    name: String,
    path: VPath,
}

impl AgentFiles {
    pub(crate) fn new(workspace: Workspace, sources: Vec<AgentSource>) -> Result<Self, BuildError> {
        let parse = |source: AgentSource| {
            let path = VPath::parse(&source.path);
            let path = path.map_err(|error| BuildError::Option(format!("sub-agents cannot be there: {error}")))?;
            Ok((path, source.backend))
        };
        Ok(Self { workspace, sources: sources.into_iter().map(parse).collect::<Result<_, BuildError>>()? })
    }

    pub(super) fn channels(&self) -> Vec<ChannelSpec> {
        if self.sources.is_empty() { Vec::new() } else { self.workspace.channels() }
    }

    /// The catalogue, if it is another than the one known. `admit` says why a definition cannot be used.
    pub(super) async fn refreshed(
        &self,
        cx: &Context,
        known: Option<&AgentCatalogue>,
        admit: impl Fn(&ListedAgent) -> Result<(), String>,
    ) -> Option<AgentCatalogue> {
        let state = cx.state();
        let backends: Vec<Arc<dyn Backend>> = match self.sources.is_empty() {
            true => Vec::new(),
            false => {
                let own = self.workspace.of(cx);
                self.sources.iter().map(|(_, backend)| backend.clone().unwrap_or_else(|| own.clone())).collect()
            }
        };
        let mut warnings = Vec::new();
        let mut sources = Vec::new();
        let mut candidates = Vec::new();
        for (source, ((path, _), backend)) in self.sources.iter().zip(&backends).enumerate() {
            let (found, versions) = survey(&**backend, state, path, source, &mut warnings).await;
            candidates.extend(found);
            sources.push((path.clone(), versions));
        }
        let skills = of_skills(state).map(|(name, agents)| (name.to_owned(), agents.to_vec())).collect();
        let stamp = AgentStamp { sources, skills };
        let unchanged = known.map_or(stamp == AgentStamp::default(), |known| known.stamp == stamp);
        if unchanged {
            return None;
        }
        let reads = candidates.iter().map(|candidate| {
            let backend = backends.get(candidate.source).cloned();
            async move {
                let text = match backend {
                    Some(backend) => whole_text(&*backend, state, &candidate.path, MAX_BYTES).await,
                    None => Err("its source is gone".to_owned()),
                };
                (candidate, text.and_then(|text| define(&text, &candidate.name)))
            }
        });
        let reads: Vec<_> = reads.collect();
        let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let mut found: Vec<(usize, ListedAgent)> = Vec::new();
        for (candidate, definition) in read {
            match definition {
                Err(why) => warnings.push(format!("Skipped {}: {why}", candidate.path)),
                Ok((definition, odd)) => {
                    warnings.extend(odd.map(|odd| format!("{}: {odd}", candidate.path)));
                    let listed = ListedAgent { origin: AgentOrigin::File(candidate.path.clone()), definition };
                    place(&mut found, candidate.source, listed, &mut warnings);
                }
            }
        }
        let of_files = found.into_iter().map(|(_, listed)| listed);
        let of_skills = stamp.skills.iter().flat_map(|(skill, agents)| {
            let listed = |definition: &AgentDefinition| ListedAgent {
                origin: AgentOrigin::Skill(skill.clone()),
                definition: definition.clone(),
            };
            agents.iter().map(listed)
        });
        let mut agents: Vec<ListedAgent> = Vec::new();
        for listed in of_files.chain(of_skills) {
            let left_out = match agents.iter().find(|known| known.definition.name == listed.definition.name) {
                Some(known) => Some(format!("{} defines one of that name", place_of(&known.origin))),
                None if agents.len() >= MAX_AGENTS => Some(format!("there are {MAX_AGENTS} already")),
                None => admit(&listed).err(),
            };
            match left_out {
                Some(why) => warnings.push(format!(
                    "{}: the sub-agent `{}` was left out: {why}",
                    place_of(&listed.origin),
                    listed.definition.name
                )),
                None => agents.push(listed),
            }
        }
        Some(AgentCatalogue { agents, warnings, stamp })
    }
}

/// What skills define, with their names.
fn of_skills(state: &State) -> impl Iterator<Item = (&str, &[AgentDefinition])> {
    let skills = state.get::<SkillsMetadata>().and_then(Option::as_ref);
    let skills = skills.into_iter().flat_map(|catalogue| &catalogue.skills).filter(|skill| !skill.agents.is_empty());
    skills.map(|skill| (skill.name.as_str(), skill.agents.as_slice()))
}

/// Whether skills define something else than what is known.
pub(super) fn skills_changed(state: &State, known: Option<&AgentCatalogue>) -> bool {
    let known = known.into_iter().flat_map(|known| &known.stamp.skills);
    !of_skills(state).eq(known.map(|(name, agents)| (name.as_str(), agents.as_slice())))
}

fn place_of(origin: &AgentOrigin) -> String {
    match origin {
        AgentOrigin::File(path) => path.to_string(),
        AgentOrigin::Skill(name) => format!("the skill `{name}`"),
    }
}

/// Puts one among the others: a later source takes the place of an earlier one.
fn place(found: &mut Vec<(usize, ListedAgent)>, source: usize, listed: ListedAgent, warnings: &mut Vec<String>) {
    match found.iter_mut().find(|(_, known)| known.definition.name == listed.definition.name) {
        Some((before, known)) if *before == source => warnings.push(format!(
            "{}: {} already defines a sub-agent `{}`",
            place_of(&listed.origin),
            place_of(&known.origin),
            known.definition.name
        )),
        Some(known) => *known = (source, listed),
        None => found.push((source, listed)),
    }
}

/// What may define sub-agents in a source, with the versions of what is there.
async fn survey(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    source: usize,
    warnings: &mut Vec<String>,
) -> (Vec<Candidate>, BTreeMap<VPath, Version>) {
    let listing = match backend.list(state, path).await {
        Ok(listing) => listing,
        // A source may be a place where sub-agents will be.
        Err(FsError::NotFound { .. }) => return Default::default(),
        Err(error) => {
            warnings.push(format!("Cannot load sub-agents from '{path}': {error}"));
            return (Vec::new(), BTreeMap::from([(path.clone(), failed(&error))]));
        }
    };
    let candidates = listing.entries.into_iter().filter_map(|entry| {
        let name = entry.path.name().filter(|name| !name.starts_with('.'))?;
        let (name, path) = match entry.kind {
            Kind::Directory => (name.to_owned(), entry.path.join("AGENTS.md").ok()?),
            _ => (name.strip_suffix(".md")?.to_owned(), entry.path.clone()),
        };
        Some(Candidate { source, name, path })
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    if candidates.len() > MAX_FILES {
        warnings.push(format!(
            "{path} holds more than {MAX_FILES} files and directories; those after the first were left out"
        ));
        candidates.truncate(MAX_FILES);
    }
    let looks: Vec<_> = candidates
        .into_iter()
        .map(|candidate| async move {
            let stat = backend.stat(state, &candidate.path).await;
            (candidate, stat)
        })
        .collect();
    let looked: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let mut versions = BTreeMap::new();
    let mut found = Vec::new();
    for (candidate, stat) in looked {
        let version = match stat {
            Ok(stat) if stat.kind == Kind::File => stat.version,
            Ok(_) | Err(FsError::NotFound { .. }) => continue,
            Err(error) => failed(&error),
        };
        versions.insert(candidate.path.clone(), version);
        found.push(candidate);
    }
    (found, versions)
}

/// What cannot be looked at has the error for a version, so that another error is a change.
fn failed(error: &FsError) -> Version {
    Version::new(format!("failed: {error}"))
}

/// From a file to a definition: the front matter, and the prompt below it.
fn define(text: &str, name: &str) -> Result<(AgentDefinition, Option<String>), String> {
    let (head, body) = front_matter::split(text).map_err(|error| error.to_string())?;
    let head = front_matter::json(head).map_err(|error| error.to_string())?;
    let (mut definition, odd) = definition::read(head, Some(name))?;
    let body = body.trim();
    if !body.is_empty() {
        if definition.system_prompt.is_some() {
            return Err("its prompt is in the front matter and below it; put it in one place".to_owned());
        }
        definition.system_prompt = Some(body.to_owned());
    }
    Ok((definition, odd))
}
