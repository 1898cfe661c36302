//! The models that a session may choose from, and their reasoning effort.

use clap::ValueEnum;
use deepagents_acp::ModelOption;

use crate::args::Effort;
use crate::model_choice::{Env, default_model, ordered_providers};

/// Models that users often switch between, by provider, in addition to the provider's default.
const COMMON: &[(&str, &[&str])] = &[
    ("anthropic", &["claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5"]),
    ("openai", &["gpt-5.2", "gpt-5-mini", "gpt-5-nano"]),
    ("deepseek", &["deepseek-chat", "deepseek-reasoner"]),
    ("xai", &["grok-4-fast", "grok-code-fast-1"]),
    ("mistral", &["mistral-large-latest", "codestral-latest"]),
];

/// Returns the models to choose from, beginning with the one that the command line selects. With an explicit address,
/// the others are those of the same provider; otherwise also those of every provider whose key is set.
pub(super) fn to_choose_from(first: &str, has_address: bool, env: Env) -> Vec<ModelOption> {
    let own = first.split_once(':').map_or("", |(provider, _)| provider);
    let mut names = vec![first.to_owned()];
    for provider in ordered_providers() {
        let usable = provider.name == own
            || (!has_address
                && provider.base_url.is_some()
                && provider.key_variable.is_some_and(|key| env(key).is_some()));
        if !usable {
            continue;
        }
        let common = COMMON.iter().find(|(name, _)| *name == provider.name).map_or(&[][..], |(_, models)| models);
        for model in default_model(provider.name).iter().chain(common) {
            let name = format!("{}:{model}", provider.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.into_iter().map(with_efforts).collect()
}

fn with_efforts(name: String) -> ModelOption {
    let thinks = match name.split_once(':') {
        Some(("anthropic", model)) => ["claude-3-7", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4"]
            .iter()
            .any(|begin| model.starts_with(begin)),
        Some(("openai", model)) => {
            (model.starts_with("gpt-5") && !model.starts_with("gpt-5-chat"))
                || ["o1", "o3", "o4"].iter().any(|begin| model.starts_with(begin))
        }
        _ => false,
    };
    let efforts = if thinks { Effort::value_variants() } else { &[] };
    ModelOption { name, efforts: efforts.iter().map(|effort| effort.as_str().to_owned()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(first: &str, has_address: bool, keys: &[&str]) -> Vec<String> {
        let env = |name: &str| keys.contains(&name).then(|| "k".to_owned());
        to_choose_from(first, has_address, &env).into_iter().map(|model| model.name).collect()
    }

    #[test]
    fn only_models_with_keys_are_offered_and_a_given_address_restricts_them() {
        let both = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];
        let all = names("openai:gpt-5-mini", false, &both);
        assert_eq!(all.first().map(String::as_str), Some("openai:gpt-5-mini"));
        assert!(all.contains(&"anthropic:claude-opus-4-5".to_owned()) && all.contains(&"openai:gpt-5.2".to_owned()));
        assert!(!all.iter().any(|name| name.starts_with("xai:")));
        assert!(names("anthropic:claude-x", true, &both).iter().all(|name| name.starts_with("anthropic:")));
        assert_eq!(names("custom:llama", true, &both), ["custom:llama"]);
    }
}
