//! Deciding which items of a root may be used.

use std::path::Path;

use anyhow::Result;
use deepagents::trust::{Consent, FoundItem, TrustItem};

use super::{Consents, Undecided, ask, decide};
use crate::output;
use crate::render::escaped;

/// Returns the items that may be used: those the user agreed to before, and those agreed to now. Reports what is left
/// out on stderr in every output mode.
///
/// # Errors
/// Returns an error if the trust store cannot be read or written.
pub(crate) fn admit(root: &Path, items: Vec<FoundItem>, undecided: Undecided) -> Result<Vec<FoundItem>> {
    if items.is_empty() {
        return Ok(items);
    }
    let known = Consents::of_root(root)?;
    let (mut admitted, mut open) = (Vec::new(), Vec::new());
    for found in items {
        match known.about(&found.item) {
            Some(Consent::Trusted) => admitted.push(found),
            Some(Consent::Refused) if undecided != Undecided::Accept => {}
            _ => open.push(found),
        }
    }
    if open.is_empty() {
        return Ok(admitted);
    }
    let answer = match undecided {
        Undecided::Ask => ask::about(root, &open)?,
        Undecided::Accept => ask::Answer::Always,
        Undecided::LeaveOut => ask::Answer::NotNow,
        Undecided::Assume => ask::Answer::Once,
    };
    let consent = match answer {
        ask::Answer::Always => Some(Consent::Trusted),
        ask::Answer::Never => Some(Consent::Refused),
        ask::Answer::Once | ask::Answer::NotNow => None,
    };
    if let Some(consent) = consent {
        let items: Vec<TrustItem> = open.iter().map(|found| found.item.clone()).collect();
        decide(root, &items, consent)?;
    }
    match answer {
        ask::Answer::Always | ask::Answer::Once => admitted.extend(open),
        ask::Answer::NotNow if undecided == Undecided::LeaveOut => output::remark(&left_out(root, &open)),
        ask::Answer::NotNow | ask::Answer::Never => {}
    }
    Ok(admitted)
}

/// Describes what is left out, and how to use it.
fn left_out(root: &Path, open: &[FoundItem]) -> String {
    let names: Vec<String> = open.iter().map(|found| named(&found.item)).collect();
    let root = escaped(&root.display().to_string());
    format!(
        "left out, since you have not agreed to it: {}; inspect it with `deepagents trust show {root}`, use it with --trust",
        names.join(", ")
    )
}

/// Names an item briefly.
pub(super) fn named(item: &TrustItem) -> String {
    let (name, source) = (escaped(&item.name), escaped(&item.source));
    if name == source { format!("{} {name}", item.kind) } else { format!("{} {name} ({source})", item.kind) }
}
