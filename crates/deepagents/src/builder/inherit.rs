//! Resolves the parts of a sub-agent: from its own spec, else from the defaults for all sub-agents, else from its
//! parent.

use std::sync::Arc;

use deepagents_core::middleware::DynMiddleware;
use deepagents_core::model::{ChatModel, ModelSettings};
use deepagents_core::run::Budget;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::DynTool;

use super::{DeepAgentBuilder, FILESYSTEM};
use crate::middleware::filesystem::EditTool;
use crate::middleware::subagents::DelegationLimits;
use crate::subagents::{ModelSpec, SubAgentSpec};
use crate::workspace::Workspace;

/// A model and its settings, where known.
type ModelChoice = (Option<Arc<dyn ChatModel>>, Option<ModelSettings>);
/// Tools, and the names of all allowed tools if they are restricted.
type ToolChoice = (Vec<Arc<dyn DynTool>>, Option<Vec<String>>);

impl DeepAgentBuilder {
    /// Returns the model of a sub-agent and its settings.
    pub(super) fn model_for(&self, spec: &SubAgentSpec, bound: bool) -> Result<ModelChoice, String> {
        let defaults = &self.sub_agent_defaults;
        let usual = defaults.model.as_ref().map(|model| model.0.clone());
        // A model given in code overrides one given by name; the sub-agent's own spec overrides both.
        let named = defaults.model_spec.as_ref().filter(|_| usual.is_none());
        let mut model = usual.or_else(|| self.model.clone());
        let given = spec.model.as_ref();
        if bound && given.is_some_and(|given| !given.extra.is_empty()) {
            return Err(
                "`extra` of a model can only be set in code, as it reaches beyond this agent's tools".to_owned()
            );
        }
        let name = [given, named].into_iter().flatten().find_map(ModelSpec::full_name);
        if let Some(name) = name.filter(|name| model.as_ref().is_none_or(|model| model.name() != name)) {
            model = Some(self.model_named(&name)?);
        }
        let settings =
            [given, named].into_iter().flatten().find_map(|given| given.settings().transpose()).transpose()?;
        let code = &spec.code;
        Ok((code.model.as_ref().map(|model| model.0.clone()).or(model), code.settings.clone().or(settings)))
    }

