//! Settings: the values in force, and where they come from.
//!
//! In order of precedence: the administrator's file, the command line, the environment, the directory's file once the
//! user has agreed to it, the user's file, the default.

mod apply;
mod command;
mod file;
mod keys;
mod project;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::model_choice::env;
use crate::own_files::{OWN, of_user};

pub(crate) use apply::{Flags, Screens, completed, for_agent, for_screens};
pub(crate) use command::config;
use file::{ConfigError, Settings, Value, read};
use keys::{KEYS, Key};
pub(crate) use project::brought;

/// Name of a settings file.
pub(crate) const FILE: &str = "config.toml";
/// The administrator's settings, which users cannot change.
const MANAGED: &str = "/etc/deepagents/config.toml";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Managed(PathBuf),
    Flag,
    Environment(&'static str),
    Project(PathBuf),
    User(PathBuf),
    Default,
}

impl Source {
    /// Returns the precedence. The command line and the environment count the same: both apply to this start of the
    /// program.
    fn precedence(&self) -> u8 {
        match self {
            Self::Managed(_) => 4,
            Self::Flag | Self::Environment(_) => 3,
            Self::Project(_) => 2,
            Self::User(_) => 1,
            Self::Default => 0,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed(file) => write!(f, "managed, {}", file.display()),
            Self::Flag => f.write_str("command line"),
            Self::Environment(variable) => write!(f, "environment, {variable}"),
            Self::Project(file) => write!(f, "project, {}", file.display()),
            Self::User(file) => write!(f, "user, {}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The settings in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: Vec<(&'static Key, Value, Source)>,
    /// Problems with files that are ignored.
    pub(crate) problems: Vec<String>,
}

impl Config {
    /// Loads the settings for a directory. `agreed` means that the command line agrees to what the directory brings.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be used: the wishes of an administrator or the user must not be
    /// dropped silently.
    pub(crate) fn load(root: &Path, agreed: bool, flags: &Flags) -> Result<Self, ConfigError> {
        let managed = read(Path::new(MANAGED))?.unwrap_or_default();
        let user_file = of_user(FILE);
        let user = user_file.as_deref().map(read).transpose()?.flatten().unwrap_or_default();
        let (project, offered) = project::read(root, agreed, user_file.as_deref())?;
        let project_file = root.join(OWN).join(FILE);
        let user_file = user_file.unwrap_or_default();
        let said = |settings: &Settings, key: &Key| {
            settings.values.iter().find(|(known, _)| known.name == key.name).map(|(_, value)| value.clone())
        };
        let mut values = Vec::with_capacity(KEYS.len());
        for key in KEYS {
            let given = said(&managed, key)
                .map(|value| (value, Source::Managed(MANAGED.into())))
                .or_else(|| Some((flags.value(key.name)?, Source::Flag)));
            let variable = key.variable.filter(|_| given.is_none());
            let given = match variable.and_then(|variable| Some((variable, env(variable)?))) {
                Some((variable, text)) => Some((file::value(key, &text)?, Source::Environment(variable))),
                None => given,
            };
            let (value, source) = given
                .or_else(|| Some((said(&project, key)?, Source::Project(project_file.clone()))))
                .or_else(|| Some((said(&user, key)?, Source::User(user_file.clone()))))
                .unwrap_or_else(|| (key.default_value(), Source::Default));
            values.push((key, value, source));
        }
        let mut problems = [managed.problems, user.problems, project.problems].concat();
        problems.extend(offered);
        Ok(Self { values, problems })
    }

    /// Returns a setting with its source.
    fn entry(&self, name: &str) -> Option<&(&'static Key, Value, Source)> {
        self.values.iter().find(|(key, ..)| key.name == name)
    }

    /// Returns a text, or `None` if it is empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.entry(name) {
            Some((_, Value::Text(text), _)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether a flag is on.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.entry(name), Some((_, Value::Flag(true), _)))
    }

    /// Whether the setting was given anywhere, even if its value equals the default.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|(.., source)| *source != Source::Default)
    }

    /// Describes the keys that are bound to more than one action.
    fn shared_keys(&self) -> Vec<String> {
        let keys: Vec<(&str, String)> = self
            .values
            .iter()
            .filter(|(key, ..)| key.name.starts_with("keys."))
            .map(|(key, value, _)| (key.name, value.to_string()))
            .collect();
        let twice = keys.iter().enumerate().filter_map(|(at, (name, key))| {
            let (other, _) = keys.iter().take(at).find(|(_, earlier)| earlier == key)?;
            Some(format!("{key} is bound to both {other} and {name}; only one of them works"))
        });
        twice.collect()
    }

    /// Lists all settings as lines: name, value, source.
    pub(crate) fn listed(&self) -> String {
        let line = |(key, value, source): &(&'static Key, Value, Source)| {
            let value = value.to_string();
            let value = if value.is_empty() { "(none)".to_owned() } else { crate::render::escaped(&value) };
            format!("{:<18} {value:<28} {source}", key.name)
        };
        self.values.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
