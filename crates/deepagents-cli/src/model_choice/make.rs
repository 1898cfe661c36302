//! Creates the chosen model: its key, address and context window.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::model::ChatModel;
use deepagents::models::{ConfigError, ModelConfig, Registry, providers};
use deepagents::profile::{OpenRouter, ProviderProfiles};

use super::{CUSTOM_KEY_VARIABLE, Choice, Env};
use crate::args::AgentArgs;
use crate::exit::WrongUsage;
use crate::{cloud, effort, proxy, sources};

/// What to do if a required key is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutKey {
    /// Return an error.
    Refuse,
    /// Use a placeholder: the model is only inspected.
    Pretend,
}

/// Creates the model.
pub(crate) fn make(choice: &Choice, args: &AgentArgs, env: Env, without: WithoutKey) -> Result<Arc<dyn ChatModel>> {
    let config = config(choice, args, env, without);
    if let Some(effort) = args.effort {
        effort::fields(choice.provider(), effort)?;
    }
    known(env)?.model_with(&choice.name, config).map_err(|error| explain(&error))
}

/// Returns the model with its context window, asking its server if neither the command line nor the tables say it. If
/// the server does not say it either, also returns a remark on what to do.
pub(crate) async fn with_window(
    model: Arc<dyn ChatModel>,
    choice: &Choice,
    args: &AgentArgs,
    env: Env<'_>,
) -> Result<(Arc<dyn ChatModel>, Option<String>)> {
    if model.profile().context_window.is_some() {
        return Ok((model, None));
    }
    let mut config = config(choice, args, env, WithoutKey::Refuse);
    let registry = known(env)?;
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
fn known(env: Env) -> Result<Registry> {
    let mut registry = Registry::new();
    registry.catalogue(sources::catalogue(env)?);
    Ok(registry)
}

/// Returns the library's provider profiles, adjusted by the user's environment.
fn profiles(env: Env) -> ProviderProfiles {
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
pub(crate) fn config(choice: &Choice, args: &AgentArgs, env: Env, without: WithoutKey) -> ModelConfig {
    let base_url = args.base_url.clone().or_else(|| cloud::base_url(choice.provider(), env));
    let usual = providers().into_iter().find(|p| p.name == choice.provider()).and_then(|p| p.base_url);
    let mut config = ModelConfig::default();
    config.headers.clone_from(&args.headers);
    config.api_key = cloud::credentials(choice.provider(), env);
    config.proxy = base_url.as_deref().or(usual).and_then(|url| proxy::for_address(url, env));
    config.base_url = base_url;
    config.streaming = args.no_stream.then_some(false);
    config.text_tool_calls = args.text_tool_calls.then_some(true);
    if without == WithoutKey::Pretend && config.api_key.is_none() {
        config.api_key = Some("none".into());
    }
    config.context_window = args.context_window;
    // `make` refuses a provider whose effort field is unknown.
    if let Some(fields) = args.effort.and_then(|effort| effort::fields(choice.provider(), effort).ok()) {
        config.extra.extend(fields);
    }
    config.over(&profiles(env).settings(&choice.name))
}

/// Returns the models that sub-agents may name: those of every provider, each with its own key and address.
pub(crate) fn registry(args: &AgentArgs, env: Env) -> Result<Registry> {
    let mut registry = known(env)?;
    let profiles = profiles(env);
    for provider in providers() {
        let base_url = cloud::base_url(provider.name, env);
        let config = ModelConfig {
            api_key: cloud::credentials(provider.name, env),
            proxy: base_url.as_deref().or(provider.base_url).and_then(|url| proxy::for_address(url, env)),
            base_url,
            streaming: args.no_stream.then_some(false),
            text_tool_calls: args.text_tool_calls.then_some(true),
            ..ModelConfig::default()
        };
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
    WrongUsage(words).into()
}
