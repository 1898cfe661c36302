//! `deepagents models`.

use std::time::Duration;

use anyhow::Result;
use deepagents::models::catalogue::Entry;
use deepagents::models::{Catalogue, ModelConfig, ServedModel, Timeouts, served_models};
use futures_util::future::join_all;
use serde_json::json;

use crate::args::{AgentArgs, ModelsArgs};
use crate::exit::Exit;
use crate::model_choice::{self, Choice, default_model, env, key_variable, ordered_providers};
use crate::output;
use crate::render::style::grouped;
use crate::render::{escaped, json_text};
use crate::{cloud, proxy, runtime};

/// Prints the providers, keys and known models, or only the models that match a name.
pub(crate) fn models(args: &ModelsArgs) -> Result<Exit> {
    let known = model_choice::catalogue()?;
    let served = runtime::start()?.block_on(served());
    let wanted = args.name.as_deref().map(Wanted::new);
    output::print(&match (&wanted, args.json) {
        (wanted, true) => as_json(&known, wanted.as_ref(), &served)?,
        (Some(wanted), false) => named(&known, wanted, &served),
        (None, false) => all(&known, &served),
    })?;
    Ok(Exit::Done)
}

/// Selects the models of a provider, or those whose names begin with the argument. The argument may include a provider
/// or gateway, as in `anthropic:claude-sonnet-4-5`.
struct Wanted {
    given: String,
    name: String,
    /// The provider, if the argument is nothing else.
    provider: Option<String>,
}

impl Wanted {
    fn new(given: &str) -> Self {
        let given = plain(given.trim());
        let named = given.split_once(':').filter(|(word, name)| !name.is_empty() && is_provider(word));
        // A provider or gateway alone is also taken as a name, since an empty name would match everything.
        let name = named.map_or(&*given, |(_, name)| name).trim_end_matches([':', '/']);
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let provider = Some(name.clone()).filter(|name| is_provider(name));
        Self { given, name, provider }
    }

    /// Whether the wanted provider makes this model. A provider may have several names, one for each API.
    fn is_made(&self, entry: &Entry) -> bool {
        let maker = entry.provider();
        self.provider.as_deref().zip(maker).is_some_and(|(wanted, maker)| {
            wanted == maker || wanted.strip_prefix(maker).is_some_and(|way| way.starts_with('-'))
        })
    }

    /// Returns the models that the provider makes and those whose names begin with the argument. If there are none,
    /// returns the entry that a lookup of the name finds.
    fn entries<'a>(&self, known: &'a Catalogue) -> Vec<&'a Entry> {
        let begins = |entry: &&Entry| {
            let prefix = plain(&entry.prefix);
            let named =
                || [&self.name, &self.given].into_iter().any(|name| !name.is_empty() && prefix.starts_with(name));
            self.is_made(entry) || named()
        };
        let found: Vec<&Entry> = known.entries().filter(begins).collect();
        if found.is_empty() && !self.name.is_empty() { known.lookup(&self.name).into_iter().collect() } else { found }
    }

    fn is_served(&self, served: &ServedModel) -> bool {
        let full = plain(&served.name);
        full.starts_with(&self.given) || full.split_once(':').is_some_and(|(_, name)| name.starts_with(&self.given))
    }
}

fn is_provider(word: &str) -> bool {
    ordered_providers().iter().any(|provider| provider.name == word)
}

/// Normalises a name for comparison: services differ in case, and write versions with dots or dashes.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('.', "-")
}

/// Shown for a provider whose address has to be given.
const NO_ADDRESS: &str = "needs --base-url";

fn all(known: &Catalogue, served: &[ServedModel]) -> String {
    let mut out = "providers; the first one with a key provides the default model\n".to_owned();
    let providers = ordered_providers();
    let addresses = providers.iter().map(|provider| provider.base_url.unwrap_or(NO_ADDRESS).len());
    let width = addresses.max().unwrap_or_default();
    for provider in providers {
        let variable = key_variable(provider.name);
        let state = match variable {
            Some(variable) if env(variable).is_some() => "set",
            _ if provider.key_required => "not set",
            _ => "optional",
        };
        let address = provider.base_url.unwrap_or(NO_ADDRESS);
        let default = default_model(provider.name).map(|model| format!("  {model}")).unwrap_or_default();
        let variable = variable.unwrap_or("-");
        let line = format!("  {:<20} {variable:<25} {state:<9} {address:<width$}{default}", provider.name);
        out += line.trim_end();
        out.push('\n');
    }
    if !served.is_empty() {
        out += &format!("\n{}", here(served));
    }
    // The default models are enough for an overview.
    let shown: Vec<&Entry> = known.entries().filter(|entry| is_default(&entry.prefix)).collect();
    out += &format!("\n{}", table(&shown));
    let hidden = known.entries().count() - shown.len();
    out += &format!(
        "{hidden} more: `deepagents models NAME` lists those whose names begin with NAME, or that the provider \
                    NAME makes; "
    );
    out += "other models work too, but their sizes and prices are not known\n\n";
    out += &match model_choice::choose(None, None, &env) {
        Ok(choice) => format!("`deepagents run` would use {choice}"),
        Err(error) => format!("`deepagents run` could not choose: {error}"),
    };
    out
}