    #[cfg(feature = "models")]
    fn model_named(&self, name: &str) -> Result<Arc<dyn ChatModel>, String> {
        let models = self.models.as_ref().ok_or_else(|| {
            format!("the model `{name}` is not the parent agent's; say with `.models(...)` where it comes from")
        })?;
        models.model(name).map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "models"))]
    fn model_named(&self, name: &str) -> Result<Arc<dyn ChatModel>, String> {
        Err(format!("the model `{name}` is not the parent agent's, and the feature `models` is not enabled"))
    }

    /// Returns the tools of a sub-agent. If it does not choose any, the parent's choice applies.
    pub(super) fn tools_for(&self, spec: &SubAgentSpec, bound: bool) -> Result<ToolChoice, String> {
        let given = spec.code.tools.as_ref().or(self.sub_agent_defaults.tools.as_ref());
        let mut tools = match given {
            Some(tools) => tools.iter().map(|tool| tool.0.clone()).collect(),
            None => self.tools.clone(),
        };
        if let (true, Some(own), Some(above)) = (bound, &spec.tool_names, &self.nesting.only_tools)
            && let Some(name) = own.iter().find(|name| !above.contains(*name))
        {
            return Err(format!("there is no tool `{name}` for it; the parent agent has {}", above.join(", ")));
        }
        let only = spec.tool_names.clone().or_else(|| self.nesting.only_tools.clone());
        if let Some(names) = &only {
            tools.retain(|tool| names.contains(&tool.spec().name));
        }
        Ok((tools, only))
    }

    /// Returns the edit tool of a sub-agent, if its profile does not choose. Approvals and other rules go by the names of
    /// tools, so a bound one has no edit tool that this agent lacks.
    pub(super) fn edit_tool_for(&self, spec: &SubAgentSpec, bound: bool) -> Result<Option<EditTool>, String> {
        // A list of tools or a `Filesystem` of the caller decides which tools there are.
        if !bound || self.files.tools.is_some() || self.has_own(FILESYSTEM) {
            return Ok(spec.edit_tool.or(self.files.edit_tool));
        }
        let name = self.model.as_ref().map(|model| model.name()).unwrap_or_default();
        let profile = self.profiles.of_agent(name, self.profile.clone()).map_err(|error| error.to_string())?;
        let above = self.files.edit_tool.or(profile.config.edit_tool).unwrap_or_default();
        match spec.edit_tool {
            Some(own) if own != above && above != EditTool::Both => {
                Err("its `edit_tool` would give it a tool that this agent does not have".to_owned())
            }
            own => Ok(own.or(Some(above))),
        }
    }

    /// Returns the workspace of a sub-agent.
    pub(super) fn workspace_for(&self, spec: &SubAgentSpec) -> Result<Workspace, String> {
        if let Some(backend) = &spec.code.backend {
            return Ok(Workspace::shared(backend.clone()));
        }
        let Some(name) = &spec.backend else { return Ok(self.workspace.clone()) };
        let backend = self.named_backends.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.named_backends.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("no backend `{name}` was given with `.named_backend(...)`; there are {known}")
        })?;
        Ok(Workspace::shared(backend.clone()))
    }

    /// Returns the budget of a sub-agent in addition to the shared one.
    pub(super) fn budget_for(&self, spec: &SubAgentSpec) -> Result<Budget, String> {
        let from_spec = spec.budget.as_ref().map(crate::subagents::BudgetSpec::budget).transpose()?;
        Ok(spec.code.budget.clone().or(from_spec).unwrap_or_default())
    }

    /// Returns the middlewares of a sub-agent: the common ones of all sub-agents, then those of its spec.
    pub(super) fn middlewares_for(&self, spec: &SubAgentSpec) -> Vec<Arc<dyn DynMiddleware>> {
        let own = spec.code.middlewares.iter().map(|middleware| middleware.0.clone());
        let common = self.sub_agent_defaults.middlewares.iter().filter(|common| !has_own(spec, common.name()));
        common.map(|middleware| middleware.0.clone()).chain(own).collect()
    }

    /// Returns `true` if a sub-agent has its own middleware of this name.
    pub(super) fn replaces(&self, spec: &SubAgentSpec, name: &str) -> bool {
        has_own(spec, name) || self.sub_agent_defaults.has(name)
    }

    /// Returns the channels of this agent that its sub-agents inherit and hand back. Includes everything declared here,
    /// because a sub-agent may lack the middlewares and tools that declare them.
    pub(super) fn channels_below(&self) -> Vec<ChannelSpec> {
        let of_middlewares = self.own.iter().flat_map(|middleware| middleware.channels());
        let of_tools = self.tools.iter().chain(&self.skill_tools).flat_map(|tool| tool.channels());
        let all = self.options.channels.iter().copied().chain(of_middlewares).chain(of_tools);
        all.filter(ChannelSpec::is_inherited).collect()
    }
}

fn has_own(spec: &SubAgentSpec, name: &str) -> bool {
    spec.code.middlewares.iter().any(|own| own.name() == name)
}

/// Returns the delegation limits of a sub-agent with `depth` agents above it: never more than those of its parent.
pub(super) fn limits_for(above: &DelegationLimits, spec: &SubAgentSpec, depth: usize) -> DelegationLimits {
    let Some(own) = &spec.limits else { return above.clone() };
    let own_depth = depth.saturating_add(own.depth);
    DelegationLimits { depth: above.depth.min(own_depth), at_once: above.at_once.min(own.at_once) }
}
