//! Hook configuration files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::shell::Shell;
use serde::Deserialize;
use serde_json::Value;

use super::hook::{Action, Matcher};
use super::{Hook, HookEvent, HookSender};
use crate::shared::Shared;

/// Hooks from one or more files. The answers of hooks added first are reduced first.
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

/// An error that makes a hook file unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HooksError {
    /// The file does not have the expected form.
    #[error("{file} is not a valid hooks file: {problem}")]
    Shape {
        /// The path of the file.
        file: String,
        /// The problem.
        problem: String,
    },
    /// A matcher is not a valid pattern.
    #[error("{file}: the matcher `{matcher}` of {event} is not a valid pattern: {problem}")]
    Matcher {
        /// The path of the file.
        file: String,
        /// The event.
        event: HookEvent,
        /// The matcher.
        matcher: String,
        /// The problem.
        problem: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    hooks: BTreeMap<String, Vec<Group>>,
}

#[derive(Deserialize)]
struct Group {
    matcher: Option<String>,
    hooks: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    r#type: String,
    command: Option<String>,
    timeout: Option<f64>,
    #[serde(default)]
    fail_closed: bool,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    secret_env: Option<String>,
    #[serde(default)]
    transcript: bool,
}

impl Entry {
    fn timeout(&self, event: HookEvent) -> Duration {
        let given = self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        given.filter(|timeout| !timeout.is_zero()).unwrap_or(event.timeout())
    }

    /// Returns its action, or why it is unusable.
    fn action(self, shell: &Arc<dyn Shell>, sender: Option<&Arc<dyn HookSender>>) -> Result<Action, String> {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        match (self.r#type.as_str(), sender) {
            ("command", _) => match given(self.command) {
                Some(command) => Ok(Action::Command(command, Shared(shell.clone()))),
                None => Err("it has no `command`".to_owned()),
            },
            ("http", Some(sender)) => match given(self.url) {
                Some(url) => {
                    let (headers, secret_env) = (self.headers.into_iter().collect(), given(self.secret_env));
                    Ok(Action::Http { url, headers, secret_env, sender: Shared(sender.clone()) })
                }
                None => Err("it has no `url`".to_owned()),
            },
            ("http", None) => Err("hooks of type `http` are not supported here".to_owned()),
            (kind, _) => Err(format!("its type `{kind}` is not known")),
        }
    }
}

impl Hooks {
    /// Parses a hook file; commands run in the given shell. Unknown fields are ignored. Unknown events and hook types
    /// are reported as [problems](Self::problems), and the rest applies.
    ///
    /// # Errors
    /// Returns an error if the file does not have the expected form, or if a matcher is not a valid pattern.
    #[allow(clippy::needless_pass_by_value, reason = "the hooks keep it")]
    pub fn parse(text: &str, file: impl Into<Arc<str>>, shell: Arc<dyn Shell>) -> Result<Self, HooksError> {
        Self::read(text, &file.into(), &shell, None)
    }

    /// Like `parse`, but supports hooks that are services (`"type": "http"` with `url`, `headers` and `secretEnv`),
    /// which are problems otherwise.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    #[allow(clippy::needless_pass_by_value, reason = "the hooks keep it")]
    pub fn parse_with_services(
        text: &str,
        file: impl Into<Arc<str>>,
        shell: Arc<dyn Shell>,
        sender: Arc<dyn HookSender>,
    ) -> Result<Self, HooksError> {
        Self::read(text, &file.into(), &shell, Some(&sender))
    }

    fn read(
        text: &str,
        source: &Arc<str>,
        shell: &Arc<dyn Shell>,
        sender: Option<&Arc<dyn HookSender>>,
    ) -> Result<Self, HooksError> {
        let wrong = |problem: String| HooksError::Shape { file: source.to_string(), problem };
        // Some editors write a byte order mark.
        let text = text.trim_start_matches('\u{feff}');
        let file: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let Some(fields) = file.as_object() else { return Err(wrong("it is not a JSON object".to_owned())) };
        let mut all = Self::default();
        if !fields.is_empty() && !fields.contains_key("hooks") {
            all.problems.push(format!("{source}: it has no `hooks`, so nothing in it runs"));
        }
        let file = File::deserialize(file).map_err(|error| wrong(error.to_string()))?;
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
                    let (timeout, fail_closed, transcript) =
                        (entry.timeout(event), entry.fail_closed, entry.transcript);
                    let action = match entry.action(shell, sender) {
                        Ok(action) => action,
                        Err(why) => {
                            all.problems.push(format!("{source}: a hook of {event} is left out: {why}"));
                            continue;
                        }
                    };
                    let (matcher, source, only_restricts) = (pattern.clone(), source.clone(), false);
                    all.hooks.push(Hook {
                        event,
                        matcher,
                        action,
                        timeout,
                        fail_closed,
                        source,
                        only_restricts,
                        transcript,
                    });
                }
            }
        }
        Ok(all)
    }

    /// Removes the hooks' right to allow calls: where one allows a call, it counts as not having decided. They get no
    /// transcript either. For files of other people than the agent's owner.
    #[must_use]
    pub fn only_restricting(mut self) -> Self {
        for hook in &mut self.hooks {
            (hook.only_restricts, hook.transcript) = (true, false);
        }
        self
    }

    /// Appends other hooks.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.hooks.extend(others.hooks);
        self.problems.extend(others.problems);
        self
    }

    /// Replaces the shells in which the hooks run that are commands.
    pub(super) fn map_shells(&mut self, map: impl Fn(Arc<dyn Shell>) -> Arc<dyn Shell>) {
        for hook in &mut self.hooks {
            if let Action::Command(_, shell) = &mut hook.action {
                shell.0 = map(shell.0.clone());
            }
        }
    }

    /// Iterates over the hooks in the order in which their answers are reduced.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Returns descriptions of the parts of the files that are ignored.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the hooks that match an event and its input.
    pub(super) fn matching(&self, event: HookEvent, input: &Value) -> Vec<Hook> {
        let field = event.matched_field().and_then(|field| input.get(field)).and_then(Value::as_str);
        let fits = |hook: &&Hook| hook.event == event && field.is_none_or(|value| hook.matcher.matches(value));
        self.hooks.iter().filter(fits).cloned().collect()
    }
}