fn named(known: &Catalogue, wanted: &Wanted, served: &[ServedModel]) -> String {
    let served: Vec<&ServedModel> = served.iter().filter(|served| wanted.is_served(served)).collect();
    let known = wanted.entries(known);
    let mut parts = Vec::new();
    if !served.is_empty() {
        parts.push(here(served));
    }
    if !known.is_empty() {
        parts.push(table(&known));
    }
    if let (true, Some(provider)) = (parts.is_empty(), &wanted.provider) {
        return format!(
            "{provider} serves models of other makers, which are known by their own names: `deepagents models NAME` \
             lists those whose names begin with NAME"
        );
    }
    if parts.is_empty() {
        let given = escaped(&wanted.given);
        return format!(
            "no model is known whose name begins with `{given}`; it can still be used, but its size and price \
             are not known. `deepagents models` lists the providers"
        );
    }
    parts.join("\n").trim_end().to_owned()
}

/// Lists the models of the user's own servers.
fn here<'a>(served: impl IntoIterator<Item = &'a ServedModel>) -> String {
    let mut out = "models of your own servers\n".to_owned();
    for model in served {
        let window = model.context_window.map(|window| format!("  {}", grouped(window))).unwrap_or_default();
        out += &format!("  {}{window}\n", model.name);
    }
    out
}

/// Lists models with their sizes and prices.
fn table(entries: &[&Entry]) -> String {
    let mut out = "models by the beginning of their name, with the context window and longest answer in tokens,\n\
                   and list prices in US dollars per million prompt and answer tokens, where known\n"
        .to_owned();
    for entry in entries {
        let (window, answer) = (grouped(entry.context_window), grouped(entry.max_output));
        let price = entry.price.map(|price| format!(" {:>8} {:>6}", price.input, price.output)).unwrap_or_default();
        out += &format!("  {:<24} {window:>10} {answer:>10}{price}\n", entry.prefix);
    }
    out
}

/// How long a model server may take to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the models of the servers on this machine, or where the environment says that they are, by their full names.
pub(crate) async fn served() -> Vec<ServedModel> {
    let ask = |provider| {
        let base_url = cloud::base_url(provider, &env);
        let config = ModelConfig {
            api_key: key_variable(provider).and_then(env).map(Into::into),
            proxy: base_url.as_deref().and_then(|url| proxy::for_address(url, &env)),
            base_url,
            ..ModelConfig::default()
        };
        served_by(provider, config)
    };
    join_all(["ollama", "llamacpp", "vllm"].map(ask)).await.concat()
}

/// Returns the models of the server at the address of a choice, by their full names.
pub(crate) async fn served_at(choice: &Choice, args: &AgentArgs) -> Vec<ServedModel> {
    served_by(choice.provider(), model_choice::config(choice, args)).await
}

/// Returns the models of a server, by their full names; none if it does not answer soon.
async fn served_by(provider: &str, config: ModelConfig) -> Vec<ServedModel> {
    let timeouts = Timeouts { connect: RESPONSE_TIMEOUT, first_byte: RESPONSE_TIMEOUT, ..Timeouts::default() };
    let config = ModelConfig { timeouts: Some(timeouts), ..config };
    // This also covers a server that hangs in the middle of its answer.
    let asked = tokio::time::timeout(RESPONSE_TIMEOUT * 4, served_models(provider, &config));
    let mut found = asked.await.ok().and_then(Result::ok).unwrap_or_default();
    found.iter_mut().for_each(|model| model.name = format!("{provider}:{}", model.name));
    found
}

/// Whether this is the model that some provider's key selects.
fn is_default(prefix: &str) -> bool {
    let picked = |model: &str| model.rsplit('/').next() == Some(prefix);
    ordered_providers().iter().filter_map(|provider| default_model(provider.name)).any(picked)
}

fn as_json(known: &Catalogue, wanted: Option<&Wanted>, served: &[ServedModel]) -> Result<String> {
    let providers: Vec<_> = ordered_providers()
        .into_iter()
        .map(|provider| {
            let variable = key_variable(provider.name);
            json!({
                "name": provider.name,
                "key_variable": variable,
                "key_set": variable.is_some_and(|variable| env(variable).is_some()),
                "key_required": provider.key_required,
                "base_url": provider.base_url,
                "default_model": default_model(provider.name),
            })
        })
        .collect();
    let models: Vec<_> = wanted
        .map_or_else(|| known.entries().collect(), |wanted| wanted.entries(known))
        .into_iter()
        .map(|entry| {
            json!({
                "prefix": entry.prefix,
                "context_window": entry.context_window,
                "max_output": entry.max_output,
                "price": entry.price,
                "deprecated": entry.deprecated,
            })
        })
        .collect();
    let served = served.iter().filter(|one| wanted.is_none_or(|wanted| wanted.is_served(one)));
    let choice = model_choice::choose(None, None, &env).ok().map(|choice| choice.name);
    Ok(json_text(&json!({
        "providers": providers,
        "served": served.map(|one| json!({"name": one.name, "context_window": one.context_window})).collect::<Vec<_>>(),
        "models": models,
        "choice": choice,
    }))?)
}
