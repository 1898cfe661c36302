//! Slash commands defined by Markdown files: `NAME.md` in `.deepagents/commands`, of the user and of a directory. A
//! file in a subdirectory is the command `DIRECTORY:NAME`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use deepagents::State;
use deepagents::fs::{Backend, ByteRange, FsError, Kind, VPath};
use deepagents::trust::{FoundItem, TrustItem, TrustKind};
use deepagents_tui::CommandFile;

use crate::own_files::{OWN, of_user};
use crate::small_file::without_mark;
use crate::{front_matter, small_file};

/// Name of the directory that holds them.
pub(crate) const COMMANDS: &str = "commands";
/// Maximum size of a file in bytes, and maximum number of files.
const MAX_FILE_BYTES: u64 = 256 << 10;
const MAX_FILES: usize = 500;

/// Returns the commands that a directory brings, as items to agree to, and the problems with files that cannot be read.
pub(crate) async fn brought(files: &dyn Backend) -> Result<(Vec<FoundItem>, Vec<String>)> {
    let top = VPath::parse(&format!("/{OWN}/{COMMANDS}"))?;
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
            // Only one level deep: nobody types longer names.
            if entry.kind == Kind::Directory && prefix.is_empty() {
                places.push((entry.path, format!("{name}:")));
                continue;
            }
            let Some(stem) = name.strip_suffix(".md") else { continue };
            if entry.kind != Kind::File || found.len() >= MAX_FILES {
                continue;
            }
            match files.read(&State::default(), &entry.path, ByteRange::first(MAX_FILE_BYTES + 1)).await {
                Ok(read) if read.bytes.len() as u64 <= MAX_FILE_BYTES => {
                    let (name, source) = (format!("{prefix}{stem}"), entry.path.as_str());
                    let item = TrustItem::new(TrustKind::Command, name, source, &read.bytes);
                    found.push(FoundItem::new(item, Vec::new()).file(entry.path, read.bytes));
                }
                Ok(_) => problems.push(format!("{} is larger than {} kB", entry.path, MAX_FILE_BYTES >> 10)),
                Err(error) => problems.push(format!("commands: {error}")),
            }
        }
    }
    Ok((found, problems))
}

/// Returns the commands that may be used, by name: the user's, and the directory's that were agreed to, which take
/// precedence.
pub(crate) fn usable<'a>(admitted: impl IntoIterator<Item = &'a FoundItem>) -> Vec<CommandFile> {
    let mut all = BTreeMap::new();
    if let Some(place) = of_user(COMMANDS) {
        users(&place, "", &mut all);
    }
    for command in admitted.into_iter().filter_map(of_item) {
        all.insert(command.name.clone(), command);
    }
    all.into_values().collect()
}

/// Returns the command of an item that a directory brings, if it is one.
pub(crate) fn of_item(found: &FoundItem) -> Option<CommandFile> {
    let (_, bytes) = found.files().next().filter(|_| found.item.kind == TrustKind::Command)?;
    Some(parse(found.item.name.clone(), &String::from_utf8_lossy(bytes)))
}

/// Collects the user's own commands; files that cannot be read are skipped.
fn users(place: &Path, prefix: &str, all: &mut BTreeMap<String, CommandFile>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten().take(MAX_FILES) {
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

/// Parses a command file: front matter with `description` and `argument-hint`, then the message.
fn parse(name: String, file: &str) -> CommandFile {
    let text = file.replace("\r\n", "\n");
    let (fields, body) = front_matter::read_if_any(without_mark(&text));
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let about = front_matter::line(&fields, "description");
    CommandFile {
        name,
        args: front_matter::line(&fields, "argument-hint").unwrap_or_default(),
        about: about.unwrap_or_else(|| first.trim_start_matches('#').trim().to_owned()),
        text: body.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_file_declares_its_description_and_its_arguments() {
        let command = parse("fix".to_owned(), "---\ndescription: \"Fix it\"\nargument-hint: NUMBER\n---\n\nFix $1.\n");
        assert_eq!((command.about.as_str(), command.args.as_str()), ("Fix it", "NUMBER"));
        assert_eq!(command.text, "Fix $1.");
        assert_eq!(parse("a".to_owned(), "# Say hello\nto all").about, "Say hello");
        let folded =
            parse("b".to_owned(), "---\r\ndescription: >\r\n  Fix\r\n  it\r\nargument-hint: [a] [b]\r\n---\r\nGo.");
        assert_eq!((folded.about.as_str(), folded.args.as_str(), folded.text.as_str()), ("Fix it", "[a] [b]", "Go."));
        assert_eq!(parse("c".to_owned(), "---\nargument-hint: [issue, when]\n---\nGo.").args, "[issue, when]");
    }
}
