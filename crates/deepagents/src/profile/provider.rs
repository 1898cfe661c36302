//! Settings for creating the models of a provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::error::BoxError;
use deepagents_core::model::ChatModel;
use deepagents_models::{ConfigError, ModelConfig, Registry};
use serde_json::json;

use super::ProfileError;
use super::key::{check_key, provider};
use crate::shared::Shared;

type Check = dyn Fn(&str) -> Result<(), BoxError> + Send + Sync;
type Make = dyn Fn() -> ModelConfig + Send + Sync;

/// Defines how models are created: fixed settings, settings computed on each creation, and checks that may reject a
/// model.
///
/// ```
/// use deepagents::models::ModelConfig;
/// use deepagents::profile::ProviderProfile;
/// let profile = ProviderProfile::new(ModelConfig { streaming: Some(false), ..ModelConfig::default() })
///     .check(|model| if model.ends_with("-preview") { Err("no previews here".into()) } else { Ok(()) });
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProviderProfile {
    config: ModelConfig,
    checks: Vec<Shared<Check>>,
    make: Vec<Shared<Make>>,
}

impl ProviderProfile {
    /// Creates a profile with fixed settings.
    pub fn new(config: ModelConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Adds a check of a model's name, `provider:model`, before it is created; an error rejects the model.
    #[must_use]
    pub fn check(mut self, check: impl Fn(&str) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.checks.push(Shared(Arc::new(check)));
        self
    }

    /// Computes settings each time a model is created; they override the fixed ones.
    #[must_use]
    pub fn make(mut self, make: impl Fn() -> ModelConfig + Send + Sync + 'static) -> Self {
        self.make.push(Shared(Arc::new(make)));
        self
    }

    /// Merges this profile over another. Checks and computed settings of both apply, the other's first.
    #[must_use]
    pub fn over(self, base: &Self) -> Self {
        Self {
            config: self.config.over(&base.config),
            checks: base.checks.iter().cloned().chain(self.checks).collect(),
            make: base.make.iter().cloned().chain(self.make).collect(),
        }
    }
}

/// Provider profiles by `provider` or `provider:model`.
#[derive(Clone, Debug, Default)]
pub struct ProviderProfiles {
    by_key: BTreeMap<String, ProviderProfile>,
}

/// The application's identity for OpenRouter, and the providers that it may use.
///
/// ```
/// use deepagents::profile::{OpenRouter, ProviderProfiles};
/// let mut profiles = ProviderProfiles::builtin();
/// let of_app = OpenRouter { app_title: "Reports".into(), allow_azure: true, ..OpenRouter::default() };
/// profiles.replace("openrouter", of_app.profile())?;
/// # Ok::<(), deepagents::profile::ProfileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRouter {
    /// The application's URL; empty to omit it.
    pub app_url: String,
    /// The application's name; empty to omit it.
    pub app_title: String,
    /// Whether requests may be routed to Azure, whose filters reject many agent requests.
    pub allow_azure: bool,
}

impl Default for OpenRouter {
    fn default() -> Self {
        Self {
            app_url: "https://github.com/langchain-ai/deepagents".to_owned(),
            app_title: "Deep Agents".to_owned(),
            allow_azure: false,
        }
    }
}

impl OpenRouter {
    /// Returns the profile with these settings.
    pub fn profile(&self) -> ProviderProfile {
        let mut config = ModelConfig::default();
        for (name, value) in [("HTTP-Referer", &self.app_url), ("X-Title", &self.app_title)] {
            if !value.is_empty() {
                config.headers.push((name.to_owned(), value.clone()));
            }
        }
        if !self.allow_azure {
            config.extra.insert("provider".to_owned(), json!({"ignore": ["azure"]}));
        }
        ProviderProfile::new(config)
    }
}

impl ProviderProfiles {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the built-in profiles: OpenRouter receives the application's identity and does not route to Azure;
    /// NVIDIA receives the origin of the calls. The caller's settings override them.
    pub fn builtin() -> Self {
        let origin = vec![("X-BILLING-INVOKE-ORIGIN".to_owned(), "DeepAgents".to_owned())];
        let nvidia = ProviderProfile::new(ModelConfig { headers: origin, ..ModelConfig::default() });
        let profiles = [("openrouter", OpenRouter::default().profile()), ("nvidia", nvidia)];
        Self { by_key: profiles.into_iter().map(|(key, profile)| (key.to_owned(), profile)).collect() }
    }

    /// Adds a profile, merged over an existing one.
    ///
    /// # Errors
    /// Returns an error if the key is invalid.
    pub fn register(&mut self, key: &str, profile: ProviderProfile) -> Result<&mut Self, ProfileError> {
        check_key(key)?;
        let known = self.by_key.remove(key).unwrap_or_default();
        self.by_key.insert(key.to_owned(), profile.over(&known));
        Ok(self)
    }

    /// Adds a profile, replacing an existing one.
    ///
    /// # Errors
    /// Returns an error if the key is invalid.
    pub fn replace(&mut self, key: &str, profile: ProviderProfile) -> Result<&mut Self, ProfileError> {
        check_key(key)?;
        self.by_key.insert(key.to_owned(), profile);
        Ok(self)
    }

    /// Creates a model with the profile of its name merged over that of its provider. The caller's settings override
    /// both.
    ///
    /// # Errors
    /// Returns an error if a check rejects the model, or if the registry cannot create it.
    pub fn model(
        &self,
        registry: &Registry,
        name: &str,
        config: ModelConfig,
    ) -> Result<Arc<dyn ChatModel>, ConfigError> {
        for check in &self.lookup(name).checks {
            check(name).map_err(|error| ConfigError::Other(format!("`{name}` was refused: {error}")))?;
        }
        registry.model_with(name, config.over(&self.settings(name)))
    }

    /// Returns the settings for a model or a provider, for programs that create models themselves.
    pub fn settings(&self, name: &str) -> ModelConfig {
        let profile = self.lookup(name);
        profile.make.iter().fold(profile.config, |settings, make| make().over(&settings))
    }

    fn lookup(&self, name: &str) -> ProviderProfile {
        match (self.by_key.get(name), self.by_key.get(provider(name))) {
            (Some(exact), Some(base)) if name.contains(':') => exact.clone().over(base),
            (Some(profile), _) | (None, Some(profile)) => profile.clone(),
            (None, None) => ProviderProfile::default(),
        }
    }
}
