//! Settings files: every value is checked when read, and a change leaves the rest of the file as it is.

use std::io;
use std::path::{Path, PathBuf};

use deepagents::fs::locked_file::{self, FileLock};
use serde::Serialize;
use thiserror::Error;
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::keys::{KEYS, Key, Kind, find};
use crate::small_file;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// Why a settings file cannot be used or changed.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("`{}` cannot be used: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("`{}` cannot be used: {source}; fix its permissions, or set HOME to a directory that you can use", file.display())]
    Closed { file: PathBuf, source: io::Error },
    #[error("the directory `{}` cannot be entered: {source}; fix its permissions, or name another with --root", root.display())]
    Root { root: PathBuf, source: io::Error },
    #[error("`{}` is not valid TOML: {why}; fix it or remove it", file.display())]
    Syntax { file: PathBuf, why: String },
    #[error("`{}` has {name} = {given}: {why}", file.display())]
    Value { file: PathBuf, name: String, given: String, why: String },
    #[error("there is no setting `{0}`; `deepagents config list` shows all settings")]
    Unknown(String),
    #[error("{name} cannot be `{given}`: {why}")]
    Bad { name: String, given: String, why: String },
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) values: Vec<(&'static Key, Value)>,
    /// Names in it that are not settings, or that this file may not set.
    pub(crate) problems: Vec<String>,
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(file: &Path) -> Result<Option<Settings>, ConfigError> {
    match text(file)? {
        Some(text) => parse(file, &text).map(Some),
        None => Ok(None),
    }
}

/// Reads the text of a file; `None` if it does not exist.
pub(crate) fn text(file: &Path) -> Result<Option<String>, ConfigError> {
    small_file::read(file).map_err(|source| {
        let file = file.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => ConfigError::Closed { file, source },
            _ => ConfigError::Io { file, source },
        }
    })
}

/// Parses the text of a file.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Settings, ConfigError> {
    let document = document(file, text)?;
    let mut settings = Settings::default();
    for (name, item) in document.iter() {
        // A table's settings have its name and a dot as prefix.
        if let Some(table) = item.as_table_like() {
            for (inner, item) in table.iter() {
                settings.take(file, &format!("{name}.{inner}"), item)?;
            }
        } else {
            settings.take(file, name, item)?;
        }
    }
    Ok(settings)
}

impl Settings {
    fn take(&mut self, file: &Path, name: &str, item: &Item) -> Result<(), ConfigError> {
        let Some(key) = find(name) else {
            self.problems.push(format!("`{}` has `{name}`, which is not a setting", file.display()));
            return Ok(());
        };
        let given = item.to_string().trim().to_owned();
        let wrong = |why: String| ConfigError::Value { file: file.to_owned(), name: name.to_owned(), given, why };
        let value = match (item.as_str(), item.as_bool()) {
            (Some(text), _) if key.kind != Kind::Flag => Value::Text(text.to_owned()),
            (_, Some(flag)) if key.kind == Kind::Flag => Value::Flag(flag),
            _ => return Err(wrong(expected(key))),
        };
        check(key, &value).map_err(wrong)?;
        self.values.push((key, value));
        Ok(())
    }
}

fn document(file: &Path, text: &str) -> Result<DocumentMut, ConfigError> {
    text.parse::<DocumentMut>().map_err(|error| {
        // Its first line says where; the excerpt of the file between the two needs several lines.
        let whole = error.to_string();
        let why = format!("{}: {}", whole.lines().next().unwrap_or_default(), error.message());
        ConfigError::Syntax { file: file.to_owned(), why }
    })
}

fn expected(key: &Key) -> String {
    match key.kind {
        Kind::Text => "it must be a string in quotes".to_owned(),
        Kind::Flag => "it must be true or false".to_owned(),
        Kind::OneOf(words) => format!("it must be one of {}", words.join(", ")),
    }
}

fn check(key: &Key, value: &Value) -> Result<(), String> {
    match (key.kind, value) {
        (Kind::OneOf(words), Value::Text(text)) if !words.contains(&text.as_str()) => Err(expected(key)),
        (_, Value::Text(text)) if text.contains('\0') => Err("it contains a NUL character".to_owned()),
        (_, Value::Text(text)) if key.name.starts_with("keys.") => {
            deepagents_tui::check_key(text).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}

/// Parses a value from the command line or the environment.
pub(crate) fn value(key: &Key, given: &str) -> Result<Value, ConfigError> {
    let bad = |why: String| ConfigError::Bad { name: key.name.to_owned(), given: given.to_owned(), why };
    let value = match (key.kind, given) {
        (Kind::Flag, "true" | "yes" | "on" | "1") => Value::Flag(true),
        (Kind::Flag, "false" | "no" | "off" | "0") => Value::Flag(false),
        (Kind::Flag, _) => return Err(bad(expected(key))),
        _ => Value::Text(given.to_owned()),
    };
    check(key, &value).map_err(bad)?;
    Ok(value)
}

/// Sets or removes a value in a file, keeping comments and order. The file is replaced atomically. Returns whether there
/// was anything to do.
pub(crate) fn set(file: &Path, key: &Key, value: Option<&Value>) -> Result<bool, ConfigError> {
    let failed = |source| ConfigError::Io { file: file.to_owned(), source };
    let _lock = FileLock::take(file).map_err(failed)?;
    let mut document = document(file, &text(file)?.unwrap_or_default())?;
    let known = key.name.split('.').try_fold(document.as_item(), |table, name| table.get(name));
    if value.is_none() && known.is_none() {
        return Ok(false);
    }
    let (table, name) = match key.name.split_once('.') {
        Some((table, name)) => {
            let inner = document.entry(table).or_insert_with(|| Item::Table(Table::new()));
            let inner = inner.as_table_like_mut().ok_or_else(|| ConfigError::Syntax {
                file: file.to_owned(),
                why: format!("`{table}` is not a table"),
            })?;
            (inner, name)
        }
        None => (document.as_table_mut() as &mut dyn TableLike, key.name),
    };
    match value {
        Some(Value::Text(text)) => put(table, name, text.as_str().into()),
        Some(Value::Flag(flag)) => put(table, name, (*flag).into()),
        None => drop(table.remove(name)),
    }
    let text = document.to_string();
    if value.is_some() {
        // Report an unusable file before anything is written.
        parse(file, &text)?;
    }
    locked_file::replace(file, text.as_bytes()).map_err(failed)?;
    Ok(true)
}

/// Sets a value, keeping the comment after it.
fn put(table: &mut dyn TableLike, name: &str, value: toml_edit::Value) {
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(there) => {
            let decor = there.decor().clone();
            *there = value;
            *there.decor_mut() = decor;
        }
        None => drop(table.insert(name, Item::Value(value))),
    }
}

/// Returns an empty settings file with every setting as a comment.
pub(crate) fn template() -> String {
    let mut out =
        "# Settings of deepagents; `deepagents config list` shows what is in effect, and where it comes from.\n"
            .to_owned();
    let mut table = "";
    for key in KEYS {
        let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if of != table {
            out += &format!("\n[{of}]\n");
            table = of;
        }
        let shown = match key.kind {
            Kind::Flag => key.default.to_owned(),
            _ => format!("{:?}", key.default),
        };
        out += &format!("# {name} = {shown}  # {}\n", key.about);
    }
    out
}
