//! Asking the user whether what a directory brings may be used.

use std::io::{self, BufRead};
use std::path::Path;

use anyhow::Result;
use deepagents::trust::{FoundItem, TrustItem};

use crate::output;
use crate::render::{Columns, escaped, escaped_lines};

/// The user's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Use it, from now on.
    Always,
    /// Use it this time.
    Once,
    /// Leave it out this time.
    NotNow,
    /// Leave it out from now on.
    Never,
}

const KEYS: &str = "Use it? [y]es from now on, [o]nce, [n]o, ne[v]er, [s]how the contents (no answer leaves it out): ";

/// Prefix of the continuation of a line wider than the terminal.
const CONTINUATION_PREFIX: &str = "   ┊ ";

/// Shows the items and asks until the user answers; the end of input leaves them out.
pub(super) fn about(root: &Path, open: &[FoundItem]) -> Result<Answer> {
    let columns = Columns::new(output::stderr_columns());
    // Show the absolute path, as a relative one may say nothing.
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let title = columns.wrap(
        "",
        CONTINUATION_PREFIX,
        &format!("{} contains files that would steer the agent:", escaped(&root.display().to_string())),
    );
    let mut problem = None;
    let mut text = format!("{}\n{}", title.join("\n"), listed(open, columns));
    loop {
        output::ask(problem.take(), &std::mem::take(&mut text), KEYS);
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            output::say("");
            return Ok(Answer::NotNow);
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(Answer::Always),
            "o" | "once" => return Ok(Answer::Once),
            "n" | "no" | "" => return Ok(Answer::NotNow),
            "v" | "never" => return Ok(Answer::Never),
            "s" | "show" => text = texts(open, columns),
            _ => problem = Some("answer with y, o, n, v or s"),
        }
    }
}

/// Describes each item in a line or two: kind, name, source, hash, and what it asks for.
pub(super) fn listed<'a>(items: impl IntoIterator<Item = &'a FoundItem>, columns: Columns) -> String {
    let lines: Vec<String> = items.into_iter().flat_map(|found| lines(&found.item, &found.asks_for, columns)).collect();
    lines.join("\n")
}

fn lines(item: &TrustItem, asks_for: &[String], columns: Columns) -> Vec<String> {
    let name = format!("{:<10} {}", item.kind.as_str(), escaped(&item.name));
    let parts = [name, escaped(&item.source), format!("sha256 {}", item.short_hash())];
    let mut lines = columns.join("  ", CONTINUATION_PREFIX, "  ", &parts);
    let last = asks_for.len().saturating_sub(1);
    let asks: Vec<String> = (0..)
        .zip(asks_for)
        .map(|(at, what)| {
            let before = match at {
                // What a changed tool says is shown, and is no request.
                0 if what.starts_with("its ") => "",
                0 if what.starts_with("to ") => "asks ",
                0 => "asks for ",
                _ => "",
            };
            format!("{before}{}{}", escaped(what), if at == last { "" } else { "," })
        })
        .collect();
    lines.extend(columns.join("             ", CONTINUATION_PREFIX, " ", &asks));
    lines
}

/// Returns the contents of the files, with every character visible.
pub(super) fn texts<'a>(items: impl IntoIterator<Item = &'a FoundItem>, columns: Columns) -> String {
    let mut out = Vec::new();
    for found in items {
        for (path, bytes) in found.files() {
            out.extend(columns.wrap("── ", CONTINUATION_PREFIX, &escaped(path.as_str())));
            for line in escaped_lines(&String::from_utf8_lossy(bytes)) {
                out.extend(columns.wrap("│ ", CONTINUATION_PREFIX, &line));
            }
        }
        for path in found.long_files() {
            out.extend(columns.wrap(
                "── ",
                CONTINUATION_PREFIX,
                &format!("{} is too long to be shown here", escaped(path.as_str())),
            ));
        }
    }
    out.join("\n")
}
