//! Which model a command uses, and where its key comes from.

mod make;

use std::{fmt, fs, io};

use anyhow::{Context, Result, anyhow, bail};
use deepagents::models::{Catalogue, Provider, providers};
use jiff::Timestamp;

pub(crate) use make::{chosen, config, inspected, make, registry, with_window};

use crate::auth;
use crate::exit::WrongUsage;
use crate::own_files::of_user;

/// The variable that names the model.
pub(crate) const MODEL_VARIABLE: &str = "DEEPAGENTS_MODEL";
/// The variable that holds the key for a server given by its address.
const CUSTOM_KEY_VARIABLE: &str = "DEEPAGENTS_API_KEY";
/// The user's file of model sizes and prices.
const PRICES: &str = "prices.json";
/// The provider of servers given by their address.
const CUSTOM: &str = "custom";

/// The model that a provider's key selects, in order of preference.
const DEFAULTS: &[(&str, &str)] = &[
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-5.2"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("deepseek", "deepseek-chat"),
    ("groq", "openai/gpt-oss-120b"),
    ("mistral", "mistral-large-latest"),
    ("xai", "grok-4-fast"),
    ("google", "gemini-2.5-pro"),
    ("moonshot", "kimi-k2-turbo-preview"),
    ("zai", "glm-4.6"),
    ("qwen", "qwen3-max"),
    ("together", "openai/gpt-oss-120b"),
    ("fireworks", "accounts/fireworks/models/gpt-oss-120b"),
    ("cerebras", "gpt-oss-120b"),
    ("nvidia", "openai/gpt-oss-120b"),
    ("perplexity", "sonar-pro"),
    ("huggingface", "openai/gpt-oss-120b"),
    // These share a key with one above.
    ("openai-chat", "gpt-5.2"),
    ("openrouter-responses", "openai/gpt-5.2"),
    ("xai-responses", "grok-4-fast"),
    ("google-interactions", "gemini-2.5-pro"),
];

/// Looks up environment variables; empty ones count as unset.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks up a variable in the environment of this process, then among the user's stored keys.
pub(crate) fn env(name: &str) -> Option<String> {
    let said = std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    // Only keys are stored in a file.
    said.or_else(|| if name.ends_with("_KEY") || name.ends_with("_TOKEN") { auth::stored_key(name) } else { None })
}

/// A model and why it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `provider:model`.
    pub(crate) name: String,
    /// Why it is used.
    pub(crate) reason: Reason,
}

/// Why a model is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The command line names it.
    Named,
    /// The environment names it.
    Variable,
    /// This key is set.
    Key(&'static str),
}

impl Choice {
    /// Returns the provider: the part before the colon.
    pub(crate) fn provider(&self) -> &str {
        self.name.split_once(':').map_or("", |(provider, _)| provider)
    }

    /// Returns the variable that holds the provider's key.
    pub(crate) fn key_variable(&self) -> Option<&'static str> {
        key_variable(self.provider())
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Named => write!(f, "{}", self.name),
            Reason::Variable => write!(f, "{} (from {MODEL_VARIABLE})", self.name),
            Reason::Key(variable) => write!(f, "{} (because {variable} is set)", self.name),
        }
    }
}

/// Returns the model that a key of this provider selects.
pub(crate) fn default_model(provider: &str) -> Option<&'static str> {
    DEFAULTS.iter().find(|(name, _)| *name == provider).map(|(_, model)| *model)
}

/// Returns the names of the models to choose from at a provider: its default, then the others that it makes itself and
/// still serves.
pub(crate) fn models_of<'a>(provider: &str, known: &'a Catalogue) -> Vec<&'a str> {
    let (default, today) = (default_model(provider), Timestamp::now().strftime("%F").to_string());
    let made = family(provider)
        .iter()
        .flat_map(|family| known.entries().filter(move |entry| entry.prefix.starts_with(family)));
    // Names without a price are mostly those of other hosts.
    let served = made.filter(|entry| {
        entry.price.is_some() && entry.deprecated.as_deref().is_none_or(|last_day| last_day >= today.as_str())
    });
    let others = served.map(|entry| entry.prefix.as_str()).filter(|name| default != Some(*name));
    default.into_iter().chain(others).collect()
}

/// Returns the name prefixes of a provider's own models that write texts; none for a provider that serves other vendors'
/// models.
fn family(provider: &str) -> &'static [&'static str] {
    match provider {
        "anthropic" => &["claude-"],
        "openai" => &["gpt-6", "gpt-5", "gpt-4.1", "o3", "o4"],
        "google" => &["gemini-"],
        "deepseek" => &["deepseek-"],
        "mistral" => &["mistral-", "codestral", "devstral"],
        "xai" => &["grok-"],
        "moonshot" => &["kimi-"],
        "zai" => &["glm-"],
        "qwen" => &["qwen3", "qwen-"],
        "perplexity" => &["sonar"],
        _ => &[],
    }
}

/// Returns the providers in the order in which their keys select a model; those without a default model come last.
pub(crate) fn ordered_providers() -> Vec<Provider> {
    let mut all = providers();
    all.sort_by_key(|p| DEFAULTS.iter().position(|(name, _)| *name == p.name).unwrap_or(usize::MAX));
    all
}

