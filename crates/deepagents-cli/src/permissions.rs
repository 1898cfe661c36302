//! `deepagents permissions`: what the user has always allowed.

use anyhow::{Result, anyhow, bail};
use deepagents::remembered::{RememberedRules, RuleRecord, RuleScope};

use crate::args::{PermissionsArgs, PermissionsCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::own_files::of_user;
use crate::render::{escaped, json_text};

/// Returns the user's rules, or `None` if there is no home directory.
pub(crate) fn store() -> Option<RememberedRules> {
    of_user("permissions.json").map(RememberedRules::at)
}

/// Checks that the user's rules can be read.
pub(crate) fn check() -> Result<()> {
    store().map(|store| store.records()).transpose()?;
    Ok(())
}

/// Shows rules and revokes them.
pub(crate) fn permissions(args: &PermissionsArgs) -> Result<Exit> {
    let store =
        store().ok_or_else(|| anyhow!("rules are stored in ~/.deepagents/permissions.json, but HOME is not set"))?;
    let text = match &args.command {
        PermissionsCommand::List { json } => {
            let records = store.records()?;
            match (json, records.is_empty()) {
                (true, _) => json_text(&records)?,
                (false, true) => "nothing is always allowed".to_owned(),
                (false, false) => records.iter().map(line).collect::<Vec<_>>().join("\n"),
            }
        }
        PermissionsCommand::Remove { ids, all } => {
            let known: Vec<u64> = store.records()?.iter().map(|record| record.id).collect();
            if let Some(unknown) = ids.iter().find(|id| !known.contains(id)) {
                let words = format!("there is no rule {unknown}; `deepagents permissions list` shows all rules");
                bail!(WrongUsage::new(words));
            }
            let gone = store.forget(|record| *all || ids.contains(&record.id))?;
            let forgotten: Vec<String> =
                gone.iter().map(|record| format!("forgotten: {}", line(record).trim())).collect();
            if gone.is_empty() { "nothing is always allowed".to_owned() } else { forgotten.join("\n") }
        }
    };
    exit::shown(&text)
}

fn line(record: &RuleRecord) -> String {
    let place = match &record.scope {
        RuleScope::Thread(id) => format!("in thread {}", escaped(id)),
        RuleScope::Project(root) => format!("in {}", escaped(root)),
        _ => "elsewhere".to_owned(),
    };
    let day = record.at.get(..10).unwrap_or(&record.at);
    format!("{:>4}  {day}  {}  {place}", record.id, escaped(&record.rule.to_string()))
}
