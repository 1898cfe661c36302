//! Keys of profiles, and errors.

/// An error that makes a profile unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the texts say what the fields are")]
pub enum ProfileError {
    /// The key names neither a provider nor a model.
    #[error(
        "`{key}` is not a valid profile key: write `provider` or `provider:model`, without spaces around the parts"
    )]
    Key { key: String },
    /// The profile excludes a required middleware.
    #[error("a profile cannot exclude `{name}`: the agent is built on it")]
    Required { name: String },
    /// No middleware can have this name.
    #[error(
        "`{name}` is not the name of a middleware that can be excluded: it is empty, contains a colon or begins with \
         an underscore"
    )]
    MiddlewareName { name: String },
    /// No stack has the excluded middleware.
    #[error("the profile excludes `{name}`, but no middleware of this agent has the name; they are {}", known.join(", "))]
    NothingExcluded { name: String, known: Vec<String> },
    /// Extra middlewares cannot be serialized.
    #[error("a profile with extra middlewares ({}) has no file form; remove them first", names.join(", "))]
    Extras { names: Vec<String> },
}

/// Rejects a key that is neither `provider` nor `provider:model`. Only the first colon separates.
pub(super) fn check_key(key: &str) -> Result<(), ProfileError> {
    let legal = |part: &str| !part.is_empty() && part.trim() == part;
    let whole = match key.split_once(':') {
        Some((provider, model)) => legal(provider) && legal(model),
        None => legal(key),
    };
    if whole { Ok(()) } else { Err(ProfileError::Key { key: key.to_owned() }) }
}

/// Returns the provider at the start of a key or a model's name.
pub(super) fn provider(key: &str) -> &str {
    key.split_once(':').map_or(key, |(provider, _)| provider)
}

/// Returns `true` if a key is a pattern that matches this model: `*` stands for any text.
pub(super) fn matches(key: &str, model: &str) -> bool {
    let mut parts = key.split('*');
    let Some(mut rest) = parts.next().and_then(|first| model.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    let is_pattern = parts.peek().is_some();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    is_pattern
}

/// Returns a model's name without its trailing release date.
pub(super) fn undated(model: &str) -> Option<&str> {
    let (name, date) = model.rsplit_once('-')?;
    (date.len() == 8 && date.chars().all(|c| c.is_ascii_digit())).then_some(name)
}
