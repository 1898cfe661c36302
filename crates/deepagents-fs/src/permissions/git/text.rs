//! Parses git configuration.

use serde::{Deserialize, Serialize};

/// Sections whose values are names and addresses, not commands.
const NAMES: [&str; 8] = ["remote", "branch", "submodule", "url", "user", "color", "extensions", "lfs"];

/// A setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    /// Without the subsection.
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
}

impl Setting {
    /// Returns whether it includes another file.
    pub(super) fn includes(&self) -> bool {
        matches!(self.section.as_str(), "include" | "includeif") && self.key == "path"
    }

    /// Returns whether it may contain a command.
    pub(super) fn runs(&self) -> bool {
        !NAMES.contains(&self.section.as_str())
    }
}

/// Parses the settings in a text.
pub(super) fn settings(text: &str) -> Vec<Setting> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let (mut section, mut out) = (String::new(), Vec::new());
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let Some((name, rest)) = header.rsplit_once(']') else { continue };
            section =
                name.split(|c: char| c.is_whitespace() || c == '.').next().unwrap_or_default().to_ascii_lowercase();
            line = rest.trim();
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { continue };
        let (section, key) = (section.clone(), key.trim().to_ascii_lowercase());
        out.push(Setting { section, key, value: unquoted(value.trim()) });
    }
    out
}

/// Removes comments, quotation marks and escaping backslashes from a value.
fn unquoted(value: &str) -> String {
    let (mut out, mut quoted, mut chars) = (String::new(), false, value.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => out.extend(chars.next()),
            '#' | ';' if !quoted => break,
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}
