//! Commands of the screens that Markdown files define: `NAME.md` in `.deepagents/commands`, of the user and of a directory.
//! A file in a directory below is `DIRECTORY:NAME`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use deepagents::State;
use deepagents::fs::{Backend, ByteRange, FsError, Kind, VPath};
use deepagents::trust::{FoundItem, TrustItem, TrustKind};
use deepagents_tui::CommandFile;

use crate::model_choice::env;
use crate::small_file;
use crate::sources::OWN;

/// Where they are.
const COMMANDS: &str = "commands";
/// Bytes of a file, and files of a place.
const MOST: u64 = 256 << 10;
const FILES: usize = 500;

/// The commands of a directory as something that it brings, with what cannot be looked at.
pub(crate) async fn brought(files: &dyn Backend) -> Result<(Vec<FoundItem>, Vec<String>)> {
    let top = VPath::parse(&format!("/{OWN}/{COMMANDS}")).map_err(|error| anyhow!("{error}"))?;
    let (mut found, mut problems, mut places) = (Vec::new(), Vec::new(), vec![(top, String::new())]);
    while let Some((place, prefix)) = places.pop() {
        let listing = match files.list(&State::default(), &place).await {
            Ok(listing) => listing,
            Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => continue,
            Err(error) => {
                problems.push(format!("commands: {error}"));
                continue;
            }
        };
        for entry in listing.entries {
            let name = entry.path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            match entry.kind {
                // One level below: more is no name that anybody types.
                Kind::Directory if prefix.is_empty() => places.push((entry.path, format!("{name}:"))),
                Kind::File if found.len() < FILES => {
                    let Some(stem) = name.strip_suffix(".md") else { continue };
                    match files.read(&State::default(), &entry.path, ByteRange::first(MOST + 1)).await {
                        Ok(read) if read.bytes.len() as u64 <= MOST => {
                            let source = entry.path.as_str();
                            let item =
                                TrustItem::new(TrustKind::Command, format!("{prefix}{stem}"), source, &read.bytes);
                            found.push(FoundItem::new(item, Vec::new()).file(entry.path, read.bytes));
                        }
                        Ok(_) => problems.push(format!("{} has more than {} kB", entry.path, MOST >> 10)),
                        Err(error) => problems.push(format!("commands: {error}")),
                    }
                }
                _ => {}
            }
        }
    }
    Ok((found, problems))
}

/// The commands that may be used, by name: the user's, and those of a directory as far as they were agreed to, which come
/// before the user's.
pub(crate) fn usable<'a>(admitted: impl IntoIterator<Item = &'a FoundItem>) -> Vec<CommandFile> {
    let mut all = BTreeMap::new();
    if let Some(home) = env("HOME") {
        users(&Path::new(&home).join(OWN).join(COMMANDS), "", &mut all);
    }
    for found in admitted.into_iter().filter(|found| found.item.kind == TrustKind::Command) {
        if let Some((_, bytes)) = found.files().next() {
            let name = found.item.name.clone();
            all.insert(name.clone(), parse(name, &String::from_utf8_lossy(bytes)));
        }
    }
    all.into_values().collect()
}

/// The user's own; what cannot be read is none.
fn users(place: &Path, prefix: &str, all: &mut BTreeMap<String, CommandFile>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten().take(FILES) {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        if path.is_dir() && prefix.is_empty() {
            users(&path, &format!("{name}:"), all);
        } else if let Some(stem) = name.strip_suffix(".md")
            && let Ok(Some(text)) = small_file::read(&path)
        {
            let name = format!("{prefix}{stem}");
            all.insert(name.clone(), parse(name, &text));
        }
    }
}

/// A command of its file: front matter with `description` and `argument-hint`, then the message.
fn parse(name: String, file: &str) -> CommandFile {
    let text = file.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let (head, body) = match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) {
        Some((head, body)) => (head.to_owned(), body.to_owned()),
        None => (String::new(), text),
    };
    let field = |key: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
        line.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
    };
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let about = Some(field("description")).filter(|about| !about.is_empty());
    CommandFile {
        name,
        args: field("argument-hint"),
        about: about.unwrap_or_else(|| first.trim_start_matches('#').trim().to_owned()),
        text: body.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_its_command_is_for_and_what_it_takes() {
        let command = parse("fix".to_owned(), "---\ndescription: \"Fix it\"\nargument-hint: NUMBER\n---\n\nFix $1.\n");
        assert_eq!((command.about.as_str(), command.args.as_str()), ("Fix it", "NUMBER"));
        assert_eq!(command.text, "Fix $1.");
        assert_eq!(parse("a".to_owned(), "# Say hello\nto all").about, "Say hello");
    }
}
