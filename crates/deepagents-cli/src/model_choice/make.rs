//! Creates the chosen model: its key, address and context window.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::model::ChatModel;
use deepagents::models::{ConfigError, ModelConfig, Registry, providers};
use deepagents::profile::{OpenRouter, ProviderProfiles};

use super::{CUSTOM_KEY_VARIABLE, Choice, catalogue, choose, env};
use crate::args::AgentArgs;
use crate::exit::WrongUsage;
use crate::{cloud, effort, proxy};

/// Chooses the model that the options or the environment select, and creates it.
pub(crate) fn chosen(args: &AgentArgs) -> Result<(Choice, Arc<dyn ChatModel>)> {
    let choice = choose(args.model.as_deref(), args.base_url.as_deref(), &env)?;
    let model = make(&choice, args)?;
    Ok((choice, model))
}

/// Creates the model.
pub(crate) fn make(choice: &Choice, args: &AgentArgs) -> Result<Arc<dyn ChatModel>> {
    with_config(choice, args, config(choice, args))
}

/// Creates the model for inspection only, which needs no key.
pub(crate) fn inspected(choice: &Choice, args: &AgentArgs) -> Result<Arc<dyn ChatModel>> {
    let mut config = config(choice, args);
    config.api_key.get_or_insert("none".into());
    with_config(choice, args, config)
}

fn with_config(choice: &Choice, args: &AgentArgs, config: ModelConfig) -> Result<Arc<dyn ChatModel>> {
    if let Some(effort) = args.effort {
        effort::fields(choice.provider(), effort)?;
    }
    known()?.model_with(&choice.name, config).map_err(|error| explain(&error))
}

/// Returns the model with its context window, asking its server if neither the command line nor the tables say it. If
/// the server does not say it either, also returns a remark on what to do.
pub(crate) async fn with_window(
    model: Arc<dyn ChatModel>,
    choice: &Choice,
    args: &AgentArgs,
) -> Result<(Arc<dyn ChatModel>, Option<String>)> {
    if model.profile().context_window.is_some() {
        return Ok((model, None));
    }
    let mut config = config(choice, args);
    let registry = known()?;
    let asked = registry.context_window(&choice.name, config.clone()).await.map_err(|error| explain(&error))?;
    let Some(window) = asked else {
        let remark = format!(
            "the context window of {} is not known, so conversations are compacted at 170,000 tokens; set it with --context-window",
            choice.name
        );
        return Ok((model, Some(remark)));
    };
    config.context_window = Some(window);
    let model = registry.model_with(&choice.name, config).map_err(|error| explain(&error))?;
    Ok((model, None))
}

/// Returns a registry with what the user's own file says about models.
fn known() -> Result<Registry> {
    let mut registry = Registry::new();
    registry.catalogue(catalogue()?);
    Ok(registry)
}

/// Returns the library's provider profiles, adjusted by the user's environment.
fn profiles() -> ProviderProfiles {
    let usual = OpenRouter::default();
    let allows = env("DEEPAGENTS_OPENROUTER_ALLOW_AZURE").unwrap_or_default().to_lowercase();
    let openrouter = OpenRouter {
        app_url: env("OPENROUTER_APP_URL").unwrap_or(usual.app_url),
        app_title: env("OPENROUTER_APP_TITLE").unwrap_or(usual.app_title),
        allow_azure: ["1", "true", "yes", "on"].contains(&allows.as_str()),
    };
    let mut profiles = ProviderProfiles::builtin();
    // Cannot fail: the library uses the same key.
    let _ = profiles.replace("openrouter", openrouter.profile());
    profiles
}

/// Returns how the model is reached.
pub(crate) fn config(choice: &Choice, args: &AgentArgs) -> ModelConfig {
    let provider = choice.provider();
    let usual = providers().into_iter().find(|known| known.name == provider).and_then(|known| known.base_url);
    let mut config = reached_at(provider, args.base_url.clone(), usual, args);
    config.headers.clone_from(&args.headers);
    config.context_window = args.context_window;
    // `make` refuses a provider whose effort field is unknown.
    if let Some(fields) = args.effort.and_then(|effort| effort::fields(provider, effort).ok()) {
        config.extra.extend(fields);
    }
    config.over(&profiles().settings(&choice.name))
}

/// Returns how the models of a provider are reached, at this address or the one that the environment or the provider
/// names.
fn reached_at(provider: &str, base_url: Option<String>, usual: Option<&str>, args: &AgentArgs) -> ModelConfig {
    let base_url = base_url.or_else(|| cloud::base_url(provider, &env));
    ModelConfig {
        api_key: cloud::credentials(provider, &env),
        proxy: base_url.as_deref().or(usual).and_then(|url| proxy::for_address(url, &env)),
        base_url,
        streaming: args.no_stream.then_some(false),
        text_tool_calls: args.text_tool_calls.then_some(true),
        ..ModelConfig::default()
    }
}

/// Returns the models that sub-agents may name: those of every provider, each with its own key and address.
pub(crate) fn registry(args: &AgentArgs) -> Result<Registry> {
    let mut registry = known()?;
    let profiles = profiles();
    for provider in providers() {
        let config = reached_at(provider.name, None, provider.base_url, args);
        registry.configure(provider.name, config.over(&profiles.settings(provider.name)));
    }
    Ok(registry)
}

/// Words an error for the command line. An invalid name or address is wrong usage.
fn explain(error: &ConfigError) -> anyhow::Error {
    let words = match error {
        ConfigError::MissingKey { provider, variable } => {
            let set = variable.as_deref().unwrap_or(CUSTOM_KEY_VARIABLE);
            // Only a provider with a key variable can have a stored key.
            let kept = match variable {
                Some(_) => format!(", store one with `deepagents auth set {provider}` (/auth in the screens)"),
                None => String::new(),
            };
            let also = cloud::alternatives_text(set);
            return anyhow!(
                "{provider} needs a key: set {set}{also}{kept}, or name a model of another provider with --model"
            );
        }
        ConfigError::MissingBaseUrl { provider, example } => {
            format!("{provider} has no fixed address: give one with --base-url, such as {example}")
        }
        ConfigError::UnknownProvider { provider, known } => format!(
            "there is no provider `{provider}`: choose one of {}; or give the address of a server with --base-url",
            known.join(", ")
        ),
        ConfigError::BadUrl { url, reason } => {
            format!("`{url}` is not an address of a server ({reason}); write it as in http://localhost:8080/v1")
        }
        ConfigError::NoProvider { .. } | ConfigError::EmptyModel { .. } => error.to_string(),
        other => return anyhow!("{other}"),
    };
    WrongUsage::new(words).into()
}
