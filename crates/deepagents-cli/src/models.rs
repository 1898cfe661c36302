//! `deepagents models`.

use anyhow::Result;
use deepagents::models::catalogue;
use serde_json::json;

use crate::args::ModelsArgs;
use crate::exit::Exit;
use crate::model_choice::{self, default_model, env, key_variable, ordered_providers};
use crate::output;
use crate::render::json_text;
use crate::render::style::grouped;

/// Prints providers, keys and the models known by name.
pub(crate) fn models(args: &ModelsArgs) -> Result<Exit> {
    output::print(&if args.json { as_json()? } else { as_text() })?;
    Ok(Exit::Done)
}

fn as_text() -> String {
    let mut out = "providers, in the order in which a key picks the default model\n".to_owned();
    for provider in ordered_providers() {
        let variable = key_variable(provider.name);
        let state = match variable {
            Some(variable) if env(variable).is_some() => "set",
            _ if provider.key_required => "not set",
            _ => "optional",
        };
        let address = provider.base_url.unwrap_or("needs --base-url");
        let default = default_model(provider.name).map(|model| format!("  {model}")).unwrap_or_default();
        let variable = variable.unwrap_or("-");
        let line = format!("  {:<11} {variable:<21} {state:<9} {address:<32}{default}", provider.name);
        out += line.trim_end();
        out.push('\n');
    }
    out += "\nmodels known by the beginning of their name, with tokens of context window and longest answer,\n\
            and US dollars for a million tokens of prompt and of answer at list prices, where known\n";
    for entry in catalogue::ENTRIES {
        let (window, answer) = (grouped(entry.context_window), grouped(entry.max_output));
        let price = entry.price.map(|(input, output)| format!(" {input:>8} {output:>6}")).unwrap_or_default();
        out += &format!("  {:<24} {window:>10} {answer:>10}{price}\n", entry.prefix);
    }
    out += "other models can be used too; only their sizes and prices are unknown\n\n";
    out += &match model_choice::choose(None, None, &env) {
        Ok(choice) => format!("`deepagents run` would use {choice}"),
        Err(error) => format!("`deepagents run` could not choose: {error}"),
    };
    out
}

fn as_json() -> Result<String> {
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
    let models: Vec<_> = catalogue::ENTRIES
        .iter()
        .map(|entry| {
            json!({
                "prefix": entry.prefix,
                "context_window": entry.context_window,
                "max_output": entry.max_output,
                "price": entry.price.map(|(input, output)| json!({"input": input, "output": output})),
            })
        })
        .collect();
    let choice = model_choice::choose(None, None, &env).ok().map(|choice| choice.name);
    Ok(json_text(&json!({"providers": providers, "models": models, "choice": choice}))?)
}
