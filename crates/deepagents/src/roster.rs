//! The sub-agents there are: those that the agent was given, and those that files and skills define.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents_core::model::ModelRequest;
use deepagents_core::state::State;
use deepagents_core::tool::ToolSpec;

use crate::channels::{AgentOrigin, AgentsMetadata, ListedAgent};
use crate::definition::AgentDefinition;

/// Definitions whose sub-agents are remembered.
const REMEMBERED: usize = 1024;

/// Something with a name and a line of description.
pub(crate) trait Named: Clone {
    fn name(&self) -> &str;
    fn description(&self) -> &str;
}

type Make<T> = dyn Fn(&AgentDefinition) -> Result<T, String> + Send + Sync;

/// The sub-agents there are.
pub(crate) struct Roster<T> {
    given: Vec<T>,
    /// One of those given that a file may replace.
    gives_way: Option<&'static str>,
    make: Option<Box<Make<T>>>,
    /// What was made of definitions, or why nothing could be.
    made: Mutex<BTreeMap<String, Result<T, String>>>,
}

impl<T: Named> Roster<T> {
    /// Those given, and no others.
    pub(crate) fn fixed(given: Vec<T>) -> Self {
        Self { given, gives_way: None, make: None, made: Mutex::default() }
    }

    /// Those given, and those made of definitions.
    pub(crate) fn open(
        given: Vec<T>,
        gives_way: Option<&'static str>,
        make: impl Fn(&AgentDefinition) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self { gives_way, make: Some(Box::new(make)), ..Self::fixed(given) }
    }

    /// Those given.
    pub(crate) fn given(&self) -> &[T] {
        &self.given
    }

    /// Whether there are only those given.
    pub(crate) fn is_fixed(&self) -> bool {
        self.make.is_none()
    }

    /// All of them, in the order in which they are listed.
    pub(crate) fn all(&self, state: &State) -> Vec<T> {
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

    /// The one of a name.
    pub(crate) fn find(&self, state: &State, name: &str) -> Option<T> {
        self.all(state).into_iter().find(|agent| agent.name() == name)
    }

    /// The sub-agent of a definition, or why it is left out.
    pub(crate) fn admit(&self, listed: &ListedAgent) -> Result<T, String> {
        let definition = &listed.definition;
        let Some(make) = &self.make else { return Err("this agent has those it was given alone".to_owned()) };
        if self.given.iter().any(|given| given.name() == definition.name) {
            let may = self.gives_way == Some(definition.name.as_str()) && matches!(listed.origin, AgentOrigin::File(_));
            if !may {
                return Err("the agent was given another of that name".to_owned());
            }
        }
        let key = serde_json::to_string(definition).map_err(|error| error.to_string())?;
        if let Some(made) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return made.clone();
        }
        let made = make(definition);
        let mut known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, made.clone());
        made
    }
}

/// A tool whose description lists the sub-agents there are.
pub(crate) struct ListingTool {
    name: &'static str,
    /// With `{available_agents}` where the list goes.
    template: String,
    /// With the list of those given.
    description: String,
    /// The tool as it was last listed, so that the same list is the same bytes in the same place.
    last: Mutex<Option<Arc<ToolSpec>>>,
}

impl ListingTool {
    pub(crate) fn new<T: Named>(name: &'static str, template: &str, given: &[T]) -> Self {
        let description = listing(template, given);
        Self { name, template: template.to_owned(), description, last: Mutex::default() }
    }

    /// The description with the list of those given.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Lists in a request those that there are now; without any, the tool is not offered.
    pub(crate) fn list<T: Named>(&self, request: &mut ModelRequest, roster: &Roster<T>, state: &State) {
        if roster.is_fixed() {
            return;
        }
        // A tool of that name that is not ours is left alone.
        let ours = |spec: &Arc<ToolSpec>| spec.name == self.name && spec.description == self.description;
        let Some(at) = request.tools.iter().position(ours) else { return };
        let all = roster.all(state);
        if all.is_empty() {
            request.tools.remove(at);
            return;
        }
        let description = listing(&self.template, &all);
        let Some(spec) = request.tools.get_mut(at).filter(|spec| spec.description != description) else { return };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *spec = match &*last {
            Some(last) if last.description == description => last.clone(),
            _ => last.insert(Arc::new(ToolSpec { description, ..(**spec).clone() })).clone(),
        };
    }
}

/// A template with the list of sub-agents in the place of `{available_agents}`.
fn listing<T: Named>(template: &str, agents: &[T]) -> String {
    let lines: Vec<String> = agents.iter().map(|a| format!("- {}: {}", a.name(), a.description())).collect();
    template.trim_end().replace("{available_agents}", &lines.join("\n"))
}
