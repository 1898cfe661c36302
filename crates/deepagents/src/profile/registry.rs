//! Profiles by provider and model.

use std::collections::BTreeMap;

use super::key::{check_key, matches, provider, undated};
use super::{HarnessProfile, ProfileError, builtin};

/// Profiles by `provider` or `provider:model`.
///
/// A key may stand for several models: `*` in it stands for any text, as in `anthropic:claude-*`. The profile of a model is
/// that of its name over those of the keys that stand for it, the one that says most of the name on top, over that of its
/// provider. A name that ends in a release date is found under the name without it as well. Where a service's model is
/// named after another's, as in `gateway:anthropic:claude-sonnet-4-6` or `gateway:anthropic/claude-sonnet-4.6`, and has no
/// profile of its own, it has the other's.
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
    /// The built-in ones.
    fn default() -> Self {
        Self::builtin()
    }
}

impl Profiles {
    /// No profiles.
    pub fn empty() -> Self {
        Self { by_key: BTreeMap::new() }
    }

    /// The profiles that come with the library: for models whose habits are known to need a word.
    pub fn builtin() -> Self {
        Self { by_key: builtin::all() }
    }

    /// Adds a profile; over one that is there already.
    ///
    /// # Errors
    /// When the key is none, or the profile excludes what cannot be excluded.
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

    /// The keys there are, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    /// The profile of an agent: that of its model, with the caller's own over it.
    pub(crate) fn of_agent(&self, model: &str, own: Option<HarnessProfile>) -> Result<HarnessProfile, ProfileError> {
        let profile = own.unwrap_or_default().over(&self.lookup(model));
        profile.check()?;
        Ok(profile)
    }

    /// The profile of a model, `provider:model`; an empty one where nothing is known.
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

    /// What is said of a model: by keys for several, those that say less of its name first, and by its own.
    fn layers(&self, name: &str) -> Vec<&HarnessProfile> {
        let of_models = self.by_key.iter().filter(|(key, _)| key.contains(':'));
        let mut patterns: Vec<_> = of_models.filter(|(key, _)| matches(key, name)).collect();
        patterns.sort_by_key(|(key, _)| key.chars().filter(|c| *c != '*').count());
        let exact = [Some(name), undated(name)].into_iter().flatten().filter(|name| name.contains(':'));
        let exact = exact.filter_map(|name| self.by_key.get(name)).next();
        patterns.into_iter().map(|(_, profile)| profile).chain(exact).collect()
    }
}
