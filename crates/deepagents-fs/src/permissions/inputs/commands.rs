//! The commands in files that tell a tool what to run.

use std::path::Path;

use super::MAX_READ_BYTES;
use super::blocks::lines_for;
use super::tools::Commands;
use crate::permissions::programs::beginning;
use crate::permissions::words::Word;

/// Sub-commands of package managers that run the package's own scripts of these names.
const INSTALLS: [&str; 18] = [
    "add",
    "ci",
    "cit",
    "clean-install",
    "dedupe",
    "i",
    "in",
    "ins",
    "install",
    "install-test",
    "it",
    "link",
    "pack",
    "publish",
    "rebuild",
    "up",
    "update",
    "upgrade",
];
const INSTALL_SCRIPTS: [&str; 11] = [
    "preinstall",
    "install",
    "postinstall",
    "preprepare",
    "prepare",
    "postprepare",
    "prepublish",
    "prepublishOnly",
    "prepack",
    "postpack",
    "dependencies",
];
/// Short names of `test` as a sub-command.
const TEST: [&str; 4] = ["t", "tst", "it", "cit"];
/// What precedes a command within a line.
const INNER: [&str; 5] = ["$(shell ", "shell(", "!=", ";", "`"];

/// Returns a text without line ends that continue a line.
pub(super) fn joined(text: &str) -> String {
    text.replace("\\\r\n", " ").replace("\\\n", " ")
}

/// Returns the commands in the texts of files that a command with these words may run, line by line.
pub(super) fn commands(texts: &[String], format: Commands, all: &[Word<'_>]) -> Vec<String> {
    let words: Vec<&str> = all.iter().map(|word| word.text).collect();
    let lines = lines_for(texts, format, &words).into_iter().map(str::trim_end);
    let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    let found: Vec<String> = match format {
        Commands::None | Commands::Scripts { .. } => Vec::new(),
        Commands::Recipes => lines.filter_map(recipe).map(str::to_owned).collect(),
        // Lists of words have commas.
        Commands::Values => lines.map(|line| value(line).replace(',', " ")).collect(),
    };
    found.into_iter().filter(|command| !command.is_empty()).collect()
}

/// Returns what a line of a `Makefile` or the like runs.
fn recipe(line: &str) -> Option<&str> {
    let command = line.trim_start();
    if command.len() < line.len() {
        return Some(command.trim_start_matches(['@', '-', '+', ' ', '\t']));
    }
    INNER.iter().filter_map(|before| line.split_once(before)).map(|(_, command)| command).max_by_key(|text| text.len())
}

/// Returns what is behind the key of a line, or all of it if it has none.
fn value(line: &str) -> &str {
    let line = without_marks(line);
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.\"'".contains(c));
    let pair = line.split_once(": ").or_else(|| line.split_once('='));
    pair.filter(|(key, _)| is_key(key.trim_end())).map_or(line, |(_, rest)| without_marks(rest))
}

/// Removes what precedes a value: the marks of items, lists and quoted texts.
fn without_marks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || "-[{|>\"'".contains(c))
}

/// Returns the names of files in the text of a file that are read as if they were part of it. They need not exist,
/// except where any value may be such a name.
pub(super) fn included(text: &str, format: Commands, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let unquoted = |word: &str| word.trim_matches(['"', '\'', ',', '[', ']']).to_owned();
    let is_name = |word: &String| !word.is_empty() && !word.contains(['$', '*', '?', '[', '%', ':', '#']);
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(unquoted);
        let Some(first) = words.next() else { continue };
        match (format, first.as_str()) {
            (Commands::Recipes, "include" | "-include" | "sinclude" | "import" | "import?") => found.extend(words),
            (Commands::Recipes, "mod" | "mod?") => {
                let name = words.next().unwrap_or_default();
                found.extend(words);
                found.extend(["{}.just", "{}/mod.just", "{}/justfile"].map(|path| path.replace("{}", &name)));
            }
            (Commands::Values, "include" | "subninja" | "source_env" | "source_env_if_exists" | "dotenv") => {
                found.extend(words);
            }
            (Commands::Values, _) => {
                let is_file = |word: &String| {
                    [".yml", ".yaml", ".toml"].iter().any(|ending| word.ends_with(ending)) && is_there(word)
                };
                found.extend(std::iter::once(first).chain(words).filter(is_file));
            }
            _ => {}
        }
    }
    found.retain(is_name);
    found
}

/// Returns the scripts in a JSON file that the words name, and those that run before and after them.
pub(super) fn scripts(file: &Path, key: &str, all: &[Word<'_>]) -> Vec<String> {
    let bytes = beginning(file, MAX_READ_BYTES).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let scripts = package.get(key).and_then(serde_json::Value::as_object);
    let named = scripts.into_iter().flatten().filter(|(name, _)| is_named(name, all));
    // Composer has lists of commands.
    let texts = named.flat_map(|(_, value)| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns whether words name a script, or one that it runs before or after.
fn is_named(name: &str, all: &[Word<'_>]) -> bool {
    // A package manager alone installs the package.
    let installs = all.len() == 1 || all.iter().any(|word| INSTALLS.contains(&word.text));
    if installs && INSTALL_SCRIPTS.contains(&name) {
        return true;
    }
    let around = ["pre", "post"].into_iter().filter_map(|when| name.strip_prefix(when));
    around.chain([name]).any(|name| all.iter().any(|word| names(word.text, name)))
}

fn names(word: &str, script: &str) -> bool {
    let word = word.strip_prefix("npm:").unwrap_or(word);
    match word.split_once('*') {
        // As in `run-s "lint:*"`.
        Some((begins, _)) => !begins.is_empty() && script.starts_with(begins),
        None => word == script || (script == "test" && TEST.contains(&word)),
    }
}
