//! Hooks as files describe them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::shell::Shell;
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::HookEvent;
use crate::shared::Shared;

/// Hooks, from one file or several. Those that were added first are reduced first.
///
/// ```
/// use std::sync::Arc;
/// use deepagents::fs::shell::{Confinement, LocalShell};
/// use deepagents::middleware::hooks::{HookEvent, Hooks};
/// let file = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check"}]}]}}"#;
/// let shell = Arc::new(LocalShell::open(std::env::temp_dir(), Confinement::Unconfined)?);
/// let hooks = Hooks::parse(file, "hooks.json", shell)?;
/// assert_eq!(hooks.iter().map(|hook| hook.event()).collect::<Vec<_>>(), [HookEvent::PreToolUse]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    hooks: Vec<Hook>,
    problems: Vec<String>,
}

/// A command that runs at an event.
#[derive(Clone, Debug)]
pub struct Hook {
    pub(super) event: HookEvent,
    pub(super) matcher: Matcher,
    pub(super) command: String,
    pub(super) timeout: Duration,
    pub(super) fail_closed: bool,
    pub(super) source: Arc<str>,
    pub(super) shell: Shared<dyn Shell>,
}

/// A file of hooks cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HooksError {
    /// It is not what such a file is.
    #[error("{file} is no file of hooks: {problem}")]
    Shape {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A matcher is no pattern.
    #[error("{file}: the matcher `{matcher}` of {event} is no pattern: {problem}")]
    Matcher {
        /// The file.
        file: String,
        /// The event.
        event: HookEvent,
        /// The matcher.
        matcher: String,
        /// What is wrong.
        problem: String,
    },
}

/// Which occasions of an event a hook is for.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    /// The whole of what is matched.
    Pattern(Box<Regex>),
}

impl Matcher {
    fn parse(text: &str) -> Result<Self, regex_lite::Error> {
        if matches!(text.trim(), "" | "*") {
            return Ok(Self::All);
        }
        Ok(Self::Pattern(Box::new(Regex::new(&format!("^(?:{})$", text.trim()))?)))
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match self {
            Self::All => true,
            Self::Pattern(pattern) => pattern.is_match(value),
        }
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    hooks: BTreeMap<String, Vec<Group>>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    hooks: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    r#type: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    fail_closed: bool,
}

impl Hooks {
    /// Reads a file of hooks, which run in a shell. Fields that are not known are passed over; events and types of hooks
    /// that are not known are [problems](Self::problems), and the rest holds.
    ///
    /// # Errors
    /// When it is not such a file, or a matcher is no pattern.
    pub fn parse(text: &str, file: impl Into<Arc<str>>, shell: Arc<dyn Shell>) -> Result<Self, HooksError> {
        let source: Arc<str> = file.into();
        let wrong = |problem: String| HooksError::Shape { file: source.to_string(), problem };
        let file: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if !file.is_object() {
            return Err(wrong("it is no JSON object".to_owned()));
        }
        let file = File::deserialize(file).map_err(|error| wrong(error.to_string()))?;
        let mut all = Self::default();
        for (name, groups) in file.hooks {
            let Some(event) = HookEvent::from_name(&name) else {
                all.problems.push(format!("{source}: there is no event `{name}`, so its hooks never run"));
                continue;
            };
            for group in groups {
                let matcher = group.matcher.unwrap_or_default();
                let pattern = Matcher::parse(&matcher).map_err(|error| HooksError::Matcher {
                    file: source.to_string(),
                    event,
                    matcher: matcher.clone(),
                    problem: error.to_string(),
                })?;
                for entry in group.hooks {
                    let entry: Entry =
                        serde_json::from_value(entry).map_err(|error| wrong(format!("a hook of {event}: {error}")))?;
                    let command = entry.command.filter(|command| !command.trim().is_empty());
                    let (Some(command), "command") = (command, entry.r#type.as_str()) else {
                        let kind = entry.r#type;
                        all.problems.push(format!(
                            "{source}: a hook of {event} of the type `{kind}` is left out: it is no command"
                        ));
                        continue;
                    };
                    let timeout =
                        entry.timeout.and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|t| !t.is_zero());
                    all.hooks.push(Hook {
                        event,
                        matcher: pattern.clone(),
                        command,
                        timeout: timeout.unwrap_or(event.timeout()),
                        fail_closed: entry.fail_closed,
                        source: source.clone(),
                        shell: Shared(shell.clone()),
                    });
                }
            }
        }
        Ok(all)
    }

    /// These, and then others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.hooks.extend(others.hooks);
        self.problems.extend(others.problems);
        self
    }

    /// The hooks, in the order in which their answers are reduced.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// What of the files is left out, in words.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Those for an event with this input.
    pub(super) fn matching(&self, event: HookEvent, input: &Value) -> Vec<Hook> {
        let field = event.matched_field().and_then(|field| input.get(field)).and_then(Value::as_str);
        let fits = |hook: &&Hook| hook.event == event && field.is_none_or(|value| hook.matcher.matches(value));
        self.hooks.iter().filter(fits).cloned().collect()
    }
}

impl Hook {
    /// When it runs.
    pub fn event(&self) -> HookEvent {
        self.event
    }

    /// What it runs.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Which occasions of the event it is for, as it was written; `*` is all of them.
    pub fn matcher(&self) -> String {
        match &self.matcher {
            Matcher::All => "*".to_owned(),
            Matcher::Pattern(pattern) => {
                let text = pattern.as_str();
                text.strip_prefix("^(?:").and_then(|text| text.strip_suffix(")$")).unwrap_or(text).to_owned()
            }
        }
    }

    /// How long it may run.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether what it could have blocked does not happen where it is broken.
    pub fn fails_closed(&self) -> bool {
        self.fail_closed && self.event.can_block()
    }

    /// The file that it is from.
    pub fn source(&self) -> &str {
        &self.source
    }
}
