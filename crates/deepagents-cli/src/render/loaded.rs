//! What a run loaded from files at its start.

use std::borrow::Cow;

use deepagents::channels::{AgentsMetadata, MemoryContents, SkillsMetadata};
use deepagents::core::event::LoadedFile;
use deepagents::{Event, EventKind, MiddlewareEvent, State};

use super::style::{grouped, printable};

/// How many names of a kind are shown.
const MAX_NAMES: usize = 8;

/// What was loaded from files: paths of memory files, and names of the rest.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) memory: Vec<String>,
    pub(crate) skills: Vec<String>,
    pub(crate) agents: Vec<String>,
    /// MCP servers.
    pub(crate) servers: Vec<String>,
}

impl Loaded {
    /// Returns what an earlier run of the thread loaded, as far as the agent still has it.
    pub(crate) fn before(state: &State) -> Self {
        let memory = state.get::<MemoryContents>().into_iter().flatten();
        let skills = state.get::<SkillsMetadata>().and_then(Option::as_ref);
        let agents = state.get::<AgentsMetadata>().and_then(Option::as_ref);
        let agents = agents.into_iter().flat_map(|catalogue| &catalogue.agents);
        Self {
            memory: memory.filter(|(_, file)| file.problem.is_none()).map(|(path, _)| path.to_string()).collect(),
            skills: skills.into_iter().flat_map(|catalogue| &catalogue.skills).map(|s| s.name.clone()).collect(),
            agents: agents.map(|agent| agent.definition.name.clone()).collect(),
            servers: Vec::new(),
        }
    }

    /// Records an event of the main agent. If it is about loading files or servers, returns their problems.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Vec<String>> {
        let EventKind::Middleware(told) = &event.kind else { return None };
        if !event.path.is_empty() {
            return None;
        }
        match told {
            MiddlewareEvent::MemoryLoaded { files } => Some(self.take_memory(files)),
            MiddlewareEvent::SkillsLoaded { skills, warnings } => {
                self.skills.clone_from(skills);
                Some(warnings.clone())
            }
            MiddlewareEvent::SubAgentsLoaded { agents, warnings } => {
                self.agents.clone_from(agents);
                Some(warnings.clone())
            }
            MiddlewareEvent::McpServer { server, problem: Some(problem), .. } => {
                self.servers.retain(|known| known != server);
                Some(vec![problem.clone()])
            }
            MiddlewareEvent::McpServer { server, .. } => {
                if !self.servers.contains(server) {
                    self.servers.push(server.clone());
                }
                Some(Vec::new())
            }
            _ => None,
        }
    }

    fn take_memory(&mut self, files: &[LoadedFile]) -> Vec<String> {
        let mut problems = Vec::new();
        for file in files {
            self.memory.retain(|known| known != file.path());
            match file {
                LoadedFile::Read { path, chars, cut } => {
                    self.memory.push(path.clone());
                    let chars = grouped(u64::try_from(*chars).unwrap_or(u64::MAX));
                    problems.extend(
                        cut.then(|| format!("{path} is too long: the agent sees only its first {chars} characters")),
                    );
                }
                LoadedFile::Unreadable { path, problem } => {
                    problems.push(format!("{path} could not be read: {problem}"));
                }
                _ => {}
            }
        }
        problems
    }

    /// Describes all of it in one line; `None` if nothing was loaded.
    pub(crate) fn line(&self) -> Option<String> {
        let kinds =
            [("memory", &self.memory), ("skills", &self.skills), ("sub-agents", &self.agents), ("mcp", &self.servers)];
        let parts: Vec<String> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind}: {}", name_list(names)))
            .collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }
}

/// Returns the names, or the first of them, without control characters, since they come from files.
pub(crate) fn name_list(names: &[String]) -> String {
    let shown: Vec<Cow<'_, str>> = names.iter().take(MAX_NAMES).map(|name| printable(name)).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
