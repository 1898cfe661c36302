//! How the models of a provider are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::error::BoxError;
use deepagents_core::model::ChatModel;
use deepagents_models::{ConfigError, ModelConfig, Registry};

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

impl ProviderProfiles {
    /// No profiles.
    pub fn new() -> Self {
        Self::default()
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
        let of_provider = self.by_key.get(provider(name));
        let profile = match (self.by_key.get(name), of_provider) {
            (Some(exact), Some(base)) if name.contains(':') => exact.clone().over(base),
            (Some(profile), _) | (None, Some(profile)) => profile.clone(),
            (None, None) => return registry.model_with(name, config),
        };
        for check in &profile.checks {
            check(name).map_err(|error| ConfigError::Other(format!("`{name}` was refused: {error}")))?;
        }
        let settings = profile.make.iter().fold(profile.config, |settings, make| make().over(&settings));
        registry.model_with(name, config.over(&settings))
    }
}
