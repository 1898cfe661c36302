//! Adjustments to the agents of a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use deepagents_core::middleware::{DynMiddleware, Middleware};
use serde::{Deserialize, Serialize};

use super::ProfileError;
use crate::middleware::filesystem::EditTool;

/// Middlewares that no profile may exclude.
const REQUIRED: [&str; 2] = ["Filesystem", "SubAgents"];

/// The serializable part of a profile, which is its form in files.
///
/// ```
/// use deepagents::profile::ProfileConfig;
/// let config: ProfileConfig = serde_json::from_str(r#"{"excluded_tools": ["execute"]}"#)?;
/// assert!(config.excluded_tools.contains("execute"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileConfig {
    /// A section after the caller's prompt that replaces the standard one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_system_prompt: Option<String>,
    /// A section after the base prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_suffix: Option<String>,
    /// Replacements for tool descriptions, by tool name. Names that no tool has are ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_description_overrides: BTreeMap<String, String>,
    /// Tools that are neither offered nor run.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub excluded_tools: BTreeSet<String>,
    /// The tool with which the model edits files, unless the caller sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_tool: Option<EditTool>,
    /// Names of middlewares to leave out.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub excluded_middleware: BTreeSet<String>,
    /// Changes to the sub-agent `general-purpose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub general_purpose_subagent: Option<GeneralPurpose>,
}

/// Changes to the sub-agent `general-purpose`; unset fields keep their defaults.
///
/// ```
/// use deepagents::profile::{GeneralPurpose, ProfileConfig};
/// let without = ProfileConfig {
///     general_purpose_subagent: Some(GeneralPurpose { enabled: Some(false), ..GeneralPurpose::default() }),
///     ..ProfileConfig::default()
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneralPurpose {
    /// Whether it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its description, which the main agent's model is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its system prompt; replaces [`base_system_prompt`](ProfileConfig::base_system_prompt).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
}

/// A profile: serializable settings and extra middlewares.
///
/// ```
/// use deepagents::middleware::TodoList;
/// use deepagents::profile::{HarnessProfile, ProfileConfig};
/// let profile = HarnessProfile::from(ProfileConfig {
///     system_prompt_suffix: Some("Answer briefly.".into()),
///     ..ProfileConfig::default()
/// })
/// .extra(TodoList::default());
/// ```
#[derive(Clone, Default)]
pub struct HarnessProfile {
    /// The serializable part.
    pub config: ProfileConfig,
    /// Middlewares to add after the caller's; ignored if the agent already has one of that name.
    pub extra_middleware: Vec<Arc<dyn DynMiddleware>>,
}

impl From<ProfileConfig> for HarnessProfile {
    fn from(config: ProfileConfig) -> Self {
        Self { config, extra_middleware: Vec::new() }
    }
}

impl HarnessProfile {
    /// Adds a middleware.
    #[must_use]
    pub fn extra(mut self, middleware: impl Middleware) -> Self {
        self.extra_middleware.push(Arc::new(middleware));
        self
    }

    /// Returns the serializable form.
    ///
    /// # Errors
    /// Returns an error if there are extra middlewares, which cannot be serialized.
    pub fn to_config(&self) -> Result<ProfileConfig, ProfileError> {
        if self.extra_middleware.is_empty() {
            return Ok(self.config.clone());
        }
        Err(ProfileError::Extras { names: self.extra_middleware.iter().map(|m| m.name().to_owned()).collect() })
    }

    /// Merges this profile over another: values set here take precedence, descriptions and exclusions are combined, and
    /// an extra middleware replaces one of the same name.
    #[must_use]
    pub fn over(self, base: &Self) -> Self {
        let mut extra_middleware = base.extra_middleware.clone();
        for extra in self.extra_middleware {
            match extra_middleware.iter_mut().find(|known| known.name() == extra.name()) {
                Some(known) => *known = extra,
                None => extra_middleware.push(extra),
            }
        }
        Self { config: self.config.over(&base.config), extra_middleware }
    }

    /// Rejects invalid exclusions.
    ///
    /// # Errors
    /// Returns an error if a required middleware is excluded, or if an excluded name is not valid.
    pub fn check(&self) -> Result<(), ProfileError> {
        for name in &self.config.excluded_middleware {
            if REQUIRED.contains(&name.as_str()) {
                return Err(ProfileError::Required { name: name.clone() });
            }
            if name.trim().is_empty() || name.contains(':') || name.starts_with('_') {
                return Err(ProfileError::MiddlewareName { name: name.clone() });
            }
        }
        Ok(())
    }
}

impl ProfileConfig {
    fn over(self, base: &Self) -> Self {
        let mut out = base.clone();
        out.base_system_prompt = self.base_system_prompt.or(out.base_system_prompt);
        out.system_prompt_suffix = self.system_prompt_suffix.or(out.system_prompt_suffix);
        out.tool_description_overrides.extend(self.tool_description_overrides);
        out.excluded_tools.extend(self.excluded_tools);
        out.edit_tool = self.edit_tool.or(out.edit_tool);
        out.excluded_middleware.extend(self.excluded_middleware);
        out.general_purpose_subagent = match (self.general_purpose_subagent, out.general_purpose_subagent) {
            (Some(own), Some(base)) => Some(GeneralPurpose {
                enabled: own.enabled.or(base.enabled),
                description: own.description.or(base.description),
                system_prompt: own.system_prompt.or(base.system_prompt),
            }),
            (own, base) => own.or(base),
        };
        out
    }
}

impl fmt::Debug for HarnessProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessProfile")
            .field("config", &self.config)
            .field("extra_middleware", &self.extra_middleware.iter().map(|m| m.name()).collect::<Vec<_>>())
            .finish()
    }
}
