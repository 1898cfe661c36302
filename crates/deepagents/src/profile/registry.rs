//! Lookup of profiles by provider and model.

use std::collections::BTreeMap;

use super::key::{check_key, matches, provider, undated};
use super::{HarnessProfile, ProfileError, builtin};

/// Profiles by `provider` or `provider:model`.
///
/// A key with `*` matches several models, as in `anthropic:claude-*`. The profile of a model merges, from the lowest
/// precedence to the highest: that of its provider, those of matching patterns with the more specific later, and that
/// of its exact name. A name that ends in a release date is also looked up without the date.
///
/// If a service names its model after another's, as in `gateway:anthropic:claude-sonnet-4-6` or
/// `gateway:anthropic/claude-sonnet-4.6`, and it has no profile of its own, it gets that of the other model.
///
/// ```
/// use deepagents::profile::{ProfileConfig, Profiles};
/// let mut profiles = Profiles::builtin();
/// let brief = ProfileConfig { system_prompt_suffix: Some("Be brief.".into()), ..ProfileConfig::default() };
/// profiles.register("ollama", brief)?;
/// let found = profiles.lookup("ollama:llama3:8b");
/// assert_eq!(found.config.system_prompt_suffix.as_deref(), Some("Be brief."));
/// # Ok::<(), deepagents::profile::ProfileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Profiles {
    by_key: BTreeMap<String, HarnessProfile>,
}

impl Default for Profiles {
    /// Returns the built-in profiles.
    fn default() -> Self {
        Self::builtin()
    }
}

impl Profiles {
    /// Creates an empty collection.
    pub fn empty() -> Self {
        Self { by_key: BTreeMap::new() }
    }

    /// Returns the built-in profiles, for models known to need adjustments.
    pub fn builtin() -> Self {
        Self { by_key: builtin::all() }
    }

    /// Adds a profile, merged over an existing one.
    ///
    /// # Errors
    /// Returns an error if the key is invalid, or if the profile excludes something that it may not.
    pub fn register(&mut self, key: &str, profile: impl Into<HarnessProfile>) -> Result<&mut Self, ProfileError> {
        check_key(key)?;
        let profile = profile.into();
        profile.check()?;
        let merged = match self.by_key.get(key) {
            Some(known) => profile.over(known),
            None => profile,
        };
        self.by_key.insert(key.to_owned(), merged);
        Ok(self)
    }

    /// Returns the keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    /// Returns the profile of an agent: that of its model with the caller's own merged over it.
    pub(crate) fn of_agent(&self, model: &str, own: Option<HarnessProfile>) -> Result<HarnessProfile, ProfileError> {
        let profile = own.unwrap_or_default().over(&self.lookup(model));
        profile.check()?;
        Ok(profile)
    }

    /// Returns the profile of a model, `provider:model`, or an empty one if there is none.
    pub fn lookup(&self, model: &str) -> HarnessProfile {
        // A service may name its models after those of others: `gateway:anthropic:x`, `gateway:anthropic/x`.
        let inner = model.split_once(':').map(|(_, inner)| inner.replacen('/', ":", 1)).unwrap_or_default();
        let found = [model, inner.as_str()].into_iter().find_map(|name| {
            let layers = self.layers(name);
            (!layers.is_empty()).then(|| (provider(name).to_owned(), layers))
        });
        let (provider, layers) = found.unwrap_or_else(|| (provider(model).to_owned(), Vec::new()));
        let base = self.by_key.get(&provider).cloned().unwrap_or_default();
        layers.into_iter().fold(base, |base, layer| layer.clone().over(&base))
    }

    /// Returns the profiles of a model: matching patterns with the least specific first, then that of the exact name.
    fn layers(&self, name: &str) -> Vec<&HarnessProfile> {
        let of_models = self.by_key.iter().filter(|(key, _)| key.contains(':'));
        let mut patterns: Vec<_> = of_models.filter(|(key, _)| matches(key, name)).collect();
        patterns.sort_by_key(|(key, _)| key.chars().filter(|c| *c != '*').count());
        let exact = [Some(name), undated(name)].into_iter().flatten().filter(|name| name.contains(':'));
        let exact = exact.filter_map(|name| self.by_key.get(name)).next();
        patterns.into_iter().map(|(_, profile)| profile).chain(exact).collect()
    }
}
