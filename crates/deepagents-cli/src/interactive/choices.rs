//! The models that the screens offer.

use deepagents::models::Catalogue;

use crate::args::AgentArgs;
use crate::model_choice::{catalogue, choose, env, models_of, ordered_providers};
use crate::models;
use crate::render::style::grouped;

/// Returns the models of providers whose keys are set, each provider's default model first, then those of servers on
/// this machine; each with its context window and price.
pub(super) async fn models() -> Vec<(String, String)> {
    // Show the user's own prices if they can be read; `deepagents models` reports problems with them.
    let known = catalogue().unwrap_or_else(|_| Catalogue::built_in().clone());
    let mut all: Vec<(String, String)> = Vec::new();
    for provider in ordered_providers() {
        if provider.key_variable.is_none_or(|variable| env(variable).is_none()) {
            continue;
        }
        let names = models_of(provider.name, &known).into_iter();
        all.extend(names.map(|name| (format!("{}:{name}", provider.name), facts(&known, name))));
    }
    let served = models::served().await;
    all.extend(served.into_iter().map(|one| (one.name, on("on your own server", one.context_window))));
    all
}

/// Returns the model in use and the other models of the server at the given address: any model chosen is called there.
pub(super) async fn at_address(present: Option<&str>, args: &AgentArgs) -> Vec<(String, String)> {
    let Ok(choice) = choose(present, args.base_url.as_deref(), &env) else { return Vec::new() };
    let named = present.unwrap_or(&choice.name).to_owned();
    let served = models::served_at(&choice, args).await;
    let window = served.iter().find(|one| one.name == choice.name).and_then(|one| one.context_window);
    let mut all = vec![(named, on("in use", window))];
    let others = served.into_iter().filter(|one| one.name != choice.name);
    all.extend(others.map(|one| (one.name, on("on this server", one.context_window))));
    all
}

/// Describes where a model is, with its context window.
fn on(place: &str, window: Option<u64>) -> String {
    window.map_or_else(|| place.to_owned(), |window| format!("{place} · {} tokens", grouped(window)))
}

fn facts(known: &Catalogue, model: &str) -> String {
    let Some(entry) = known.lookup(model) else { return String::new() };
    let mut facts = Vec::new();
    if entry.context_window > 0 {
        facts.push(format!("{} tokens", grouped(entry.context_window)));
    }
    if let Some(price) = entry.price {
        facts.push(format!("${} in, ${} out a million", price.input, price.output));
    }
    facts.join(" · ")
}