/// Returns the variable that holds a provider's key.
pub(crate) fn key_variable(provider: &str) -> Option<&'static str> {
    if provider == CUSTOM {
        return Some(CUSTOM_KEY_VARIABLE);
    }
    providers().into_iter().find(|p| p.name == provider)?.key_variable
}

/// Returns the built-in model catalogue, extended by the user's own file.
pub(crate) fn catalogue() -> Result<Catalogue> {
    let built_in = Catalogue::built_in();
    let Some(file) = of_user(PRICES) else { return Ok(built_in.clone()) };
    match fs::read_to_string(&file) {
        Ok(json) => built_in
            .with_json(&json)
            .map_err(|error| anyhow!("`{}` cannot be used: {error}; fix it or remove it", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(built_in.clone()),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

/// Chooses the model: the one named, else the one that the environment names, else the default of the first provider
/// whose key is set.
pub(crate) fn choose(model: Option<&str>, base_url: Option<&str>, env: Env) -> Result<Choice> {
    if let Some(name) = model {
        return Ok(Choice { name: full_name(name, base_url)?, reason: Reason::Named });
    }
    if let Some(name) = env(MODEL_VARIABLE) {
        return Ok(Choice { name: full_name(&name, base_url)?, reason: Reason::Variable });
    }
    if base_url.is_some() {
        // Never send a key to an address that it was not meant for.
        bail!(WrongUsage::new(format!(
            "an address needs a model too: give the model's name on that server with --model or {MODEL_VARIABLE}"
        )));
    }
    for provider in ordered_providers() {
        if let (Some(variable), Some(model)) = (provider.key_variable, default_model(provider.name))
            && env(variable).is_some()
        {
            return Ok(Choice { name: format!("{}:{model}", provider.name), reason: Reason::Key(variable) });
        }
    }
    if let Some(problem) = auth::problem() {
        bail!("the stored keys cannot be used: {problem}");
    }
    bail!(
        "no key for a model was found: set ANTHROPIC_API_KEY or OPENAI_API_KEY, store a key with `deepagents auth set \
         PROVIDER`, or name a model with --model (`deepagents models` lists the providers; `deepagents demo` needs no key)"
    )
}

/// Returns the full name of a model. With an address, a name without a known provider is that of a model on that
/// server.
fn full_name(name: &str, base_url: Option<&str>) -> Result<String> {
    let name = name.trim();
    if name.is_empty() {
        bail!(WrongUsage::new("the name of the model is empty; write it as provider:model"));
    }
    let known = |provider: &str| providers().iter().any(|p| p.name == provider);
    match name.split_once(':') {
        Some((provider, _)) if known(provider) => Ok(name.to_owned()),
        _ if base_url.is_some() => Ok(format!("{CUSTOM}:{name}")),
        _ => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(model: Option<&str>, base_url: Option<&str>, vars: &[(&str, &str)]) -> Result<Choice, String> {
        let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        choose(model, base_url, &env).map_err(|error| error.to_string())
    }

    #[test]
    fn the_models_to_choose_from_write_texts_and_are_not_too_many_to_look_through() {
        for (provider, default) in DEFAULTS {
            let models = models_of(provider, Catalogue::built_in());
            assert_eq!((models.first(), models.iter().filter(|name| *name == default).count()), (Some(default), 1));
            let odd = models.iter().find(|name| ["audio", "embed", "image"].iter().any(|kind| name.contains(kind)));
            assert!(models.len() <= 40 && odd.is_none(), "{provider}: {} models, {odd:?}", models.len());
        }
        // Not their defaults.
        let offered = |provider, name: &str| models_of(provider, Catalogue::built_in()).contains(&name);
        assert!(offered("openai", "gpt-5.4") && offered("anthropic", "claude-opus-4-5"));
        for provider in ["moonshot", "zai", "qwen", "perplexity"] {
            assert!(models_of(provider, Catalogue::built_in()).len() > 1, "{provider}");
        }
    }

    #[test]
    fn the_command_line_beats_the_variable_and_both_beat_keys() {
        let vars = [("DEEPAGENTS_MODEL", "openai:b"), ("ANTHROPIC_API_KEY", "k")];
        assert_eq!(choice(Some("xai:a"), None, &vars).map(|c| c.name), Ok("xai:a".to_owned()));
        assert_eq!(choice(None, None, &vars).map(|c| c.name), Ok("openai:b".to_owned()));
        let keys = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
        assert_eq!(choice(None, None, &keys).map(|c| c.reason), Ok(Reason::Key("ANTHROPIC_API_KEY")));
        assert!(choice(None, None, &[]).is_err_and(|error| error.contains("ANTHROPIC_API_KEY")));
    }

    #[test]
    fn a_bare_name_with_an_address_is_a_model_of_that_server() {
        let url = Some("http://localhost:1/v1");
        let name = |model| choice(Some(model), url, &[]).map(|c| c.name);
        assert_eq!(name("llama3:8b"), Ok("custom:llama3:8b".to_owned()));
        assert_eq!(name("anthropic:x"), Ok("anthropic:x".to_owned()));
        assert!(choice(None, url, &[("OPENAI_API_KEY", "k")]).is_err());
    }

    #[test]
    fn every_required_provider_key_has_a_known_default_model() {
        for provider in providers().iter().filter(|p| p.key_required && p.base_url.is_some()) {
            let model = default_model(provider.name);
            assert!(model.is_some_and(|model| Catalogue::built_in().lookup(model).is_some()), "{}", provider.name);
        }
    }
}
