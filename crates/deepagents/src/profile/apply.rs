//! Applies a profile to an agent that is being built.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::tool::DynTool;

use super::{HarnessProfile, ProfileError};
use crate::description_override::DescriptionOverride;
use crate::middleware::ToolFilter;

/// The tool whose description lists the sub-agents.
const TASK: &str = "task";

impl From<ProfileError> for BuildError {
    fn from(error: ProfileError) -> Self {
        Self::Option(error.to_string())
    }
}

impl HarnessProfile {
    /// Returns the sections after the caller's prompt.
    pub(crate) fn prompts<'a>(&'a self, standard: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let base = self.config.base_system_prompt.as_deref().or(standard);
        let sections = base.into_iter().chain(self.config.system_prompt_suffix.as_deref());
        sections.filter(|text| !text.trim().is_empty())
    }

    /// Returns the middlewares that the profile adds, except those for whose names `there` returns `true`.
    pub(crate) fn extras(&self, there: impl Fn(&str) -> bool) -> Vec<Arc<dyn DynMiddleware>> {
        self.extra_middleware.iter().filter(|extra| !there(extra.name())).cloned().collect()
    }

    /// Returns its description of the tool `task`, with the placeholder for the sub-agents.
    pub(crate) fn task_description(&self) -> Option<&String> {
        self.config.tool_description_overrides.get(TASK)
    }

    /// Removes the excluded middlewares and adds a filter for the excluded tools. `known` returns `true` for the name
    /// of a middleware that other agents may have even if this one does not.
    pub(crate) fn prune(
        &self,
        stack: &mut Vec<Arc<dyn DynMiddleware>>,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), BuildError> {
        for name in &self.config.excluded_middleware {
            let before = stack.len();
            stack.retain(|middleware| middleware.name() != name);
            if stack.len() == before && !known(name) {
                let known = stack.iter().map(|middleware| middleware.name().to_owned()).collect();
                return Err(ProfileError::NothingExcluded { name: name.clone(), known }.into());
            }
        }
        if !self.config.excluded_tools.is_empty() {
            stack.push(Arc::new(ToolFilter::exclude(&self.config.excluded_tools)));
        }
        Ok(())
    }

    /// Applies the profile's tool descriptions. The caller's tools are wrapped in place; tools of middlewares are
    /// wrapped and added to the caller's, which take precedence.
    pub(crate) fn describe(&self, stack: &[Arc<dyn DynMiddleware>], tools: &mut Vec<Arc<dyn DynTool>>) {
        let texts = &self.config.tool_description_overrides;
        if texts.is_empty() {
            return;
        }
        tools.iter_mut().for_each(|tool| *tool = DescriptionOverride::by(texts, tool.clone()));
        // The description of `task` is applied where that tool is built.
        let mut done: BTreeSet<String> = tools.iter().map(|tool| tool.spec().name).collect();
        done.insert(TASK.to_owned());
        for tool in stack.iter().flat_map(|middleware| middleware.tools()) {
            let name = tool.spec().name;
            if texts.contains_key(&name) && done.insert(name) {
                tools.push(DescriptionOverride::by(texts, tool));
            }
        }
    }
}
