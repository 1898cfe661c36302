//! The models that a session may choose from, and their reasoning effort.

use clap::ValueEnum;
use deepagents::models::Catalogue;
use deepagents_acp::ModelOption;

use crate::args::Effort;
use crate::effort;
use crate::model_choice::{Env, models_of, ordered_providers};

/// Returns the models to choose from, beginning with the one that the command line selects. With an explicit address,
/// the others are those of the same provider; otherwise also those of every provider whose key is set.
pub(super) fn to_choose_from(first: &str, has_address: bool, known: &Catalogue, env: Env) -> Vec<ModelOption> {
    let own = first.split_once(':').map_or("", |(provider, _)| provider);
    let mut names = vec![first.to_owned()];
    for provider in ordered_providers() {
        let usable = provider.name == own
            || (!has_address
                && provider.base_url.is_some()
                && provider.key_variable.is_some_and(|key| env(key).is_some()));
        if usable {
            let others = models_of(provider.name, known).into_iter().map(|name| format!("{}:{name}", provider.name));
            names.extend(others.filter(|name| name != first));
        }
    }
    names.into_iter().map(|name| with_efforts(name, known)).collect()
}

/// Returns a model with its efforts, if it reasons and a request can set how much.
fn with_efforts(name: String, known: &Catalogue) -> ModelOption {
    let (provider, model) = name.split_once(':').unwrap_or_default();
    let reasons = known.lookup(model).is_some_and(|entry| entry.reasoning);
    let efforts = if reasons { Effort::value_variants() } else { &[] };
    let usable = efforts.iter().filter(|effort| effort::fields(provider, **effort).is_ok());
    ModelOption { efforts: usable.map(|effort| effort.as_str().to_owned()).collect(), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(first: &str, has_address: bool, keys: &[&str]) -> Vec<String> {
        let env = |name: &str| keys.contains(&name).then(|| "k".to_owned());
        to_choose_from(first, has_address, Catalogue::built_in(), &env).into_iter().map(|model| model.name).collect()
    }

    #[test]
    fn an_effort_is_offered_only_for_a_model_that_reasons_and_a_provider_that_takes_it() {
        let offers = |name: &str| !with_efforts(name.to_owned(), Catalogue::built_in()).efforts.is_empty();
        assert!(offers("anthropic:claude-sonnet-4-5") && offers("openai:gpt-5.4-mini"));
        assert!(!offers("openai:gpt-4.1") && !offers("zai:glm-4.6") && !offers("custom:llama") && !offers("llama"));
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
