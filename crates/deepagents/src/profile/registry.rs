//! Profiles by provider and model.

use std::collections::BTreeMap;

use super::key::{check_key, provider, undated};
use super::{HarnessProfile, ProfileError, builtin};

/// Profiles by `provider` or `provider:model`.
///
/// The profile of a model is that of its name over that of its provider. A name that ends in a release date is found
/// under the name without it as well. Where a service's model is named after another's, as in
/// `gateway:anthropic:claude-sonnet-4-6`, and has no profile of its own, it has the other's.
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
        let exact = |name: &str| {
            let with_model = |key: &&str| key.contains(':') && self.by_key.contains_key(*key);
            [Some(name), undated(name)].into_iter().flatten().find(with_model).map(str::to_owned)
        };
        let inner = model.split_once(':').map(|(_, inner)| inner).unwrap_or_default();
        match exact(model).or_else(|| exact(inner)) {
            Some(key) => {
                let of_model = self.by_key.get(&key).cloned().unwrap_or_default();
                match self.by_key.get(provider(&key)) {
                    Some(base) => of_model.over(base),
                    None => of_model,
                }
            }
            None => self.by_key.get(provider(model)).cloned().unwrap_or_default(),
        }
    }
}
