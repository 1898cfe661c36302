//! What the directory brings, for screens that start without asking about it.

use std::sync::Arc;

use anyhow::Result;
use deepagents::fs::Backend;
use deepagents::trust::{Consent, FoundItem, TrustItem};
use deepagents_tui::{CommandFile, Offered};

use crate::args::AgentArgs;
use crate::render::{escaped, escaped_lines};
use crate::trust::{Brought, Consents, is_users_own, remember, survey_all};
use crate::{file_commands, front_matter};

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
    let (found, root) = (survey_all(args, files).await?, args.directory());
    let known = Consents::of_root(root)?;
    let is_agreed = |found: &FoundItem| {
        args.trust || is_users_own(root, found) || agreed.contains(&found.item) || known.has(&found.item)
    };
    let (admitted, rest): (Vec<FoundItem>, Vec<FoundItem>) = found.items.into_iter().partition(is_agreed);
    if args.trust {
        remember(root, admitted.iter().filter(|found| !is_users_own(root, found)).cloned())?;
    }
    let is_refused = |found: &&FoundItem| known.about(&found.item) == Some(Consent::Refused);
    let offered = rest.iter().filter(|found| !is_refused(found)).map(offer).collect();
    Ok(Definitions {
        brought: Brought { files: Arc::new(admitted.iter().collect()) },
        commands: file_commands::usable(&admitted),
        offered,
        problems: found.problems,
    })
}

/// Returns the items that the user has not decided about.
pub(super) async fn undecided(args: &AgentArgs, files: &dyn Backend) -> Result<Vec<FoundItem>> {
    let known = Consents::of_root(args.directory())?;
    let found = survey_all(args, files).await?.items.into_iter();
    let is_open = |found: &FoundItem| !is_users_own(args.directory(), found) && known.about(&found.item).is_none();
    Ok(found.filter(is_open).collect())
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
