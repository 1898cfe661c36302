//! Which settings name commands and files.

use serde::{Deserialize, Serialize};

use super::text::{self, Parsed};

/// Sections whose values are names and addresses, and the keys in them whose values are commands.
const NAMES: [(&str, &[&str]); 8] = [
    ("remote", &["uploadpack", "receivepack"]),
    ("submodule", &["update"]),
    ("lfs", &["path", "args", "clean", "smudge"]),
    ("branch", &[]),
    ("url", &[]),
    ("user", &[]),
    ("color", &[]),
    ("extensions", &[]),
];
/// Addresses that begin like this are commands.
const COMMAND_ADDRESS: &str = "ext::";

/// A setting that matters to what git runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) kind: Kind,
    pub(super) value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// More settings.
    Include,
    /// A file or directory that git reads.
    File,
    /// The directory of the hooks.
    Hooks,
    /// The directory that relative paths start from, relative to the repository.
    Worktree,
    /// It may contain a command.
    Command,
}

/// Parses the settings in a text that matter to what git runs.
pub(super) fn settings(text: &str) -> impl Iterator<Item = Setting> {
    text::settings(text).into_iter().flat_map(of)
}

fn of(parsed: Parsed) -> impl Iterator<Item = Setting> {
    let Parsed { section, subsection, key, value } = parsed;
    let (section, key) = (section.as_str(), key.as_str());
    let command = |address: String| {
        let text = address.strip_prefix(COMMAND_ADDRESS)?.to_owned();
        Some(Setting { kind: Kind::Command, value: text })
    };
    let names = NAMES.iter().find(|(name, _)| *name == section);
    let kind = match (section, key) {
        ("include" | "includeif", "path") => Some(Kind::Include),
        ("core", "hookspath") => Some(Kind::Hooks),
        ("core", "worktree") => Some(Kind::Worktree),
        // Attributes select filters, and a template has hooks.
        ("core", "attributesfile") | ("init", "templatedir") => Some(Kind::File),
        _ if names.is_none_or(|(_, keys)| keys.contains(&key)) => Some(Kind::Command),
        _ => None,
    };
    let address = if kind.is_none() { command(value.clone()) } else { None };
    let base = if section == "url" { command(subsection) } else { None };
    kind.map(|kind| Setting { kind, value }).into_iter().chain(address).chain(base)
}
