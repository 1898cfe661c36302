//! Pages of the program that the screens show.

use std::path::Path;

use anyhow::{Result, anyhow};
use deepagents::fs::sandbox::Sandbox;
use deepagents::remembered::{RuleRecord, RuleScope};
use deepagents_tui::Page;

use crate::model_choice::env;
use crate::{doctor, permissions};

/// A page as text, for a model that was chosen by its name or address.
pub(super) async fn page(page: Page, root: &Path, model: (Option<&str>, Option<&str>)) -> Result<String> {
    match page {
        Page::Doctor => machine(model).await,
        Page::Permissions => remembered(root),
        Page::Bug => bug(model).await,
        // The host has them: they are those that the screens began with.
        Page::Config => Ok(String::new()),
    }
}

/// What this machine has.
async fn machine((model, base_url): (Option<&str>, Option<&str>)) -> Result<String> {
    let sandbox = tokio::task::spawn_blocking(|| Sandbox::new().probe()).await?;
    Ok(format!("{}\n{sandbox}", doctor::machine(model, base_url)))
}

/// What was always allowed in runs of `deepagents run` in a directory.
fn remembered(root: &Path) -> Result<String> {
    let (Some(store), Ok(scope)) = (permissions::store(), RuleScope::project(root)) else {
        return Ok("nothing is always allowed".to_owned());
    };
    let records = store.records().map_err(|error| anyhow!("{error}"))?;
    let line = |record: &RuleRecord| format!("always allowed in this directory: {} ({})", record.rule, record.id);
    let lines: Vec<String> = records.iter().filter(|record| record.scope == scope).map(line).collect();
    if lines.is_empty() {
        return Ok("nothing is always allowed in this directory".to_owned());
    }
    Ok(format!("{}\n`deepagents permissions remove NUMBER` takes one back", lines.join("\n")))
}

/// What a report of a mistake should hold; nothing of what was said.
async fn bug(model: (Option<&str>, Option<&str>)) -> Result<String> {
    let terminal = ["TERM", "TERM_PROGRAM", "COLORTERM", "LANG"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", env(name)?)))
        .collect::<Vec<_>>()
        .join(" ");
    Ok(format!(
        "Tell what you did, what came of it, and what you had expected, together with this:\n\n{}\nterminal: {terminal}",
        machine(model).await?
    ))
}
