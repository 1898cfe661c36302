//! Finds the skills of all sources and reads them after changes.

use std::collections::{BTreeMap, HashSet};

use deepagents_core::state::State;
use deepagents_fs::{Backend, Kind, VPath};
use futures_util::future::{OptionFuture, join, join_all};
use futures_util::{StreamExt, stream};

use super::source::Source;
use super::{agents, parse};
use crate::channels::{Skill, SkillCatalogue, SkillFingerprint};
use crate::front_matter::{self, Texts};
use crate::workspace::{MAX_CONCURRENT_CHECKS, read_whole_text, version_of, versions_of};

/// Maximum size in bytes of a skill's file.
pub(super) const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum size in bytes of a file with a skill's sub-agents.
const MAX_AGENTS_BYTES: u64 = 256 * 1024;

/// A directory that may contain a skill.
struct Candidate {
    name: String,
    skill: VPath,
    agents: VPath,
}

/// The contents of the sources, by names and versions only.
struct Survey {
    candidates: Vec<Candidate>,
    fingerprint: SkillFingerprint,
    warnings: Vec<String>,
}

/// Returns the catalogue if it differs from the known one.
pub(super) async fn refreshed(
    backend: &dyn Backend,
    state: &State,
    sources: &[Source],
    known: Option<&SkillCatalogue>,
) -> Option<SkillCatalogue> {
    let survey = survey(backend, state, sources).await;
    if known.is_some_and(|known| known.fingerprint.as_ref() == Some(&survey.fingerprint)) {
        return None;
    }
    Some(read(backend, state, survey).await)
}

async fn survey(backend: &dyn Backend, state: &State, sources: &[Source]) -> Survey {
    let listings = join_all(sources.iter().map(|source| backend.list(state, &source.path))).await;
    let mut warnings = Vec::new();
    let mut versions = BTreeMap::new();
    let mut candidates = Vec::new();
    for (source, listing) in sources.iter().zip(listings) {
        match listing {
            Ok(listing) => {
                let directories = listing.entries.into_iter().filter(|entry| entry.kind == Kind::Directory);
                candidates.extend(directories.filter_map(|entry| candidate(&entry.path)));
            }
            Err(error) => {
                // The directory of a source may not exist yet.
                let Some(version) = version_of(&error) else { continue };
                warnings.push(format!("Cannot load skills from '{}': {error}", source.path));
                versions.insert(source.path.clone(), version);
            }
        }
    }
    let paths = candidates.iter().flat_map(|candidate| [candidate.skill.clone(), candidate.agents.clone()]).collect();
    versions.extend(versions_of(backend, state, paths).await);
    candidates.retain(|candidate| versions.contains_key(&candidate.skill));
    let sources = sources.iter().map(|source| source.path.clone()).collect();
    Survey { candidates, fingerprint: SkillFingerprint { sources, versions }, warnings }
}

fn candidate(directory: &VPath) -> Option<Candidate> {
    Some(Candidate {
        name: directory.name()?.to_owned(),
        skill: directory.join("SKILL.md").ok()?,
        agents: directory.join("agents.yaml").ok()?,
    })
}

async fn read(backend: &dyn Backend, state: &State, survey: Survey) -> SkillCatalogue {
    let Survey { candidates, fingerprint, mut warnings } = survey;
    let versions = &fingerprint.versions;
    let reads = candidates.iter().map(|candidate| async move {
        let agents = versions.contains_key(&candidate.agents);
        let agents = agents.then(|| read_whole_text(backend, state, &candidate.agents, MAX_AGENTS_BYTES));
        let agents = OptionFuture::from(agents);
        let (skill, agents) = join(read_whole_text(backend, state, &candidate.skill, MAX_BYTES), agents).await;
        understand(candidate, skill, agents)
    });
    let reads: Vec<_> = reads.collect();
    let found: Vec<_> = stream::iter(reads).buffered(MAX_CONCURRENT_CHECKS).collect().await;
    let mut skills: Vec<Skill> = Vec::new();
    for (skill, odd) in found {
        warnings.extend(odd);
        let Some(skill) = skill else { continue };
        match skills.iter_mut().find(|known| known.name == skill.name) {
            Some(known) => *known = skill,
            None => skills.push(skill),
        }
    }
    let mut taken = HashSet::new();
    for skill in &mut skills {
        skill.agents.retain(|agent| {
            let free = taken.insert(agent.name.clone());
            if !free {
                warnings.push(format!("{}: another skill already defines a sub-agent `{}`", skill.path, agent.name));
            }
            free
        });
    }
    SkillCatalogue { skills, warnings, fingerprint: Some(fingerprint) }
}

fn understand(
    candidate: &Candidate,
    skill: Result<String, String>,
    agents: Option<Result<String, String>>,
) -> (Option<Skill>, Vec<String>) {
    let text = match skill {
        Ok(text) => text,
        Err(why) => return (None, vec![format!("Skipped {}: {why}", candidate.skill)]),
    };
    let (mut skill, mut warnings) = match parse::skill(&text, &candidate.skill, &candidate.name) {
        Ok(parsed) => parsed,
        Err(why) => return (None, vec![why]),
    };
    let path = &candidate.agents;
    match agents.map(|text| front_matter::yaml(&text?, Texts::ByKey).map_err(|error| error.to_string())) {
        None => {}
        Some(Err(why)) => warnings.push(format!("Skipped {path}: {why}")),
        Some(Ok(given)) => {
            let (more, odd) = agents::read(given, path);
            warnings.extend(odd);
            for agent in more {
                if skill.agents.iter().any(|known| known.name == agent.name) {
                    warnings.push(format!("{path}: the skill already defines a sub-agent `{}`", agent.name));
                } else {
                    skill.agents.push(agent);
                }
            }
        }
    }
    (Some(skill), warnings)
}
