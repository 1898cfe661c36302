//! Commands of Claude Code: Markdown files that contain a message.

use std::path::Path;

use super::report::Report;
use crate::front_matter;

/// Imports commands, including those one directory below.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    for (name, path) in report.entries(from) {
        if path.is_dir() && !path.is_symlink() {
            for (inner, path) in report.entries(&path) {
                if path.is_dir() && !path.is_symlink() {
                    report.note_skipped(&path, "commands are read only one directory deep");
                } else {
                    command(&path, &to.join(&name).join(inner), report);
                }
            }
        } else {
            command(&path, &to.join(&name), report);
        }
    }
}

fn command(from: &Path, to: &Path, report: &mut Report) {
    if from.extension().is_none_or(|ending| ending != "md") {
        return;
    }
    let Some(bytes) = report.read(from) else { return };
    report.write(from, to, &bytes);
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("!`") {
        report.note_skipped(from, "shell commands in its text (!`…`) are not run; the agent has to run them");
    }
    let (fields, _) = front_matter::read_if_any(&text);
    let without: Vec<&str> =
        fields.keys().map(String::as_str).filter(|key| ["allowed-tools", "model"].contains(key)).collect();
    if !without.is_empty() {
        report.note_skipped(from, format!("without {}", without.join(", ")));
    }
}
