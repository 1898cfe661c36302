//! The sub-agents of an agent: given in code, or defined by files and skills.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use deepagents_core::agent::BuildError;
use deepagents_core::model::ModelRequest;
use deepagents_core::state::State;
use deepagents_core::tool::{ToolError, ToolSpec};

use super::{DynSubAgent, SubAgentSpec};
use crate::channels::{AgentOrigin, AgentsMetadata, ListedAgent};
use crate::shared::lock;

/// Maximum number of cached definitions.
const MAX_CACHED_DEFINITIONS: usize = 1024;

type Agent = Arc<dyn DynSubAgent>;
type Make = dyn Fn(&SubAgentSpec) -> Result<Agent, String> + Send + Sync;

/// The sub-agents of an agent.
pub(crate) struct Registry {
    given: Vec<Agent>,
    /// The name of a given sub-agent that a file may replace.
    replaceable: Option<&'static str>,
    make: Option<Box<Make>>,
    /// The sub-agents built from definitions, or the errors.
    made: Mutex<BTreeMap<String, Result<Agent, String>>>,
}

impl Registry {
    /// Creates a registry of the given sub-agents only.
    ///
    /// # Errors
    /// Returns an error if two have the same name.
    pub(crate) fn fixed(given: Vec<Agent>) -> Result<Self, BuildError> {
        let mut names = HashSet::new();
        if let Some(twice) = given.iter().find(|agent| !names.insert(agent.name())) {
            let name = twice.name();
            return Err(BuildError::Option(format!("two sub-agents are named `{name}`; give each a name of its own")));
        }
        Ok(Self { given, replaceable: None, make: None, made: Mutex::default() })
    }

    /// Creates a registry of the given sub-agents and of any that files and skills define.
    ///
    /// # Errors
    /// Returns an error if two of the given ones have the same name.
    pub(crate) fn open(
        given: Vec<Agent>,
        replaceable: Option<&'static str>,
        make: impl Fn(&SubAgentSpec) -> Result<Agent, String> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        Ok(Self { replaceable, make: Some(Box::new(make)), ..Self::fixed(given)? })
    }

    /// Returns the given sub-agents.
    pub(crate) fn given(&self) -> &[Agent] {
        &self.given
    }

    /// Returns `true` if the work of the named sub-agent may be restarted. Always true for those of files and skills.
    pub(crate) fn is_idempotent(&self, name: &str) -> bool {
        self.given.iter().find(|agent| agent.name() == name).is_none_or(|agent| agent.idempotent())
    }

    /// Returns `true` if there are only the given sub-agents.
    pub(crate) fn is_fixed(&self) -> bool {
        self.make.is_none()
    }

    /// Returns all sub-agents in the order in which they are listed.
    pub(crate) fn all(&self, state: &State) -> Vec<Agent> {
        let catalogue = state.get::<AgentsMetadata>().and_then(Option::as_ref).filter(|_| !self.is_fixed());
        let listed = catalogue.into_iter().flat_map(|catalogue| &catalogue.agents);
        let mut all = self.given.clone();
        for agent in listed.filter_map(|listed| self.admit(listed).ok()) {
            match all.iter_mut().find(|known| known.name() == agent.name()) {
                Some(known) => *known = agent,
                None => all.push(agent),
            }
        }
        all
    }

    /// Returns the sub-agent with this name.
    ///
    /// # Errors
    /// Returns an error for the model with the known names if there is none.
    pub(crate) fn find(&self, state: &State, name: &str) -> Result<Agent, ToolError> {
        let all = self.all(state);
        all.iter().find(|agent| agent.name() == name).cloned().ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|agent| agent.name()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            ToolError::model(format!("Error: there is no sub-agent {name}; there are {known}."))
        })
    }

    /// Returns the sub-agent of a definition, or why it is left out.
    pub(crate) fn admit(&self, listed: &ListedAgent) -> Result<Agent, String> {
        let spec = &listed.definition;
        let Some(make) = &self.make else { return Err("this agent has those it was given alone".to_owned()) };
        if self.given.iter().any(|given| given.name() == spec.name) {
            let may = self.replaceable == Some(spec.name.as_str()) && matches!(listed.origin, AgentOrigin::File(_));
            if !may {
                return Err("the agent was given another of that name".to_owned());
            }
        }
        let key = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        if let Some(made) = lock(&self.made).get(&key) {
            return made.clone();
        }
        let made = make(spec);
        let mut known = lock(&self.made);
        if known.len() >= MAX_CACHED_DEFINITIONS {
            known.clear();
        }
        known.insert(key, made.clone());
        made
    }
}

/// A tool whose description lists the available sub-agents.
pub(crate) struct ListingTool {
    name: &'static str,
    /// The description with the placeholder `{available_agents}`.
    template: String,
    /// The description with the list of given sub-agents.
    description: String,
    /// The tool as last listed, so that an unchanged list reuses the same allocation.
    last: Mutex<Option<Arc<ToolSpec>>>,
}

impl ListingTool {
    pub(crate) fn new(name: &'static str, template: &str, given: &[Agent]) -> Self {
        let description = listing(template, given);
        Self { name, template: template.to_owned(), description, last: Mutex::default() }
    }

    /// Returns the description with the list of given sub-agents.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Updates the list in a request. If there are no sub-agents, the tool is not offered.
    pub(crate) fn list(&self, request: &mut ModelRequest, registry: &Registry, state: &State) {
        if registry.is_fixed() {
            return;
        }
        // Leaves another tool of the same name alone.
        let ours = |spec: &Arc<ToolSpec>| spec.name == self.name && spec.description == self.description;
        let Some(at) = request.tools.iter().position(ours) else { return };
        let all = registry.all(state);
        if all.is_empty() {
            request.tools.remove(at);
            return;
        }
        let description = listing(&self.template, &all);
        let Some(spec) = request.tools.get_mut(at).filter(|spec| spec.description != description) else { return };
        let mut last = lock(&self.last);
        *spec = match &*last {
            Some(last) if last.description == description => last.clone(),
            _ => last.insert(Arc::new(ToolSpec { description, ..(**spec).clone() })).clone(),
        };
    }
}

/// Fills the list of sub-agents into a template.
fn listing(template: &str, agents: &[Agent]) -> String {
    let lines: Vec<String> = agents.iter().map(|a| format!("- {}: {}", a.name(), a.description())).collect();
    template.trim_end().replace("{available_agents}", &lines.join("\n"))
}
