//! Asking the user whether what a directory brings may be used.

use std::io::{self, BufRead};
use std::path::Path;

use anyhow::Result;
use deepagents::trust::{FoundItem, TrustItem};

use crate::output;
use crate::render::{escaped, escaped_lines};

/// What the user says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It may be used, from now on.
    Always,
    /// It may be used this time.
    Once,
    /// It is left out this time.
    NotNow,
    /// It is left out from now on.
    Never,
}

const KEYS: &str = "Use it? [y]es from now on, [o]nce, [n]o, ne[v]er, [s]how what it says (no answer leaves it out): ";

/// Shows what there is and asks until there is an answer; none leaves it out.
pub(super) fn about(root: &Path, open: &[FoundItem]) -> Result<Answer> {
    let root = escaped(&root.display().to_string());
    output::say(&format!("{root} brings what would steer the agent:\n{}", listed(open)));
    loop {
        output::discard_typed_ahead();
        output::prompt(KEYS);
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
            "s" | "show" => output::say(&texts(open)),
            _ => output::print_error("answer with y, o, n, v or s"),
        }
    }
}

/// One line an item: what it is, what it is called, where it comes from, its hash, and what it asks for.
pub(super) fn listed<'a>(items: impl IntoIterator<Item = &'a FoundItem>) -> String {
    let lines: Vec<String> = items.into_iter().map(|found| line(&found.item, &found.asks_for)).collect();
    lines.join("\n")
}

fn line(item: &TrustItem, asks_for: &[String]) -> String {
    let (kind, name, source) = (item.kind.as_str(), escaped(&item.name), escaped(&item.source));
    let asks: Vec<String> = asks_for.iter().map(|what| escaped(what)).collect();
    let asks = if asks.is_empty() { String::new() } else { format!("\n             asks for {}", asks.join(", ")) };
    format!("  {kind:<10} {name}  {source}  sha256 {}{asks}", item.short_hash())
}

/// What the files say, every character of it visible.
pub(super) fn texts<'a>(items: impl IntoIterator<Item = &'a FoundItem>) -> String {
    let mut out = Vec::new();
    for found in items {
        for (path, bytes) in found.files() {
            out.push(format!("── {}", escaped(path.as_str())));
            out.extend(escaped_lines(&String::from_utf8_lossy(bytes)).map(|line| format!("│ {line}")));
        }
        out.extend(
            found.long_files().iter().map(|path| format!("── {} is too long to be shown here", escaped(path.as_str()))),
        );
    }
    out.join("\n")
}
