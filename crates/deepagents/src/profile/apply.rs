//! A profile put to work on an agent that is being built.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::tool::DynTool;

use super::{HarnessProfile, ProfileError};
use crate::description_override::DescriptionOverride;
use crate::middleware::ToolFilter;

/// The tool whose description names the sub-agents.
const TASK: &str = "task";

impl From<ProfileError> for BuildError {
    fn from(error: ProfileError) -> Self {
        Self::Option(error.to_string())
    }
}

impl HarnessProfile {
    /// The sections after the caller's prompt.
    pub(crate) fn prompts<'a>(&'a self, standard: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let base = self.config.base_system_prompt.as_deref().or(standard);
        let sections = base.into_iter().chain(self.config.system_prompt_suffix.as_deref());
        sections.filter(|text| !text.trim().is_empty())
    }

    /// The middlewares it adds, without those of which there is one already or that are not wanted.
    pub(crate) fn extras(&self, there: impl Fn(&str) -> bool) -> Vec<Arc<dyn DynMiddleware>> {
        self.extra_middleware.iter().filter(|extra| !there(extra.name())).cloned().collect()
    }

    /// Its description of the tool `task`, in which the sub-agents are yet to be named.
    pub(crate) fn task_description(&self) -> Option<&String> {
        self.config.tool_description_overrides.get(TASK)
    }

    /// Takes out what it excludes, and puts in what keeps excluded tools away. `known` says of a name whether some
    /// agent has such a middleware, if not this one.
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

    /// Gives tools the descriptions that the profile has for them: the caller's in place, those of middlewares as tools
    /// of the caller, which come before them.
    pub(crate) fn describe(&self, stack: &[Arc<dyn DynMiddleware>], tools: &mut Vec<Arc<dyn DynTool>>) {
        let texts = &self.config.tool_description_overrides;
        if texts.is_empty() {
            return;
        }
        tools.iter_mut().for_each(|tool| *tool = DescriptionOverride::by(texts, tool.clone()));
        // Where `task` is made, its description has been put to use.
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
