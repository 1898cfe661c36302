//! Tools that run what files of a directory say.

mod table;

use self::table::TOOLS;
use crate::permissions::words::{Word, last_part};

/// A tool, or several that read the same files.
pub(super) struct Tool {
    names: &'static [&'static str],
    /// Files in the working directory or above it.
    pub(super) files: &'static [&'static str],
    /// Where these files have the commands that it runs.
    pub(super) commands: Commands,
}

/// Where the files of a tool have the commands that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commands {
    /// They have none, or programs of another language.
    None,
    /// In a JSON file, in an object under this key, by name.
    Scripts { file: &'static str, key: &'static str },
    /// In indented lines, as in a `Makefile`.
    Recipes,
    /// In the values of keys and in the lines between them, as in YAML, TOML and INI files.
    Values,
}

/// Programs behind which the name of a tool may follow, besides those behind which any program does.
const BEFORE_TOOLS: [&str; 6] = ["-m", "pnpm", "yarn", "bun", "dlx", "x"];

/// Returns the tools that a word runs: those of its name, and for each the files and commands.
pub(super) fn of(word: &Word<'_>) -> impl Iterator<Item = &'static Tool> {
    // As in `npx eslint@9`.
    let name = last_part(word.text);
    let name = name.split_once('@').map_or(name, |(name, _)| name).replace('_', "-");
    let is_run = word.is_program() || BEFORE_TOOLS.contains(&last_part(word.before));
    let own = if name.starts_with("cargo-") { "cargo".to_owned() } else { name };
    TOOLS.iter().filter(move |tool| is_run && tool.names.contains(&own.as_str()))
}

/// Returns whether a word names a program that runs Python.
pub(super) fn is_python(word: &str) -> bool {
    let name = last_part(word);
    ["python", "pypy"].iter().any(|python| name.starts_with(python))
}
