//! What the directory brings, for screens that start without asking about it.

use std::path::Path;

use anyhow::{Result, anyhow};
use deepagents::fs::Backend;
use deepagents::trust::{Consent, FoundItem, Survey, TrustItem};
use deepagents_tui::{CommandFile, Offered};

use crate::args::AgentArgs;
use crate::render::{escaped, escaped_lines};
use crate::trust::{Brought, is_users_own, store, survey_root};
use crate::{config, file_commands, front_matter};

/// The items that may be used, and those that the user has not yet agreed to.
pub(super) struct Definitions {
    pub(super) brought: Brought,
    /// Commands from files that may be used.
    pub(super) commands: Vec<CommandFile>,
    pub(super) offered: Vec<Offered>,
    pub(super) problems: Vec<String>,
}

/// Returns what the directory brings. Items may be used if the user has agreed to them before, for this session, or on
/// the command line.
pub(super) async fn definitions(args: &AgentArgs, files: &dyn Backend, agreed: &[TrustItem]) -> Result<Definitions> {
    let found = survey(args, files).await?;
    let root = args.directory().to_owned();
    let known = recorded_consents(&root)?;
    let is_agreed = |found: &FoundItem| {
        args.trust
            || is_users_own(&root, found)
            || agreed.contains(&found.item)
            || known.iter().any(|(item, consent)| *item == found.item && *consent == Consent::Trusted)
    };
    let (admitted, rest): (Vec<FoundItem>, Vec<FoundItem>) = found.items.into_iter().partition(is_agreed);
    if args.trust {
        remember(&root, admitted.iter().filter(|found| !is_users_own(&root, found)).cloned().collect())?;
    }
    let refused =
        |found: &FoundItem| known.iter().any(|(item, consent)| *item == found.item && *consent == Consent::Refused);
    let offered = rest.iter().filter(|found| !refused(found)).map(offer).collect();
    Ok(Definitions {
        brought: Brought { files: std::sync::Arc::new(admitted.iter().collect()) },
        commands: file_commands::usable(&admitted),
        offered,
        problems: found.problems,
    })
}

/// Returns what the directory brings for an agent and for the screens.
async fn survey(args: &AgentArgs, files: &dyn Backend) -> Result<Survey> {
    let mut found = survey_root(args, files).await?;
    let (commands, problems) = file_commands::brought(files).await?;
    found.items.extend(commands);
    found.items.extend(config::brought(files).await?);
    found.problems.extend(problems);
    Ok(found)
}

/// Returns the items that the user has not decided about.
pub(super) async fn undecided(args: &AgentArgs, files: &dyn Backend) -> Result<Vec<FoundItem>> {
    let known = recorded_consents(args.directory())?;
    let found = survey(args, files).await?.items;
    let is_open = |found: &FoundItem| {
        !is_users_own(args.directory(), found) && !known.iter().any(|(item, _)| *item == found.item)
    };
    Ok(found.into_iter().filter(is_open).collect())
}

/// Records the user's agreement for good.
pub(super) fn remember(root: &Path, open: Vec<FoundItem>) -> Result<()> {
    let items: Vec<TrustItem> = open.into_iter().map(|found| found.item).collect();
    crate::trust::remember(root, items)
}

pub(super) fn recorded_consents(root: &Path) -> Result<Vec<(TrustItem, Consent)>> {
    let Some(store) = store() else { return Ok(Vec::new()) };
    let records = store.of_root(root).map_err(|error| anyhow!("{error}"))?;
    Ok(records.into_iter().map(|record| (record.item, record.consent)).collect())
}

/// Describes an item for the offer: its kind, its description, and its full text.
fn offer(found: &FoundItem) -> Offered {
    let mut text = Vec::new();
    for (path, bytes) in found.files() {
        text.push(format!("── {}", escaped(path.as_str())));
        text.extend(escaped_lines(&String::from_utf8_lossy(bytes)));
    }
    let about = found.files().find_map(|(_, bytes)| {
        let text = String::from_utf8_lossy(bytes);
        front_matter::line(&front_matter::read_if_any(&text).0, "description").map(|about| escaped(&about))
    });
    Offered {
        kind: found.item.kind.as_str().to_owned(),
        name: found.item.name.clone(),
        about: about.unwrap_or_default(),
        text: text.join("\n"),
    }
}
