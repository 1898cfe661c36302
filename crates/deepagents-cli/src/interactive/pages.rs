//! Pages of the program that the screens display.

use std::path::Path;

use anyhow::Result;
use deepagents::fs::sandbox::Sandbox;
use deepagents::remembered::{RuleRecord, RuleScope};

use crate::model_choice::env;
use crate::{doctor, permissions};

/// Describes this machine, for a model with this name and address, as far as they were given.
pub(super) async fn machine((model, base_url): (Option<&str>, Option<&str>)) -> Result<String> {
    let sandbox = tokio::task::spawn_blocking(|| Sandbox::new().probe()).await?;
    Ok(format!("{}\n{sandbox}", doctor::machine(model, base_url)))
}

/// Lists what the user has always allowed in a directory for `deepagents run`.
pub(super) fn remembered(root: &Path) -> Result<String> {
    let (Some(store), Ok(scope)) = (permissions::store(), RuleScope::project(root)) else {
        return Ok("nothing is always allowed".to_owned());
    };
    let records = store.records()?;
    let line = |record: &RuleRecord| format!("always allowed in this directory: {} ({})", record.rule, record.id);
    let lines: Vec<String> = records.iter().filter(|record| record.scope == scope).map(line).collect();
    if lines.is_empty() {
        return Ok("nothing is always allowed in this directory".to_owned());
    }
    Ok(format!("{}\n`deepagents permissions remove NUMBER` removes one", lines.join("\n")))
}

/// Returns what a bug report should contain; nothing of the conversation.
pub(super) async fn bug(model: (Option<&str>, Option<&str>)) -> Result<String> {
    let terminal = ["TERM", "TERM_PROGRAM", "COLORTERM", "LANG"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", env(name)?)))
        .collect::<Vec<_>>()
        .join(" ");
    Ok(format!(
        "Say what you did, what happened, and what you expected, and include this:\n\n{}\nterminal: {terminal}",
        machine(model).await?
    ))
}
