//! Formats the notes for the model.

use std::collections::BTreeMap;

use deepagents_fs::VPath;

use super::load::cut;
use crate::channels::MemoryFile;

const NONE: &str = "(No memory loaded)";

/// Formats the files in order, each under its path, within a total number of characters; then lists what is missing.
pub(super) fn notes(paths: &[VPath], files: &BTreeMap<VPath, MemoryFile>, max_chars: usize) -> String {
    let mut left = max_chars;
    let mut sections = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match files.get(path) {
            Some(MemoryFile { problem: Some(problem), .. }) => {
                problems.push(format!("[{path} could not be read: {}]", harmless(problem)));
            }
            Some(file) if !file.text.is_empty() => {
                let text = cut(&file.text, left);
                left = left.saturating_sub(text.chars().count());
                let mut section = format!("{path}\n\n{}", harmless(text));
                if file.cut || text.len() < file.text.len() {
                    section.push_str(&format!("\n[cut here; the rest is in {path}]"));
                }
                sections.push(section);
            }
            _ => {}
        }
    }
    let notes = if sections.is_empty() { NONE.to_owned() } else { sections.join("\n\n") };
    let absent: Vec<&str> = paths.iter().filter(|path| !files.contains_key(*path)).map(VPath::as_str).collect();
    if !absent.is_empty() {
        problems.push(format!("[not written yet: {}]", absent.join(", ")));
    }
    [vec![format!("<memory>\n{notes}\n</memory>")], problems].concat().join("\n")
}

/// Escapes a text so that it cannot close the tags around it.
fn harmless(text: &str) -> String {
    text.replace("</memory", "<\\/memory")
}
