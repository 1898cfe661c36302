//! Sub-agents of Claude Code: which files there are of them, and what they are called here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::definition::{slug, translate};
use super::report::Report;

/// How deep directories are looked into.
const DEPTH: usize = 8;

/// Takes sub-agents over, those of directories below too: what they are called does not depend on where they lie.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    let mut found = Vec::new();
    below(from, DEPTH, report, &mut found);
    let (mut files, mut names) = (BTreeSet::new(), BTreeMap::new());
    for path in found {
        let Some(bytes) = report.read(&path) else { continue };
        let file = name_of(&path, &files);
        let definition = match translate(&String::from_utf8_lossy(&bytes), &file) {
            Ok(definition) => definition,
            Err(why) => {
                report.left(&path, why);
                continue;
            }
        };
        if let Some(known) = names.get(&definition.name) {
            let known: &PathBuf = known;
            report.left(&path, format!("{} defines a sub-agent `{}`, too", known.display(), definition.name));
            continue;
        }
        let is_there = report.write(&path, &to.join(format!("{file}.md")), definition.text.as_bytes());
        if is_there && !definition.lost.is_empty() {
            report.left(&path, definition.lost.join(", "));
        }
        files.insert(file);
        names.insert(definition.name, path);
    }
}

/// What the file is called here: as there, with its directory before it where one of another directory is called so.
fn name_of(path: &Path, taken: &BTreeSet<String>) -> String {
    let words = |path: &Path| path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    // What begins with a dot is passed over where sub-agents are looked for.
    let name = words(path).trim_start_matches('.').to_owned();
    match path.parent() {
        Some(above) if taken.contains(&name) => slug(&format!("{} {name}", words(above))),
        _ => name,
    }
}

/// The Markdown files of a directory and those below it.
fn below(from: &Path, depth: usize, report: &mut Report, found: &mut Vec<PathBuf>) {
    for (name, path) in report.entries(from) {
        if path.is_dir() && !path.is_symlink() {
            match depth {
                0 => report.left(&path, "it lies too deep"),
                _ => below(&path, depth - 1, report, found),
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}
