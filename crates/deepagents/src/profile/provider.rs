//! How the models of a provider are made.

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

/// How models are made: settings, settings computed when a model is made, and checks that may refuse one.
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
    /// A profile of settings.
    pub fn new(config: ModelConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Looks at a model's name, `provider:model`, before it is made, and refuses it with an error.
    #[must_use]
    pub fn check(mut self, check: impl Fn(&str) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.checks.push(Shared(Arc::new(check)));
        self
    }

    /// Computes settings each time a model is made; they win over the fixed ones.
    #[must_use]
    pub fn make(mut self, make: impl Fn() -> ModelConfig + Send + Sync + 'static) -> Self {
        self.make.push(Shared(Arc::new(make)));
        self
    }

    /// This profile over another: checks and computed settings of both, the other's first.
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

/// What OpenRouter is told of the application, and whom it may ask.
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
    /// The application's address; empty to say none.
    pub app_url: String,
    /// The application's name; empty to say none.
    pub app_title: String,
    /// Whether requests may go to Azure, whose filters refuse much of what agents do.
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
    /// The profile that says so.
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
    /// No profiles.
    pub fn new() -> Self {
        Self::default()
    }

    /// The profiles that come with the library: OpenRouter is told which application asks and does not hand requests on to
    /// Azure, NVIDIA is told where its calls come from. What a caller says otherwise wins.
    pub fn builtin() -> Self {
        let origin = vec![("X-BILLING-INVOKE-ORIGIN".to_owned(), "DeepAgents".to_owned())];
        let nvidia = ProviderProfile::new(ModelConfig { headers: origin, ..ModelConfig::default() });
        let profiles = [("openrouter", OpenRouter::default().profile()), ("nvidia", nvidia)];
        Self { by_key: profiles.into_iter().map(|(key, profile)| (key.to_owned(), profile)).collect() }
    }

    /// Adds a profile; over one that is there already.
    ///
    /// # Errors
    /// When the key is none.
    pub fn register(&mut self, key: &str, profile: ProviderProfile) -> Result<&mut Self, ProfileError> {
        check_key(key)?;
        let known = self.by_key.remove(key).unwrap_or_default();
        self.by_key.insert(key.to_owned(), profile.over(&known));
        Ok(self)
    }

    /// Puts a profile in the place of one that is there.
    ///
    /// # Errors
    /// When the key is none.
    pub fn replace(&mut self, key: &str, profile: ProviderProfile) -> Result<&mut Self, ProfileError> {
        check_key(key)?;
        self.by_key.insert(key.to_owned(), profile);
        Ok(self)
    }

    /// Makes a model under the profile of its name over that of its provider. The caller's settings win over both.
    ///
    /// # Errors
    /// When a check refuses the model, or the registry cannot make it.
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

    /// What the profiles say of a model, or of a provider, for a program that makes its models itself.
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
