//! `deepagents trust`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use deepagents::trust::{Consent, FoundItem, TrustRecord};
use serde_json::json;

use super::{Consents, admit, ask, known_store, survey_all};
use crate::args::{AgentArgs, TrustArgs, TrustCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::render::{Columns, escaped, json_text};
use crate::{agent, mcp, output, runtime};

/// The message if there is nothing to show or revoke.
const NOTHING: &str = "nothing is stored: you have not agreed to anything that a directory brings";

/// Shows and revokes what the user has agreed to.
pub(crate) fn trust(args: &TrustArgs) -> Result<Exit> {
    match &args.command {
        TrustCommand::List { json } => list(*json),
        TrustCommand::Show { root, json } => show(root, *json),
        TrustCommand::Revoke { root, source, all } => revoke(root, source.as_deref(), *all),
    }
}

/// Lists all stored decisions.
fn list(as_json: bool) -> Result<Exit> {
    let records = known_store()?.records()?;
    if as_json {
        return exit::shown(&json_text(&records)?);
    }
    if records.is_empty() {
        return exit::shown(NOTHING);
    }
    let mut lines = Vec::new();
    for group in records.chunk_by(|a, b| a.root == b.root) {
        lines.extend(group.first().map(|record| escaped(&record.root)));
        lines.extend(group.iter().map(line));
    }
    exit::shown(&lines.join("\n"))
}

fn line(record: &TrustRecord) -> String {
    let TrustRecord { item, consent, at, .. } = record;
    let day = at.get(..10).unwrap_or(at);
    format!("  {:<8} {day}  {}  sha256 {}", consent_text(*consent), admit::named(item), escaped(item.short_hash()))
}

fn consent_text(consent: Consent) -> &'static str {
    match consent {
        Consent::Trusted => "trusted",
        Consent::Refused => "refused",
    }
}

/// Shows what a directory brings, whether it may be used, and its contents.
fn show(root: &Path, as_json: bool) -> Result<Exit> {
    let files = agent::open_at(root)?;
    let mut survey = runtime::start()?.block_on(survey_all(&AgentArgs::at(root), &files))?;
    survey.items.extend(mcp::brought(root));
    known_store()?;
    let known = Consents::of_root(root)?;
    if as_json {
        let described = |found: &FoundItem| {
            let standing = known.about(&found.item).map_or("undecided", consent_text);
            json!({"item": found.item, "asks_for": found.asks_for, "standing": standing})
        };
        return exit::shown(&json_text(&survey.items.iter().map(described).collect::<Vec<_>>())?);
    }
    output::remarks(&survey.problems);
    let shown = escaped(&root.display().to_string());
    if survey.items.is_empty() {
        return exit::shown(&format!("{shown} contains nothing that steers the agent"));
    }
    let columns = Columns::new(output::stdout_columns());
    let mut out = Vec::new();
    for (title, consent) in [
        ("undecided; a run asks about it, or leaves it out without --trust", None),
        ("trusted", Some(Consent::Trusted)),
        ("refused", Some(Consent::Refused)),
    ] {
        let items: Vec<&FoundItem> = survey.items.iter().filter(|found| known.about(&found.item) == consent).collect();
        if !items.is_empty() {
            out.push(format!("{title}:\n{}", ask::listed(items.iter().copied(), columns)));
        }
    }
    out.push(ask::texts(&survey.items, columns));
    exit::shown(&out.join("\n"))
}

/// Forgets the decisions about a directory, about part of it, or about all directories.
fn revoke(root: &Path, source: Option<&str>, all: bool) -> Result<Exit> {
    let store = known_store()?;
    // A directory that no longer exists cannot be canonicalised.
    let root: PathBuf = root.canonicalize().or_else(|_| std::path::absolute(root))?;
    let of_root = |record: &TrustRecord| all || Path::new(&record.root) == root;
    let picked = |record: &TrustRecord| source.is_none_or(|s| record.item.source == s || record.item.name == s);
    let gone = store.forget(|record| of_root(record) && picked(record))?;
    if gone.is_empty() && all && source.is_none() {
        return exit::shown(NOTHING);
    }
    if gone.is_empty() {
        let what = source.map(|source| format!("`{}` of ", escaped(source))).unwrap_or_default();
        let whose = if all { "any directory".to_owned() } else { escaped(&root.display().to_string()) };
        bail!(WrongUsage::new(format!("nothing is stored about {what}{whose}; `deepagents trust list` shows what is")));
    }
    let lines: Vec<String> = gone
        .iter()
        .map(|record| format!("forgotten: {} of {}", admit::named(&record.item), escaped(&record.root)))
        .collect();
    exit::shown(&lines.join("\n"))
}
