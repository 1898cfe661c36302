//! A profile put to work on an agent that is being built.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::tool::DynTool;

use super::{HarnessProfile, ProfileError, Profiles, ToolExclusion};
use crate::described::Described;

/// The tool whose description names the sub-agents.
const TASK: &str = "task";

impl From<ProfileError> for BuildError {
    fn from(error: ProfileError) -> Self {
        Self::Option(error.to_string())
    }
}

/// The profile of one agent.
#[derive(Default)]
pub(crate) struct Applied {
    pub(crate) profile: HarnessProfile,
}

impl Applied {
    /// The profile found for a model, with the caller's own over it.
    pub(crate) fn find(profiles: &Profiles, model: &str, own: Option<HarnessProfile>) -> Result<Self, BuildError> {
        let found = profiles.lookup(model);
        let profile = match own {
            Some(own) => own.over(&found),
            None => found,
        };
        profile.check()?;
        Ok(Self { profile })
    }

    /// The sections after the caller's prompt.
    pub(crate) fn prompts<'a>(&'a self, standard: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let base = self.profile.config.base_system_prompt.as_deref().or(standard);
        let sections = base.into_iter().chain(self.profile.config.system_prompt_suffix.as_deref());
        sections.filter(|text| !text.trim().is_empty())
    }

    /// The middlewares it adds, without those of which there is one already or that are not wanted.
    pub(crate) fn extras(&self, there: impl Fn(&str) -> bool) -> Vec<Arc<dyn DynMiddleware>> {
        self.profile.extra_middleware.iter().filter(|extra| !there(extra.name())).cloned().collect()
    }

    /// Its description of the tool `task`, in which the sub-agents are yet to be named.
    pub(crate) fn task_description(&self) -> Option<&String> {
        self.profile.config.tool_description_overrides.get(TASK)
    }

    /// Takes out what it excludes, and puts in what keeps excluded tools away. `known` says of a name whether some
    /// agent has such a middleware, if not this one.
    pub(crate) fn prune(
        &self,
        stack: &mut Vec<Arc<dyn DynMiddleware>>,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), BuildError> {
        for name in &self.profile.config.excluded_middleware {
            let before = stack.len();
            stack.retain(|middleware| middleware.name() != name);
            if stack.len() == before && !known(name) {
                let known = stack.iter().map(|middleware| middleware.name().to_owned()).collect();
                return Err(ProfileError::NothingExcluded { name: name.clone(), known }.into());
            }
        }
        if !self.profile.config.excluded_tools.is_empty() {
            stack.push(Arc::new(ToolExclusion::new(self.profile.config.excluded_tools.iter())));
        }
        Ok(())
    }

    /// Gives tools the descriptions that the profile has for them: the caller's in place, those of middlewares as tools
    /// of the caller, which come before them.
    pub(crate) fn describe(&self, stack: &[Arc<dyn DynMiddleware>], tools: &mut Vec<Arc<dyn DynTool>>) {
        let mut left: BTreeMap<&str, &str> = BTreeMap::new();
        left.extend(self.profile.config.tool_description_overrides.iter().map(|(name, text)| (&**name, &**text)));
        if left.is_empty() {
            return;
        }
        for tool in tools.iter_mut() {
            if let Some(text) = left.remove(tool.spec().name.as_str()) {
                *tool = Arc::new(Described { tool: tool.clone(), description: text.to_owned() });
            }
        }
        // Where that tool is made, its description has been put to use.
        left.remove(TASK);
        for tool in stack.iter().flat_map(|middleware| middleware.tools()) {
            if let Some(text) = left.remove(tool.spec().name.as_str()) {
                tools.push(Arc::new(Described { tool, description: text.to_owned() }));
            }
        }
    }
}
