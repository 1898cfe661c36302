//! `deepagents explain`.

mod first;

use anyhow::Result;
use deepagents::Explanation;
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::exit::{self, Exit};
use crate::mcp::{self, KnownServer};
use crate::model_choice::{self, Choice, Reason};
use crate::render::json_text;
use crate::render::style::printable;
use crate::{agent, config, output, runtime};
use first::FromFiles;

/// Placeholder model, used if none is named and no key is set.
const STAND_IN: &str = "anthropic:claude-sonnet-4-5";

/// Counts tokens with the o200k vocabulary, which is built into the program.
#[cfg(feature = "tokens")]
fn count(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
}

/// Estimates tokens as [`DeepAgent::explain`](deepagents::DeepAgent::explain) does: four characters each.
#[cfg(not(feature = "tokens"))]
fn count(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// Prints what an agent is made of, and how many tokens it costs. Nothing is sent, so no key is needed.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit> {
    let options = config::completed(&args.agent)?;
    agent::check_root(options.directory())?;
    let (model, base_url) = (options.model.as_deref(), options.base_url.as_deref());
    let named = model.is_some() || base_url.is_some() || model_choice::env(model_choice::MODEL_VARIABLE).is_some();
    let choice = match model_choice::choose(model, base_url, &model_choice::env) {
        Ok(choice) => choice,
        Err(error) if named => return Err(error),
        Err(_) => {
            output::remark(&format!("no model is named and no key is set: using {STAND_IN} as a stand-in"));
            Choice { name: STAND_IN.to_owned(), reason: Reason::Named }
        }
    };
    let model = model_choice::inspected(&choice, &options)?;
    let runtime = runtime::start()?;
    let agent = runtime.block_on(agent::builder(&options, model))?.background_agents(args.background).build()?;
    let mut explanation = agent.explain();
    let about = if cfg!(feature = "tokens") { "" } else { "about " };
    if about.is_empty() {
        explanation = explanation.counted("o200k", count);
    }
    let loaded = runtime.block_on(first::loaded(&agent))?;
    let servers = mcp::known(&options)?;
    if args.json {
        return exit::shown(&json_text(&Explained { explanation: &explanation, loaded: &loaded, servers: &servers })?);
    }
    output::print(&explanation.to_string())?;
    if !loaded.parts.is_empty() {
        let tokens = loaded.parts.iter().map(|part| part.tokens).sum::<usize>();
        output::print(&format!(
            "\n{loaded}\nin total, with loaded files: {about}{} tokens",
            explanation.fixed_tokens + tokens
        ))?;
    }
    if !servers.is_empty() {
        output::print("\nMCP servers, as last seen")?;
        servers.iter().try_for_each(|s| {
            let name = printable(&s.name);
            output::print(&format!("  {:<44}{:>8}", format!("{name}, {}", mcp::number(s.tools)), s.tokens))
        })?;
    }
    output::remarks(&loaded.warnings);
    Ok(Exit::Done)
}

/// The explanation as JSON.
#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    loaded: &'a FromFiles,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    servers: &'a [KnownServer],
}
