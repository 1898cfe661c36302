//! Sub-agents of Claude Code: finding their files, and naming the imported ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::definition::{slug, translate};
use super::report::Report;

/// Maximum depth of directories.
const MAX_DEPTH: usize = 8;

/// Imports sub-agents, including those in subdirectories: their names do not depend on the directory.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    let mut found = Vec::new();
    below(from, MAX_DEPTH, report, &mut found);
    let (mut files, mut names) = (BTreeSet::new(), BTreeMap::new());
    for path in found {
        let Some(bytes) = report.read(&path) else { continue };
        let file = name_of(&path, &files);
        let definition = match translate(&String::from_utf8_lossy(&bytes), &file) {
            Ok(definition) => definition,
            Err(why) => {
                report.note_skipped(&path, why);
                continue;
            }
        };
        if let Some(known) = names.get(&definition.name) {
            let known: &PathBuf = known;
            report.note_skipped(&path, format!("{} also defines a sub-agent `{}`", known.display(), definition.name));
            continue;
        }
        let is_there = report.write(&path, &to.join(format!("{file}.md")), definition.text.as_bytes());
        if is_there && !definition.lost.is_empty() {
            report.note_skipped(&path, definition.lost.join(", "));
        }
        files.insert(file);
        names.insert(definition.name, path);
    }
}

/// Returns the name of the imported file: the original name, prefixed with that of its directory if another file
/// already has the name.
fn name_of(path: &Path, taken: &BTreeSet<String>) -> String {
    let words = |path: &Path| path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    // Files that begin with a dot are skipped when sub-agents are looked up.
    let name = words(path).trim_start_matches('.').to_owned();
    match path.parent() {
        Some(above) if taken.contains(&name) => slug(&format!("{} {name}", words(above))),
        _ => name,
    }
}

/// Collects the Markdown files in and below a directory.
fn below(from: &Path, depth: usize, report: &mut Report, found: &mut Vec<PathBuf>) {
    for (name, path) in report.entries(from) {
        if path.is_dir() && !path.is_symlink() {
            match depth {
                0 => report.note_skipped(&path, "it is nested too deep"),
                _ => below(&path, depth - 1, report, found),
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}
