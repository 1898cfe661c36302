//! A single hook.

use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::shell::Shell;
use regex_lite::Regex;

use super::{HookEvent, HookSender};
use crate::shared::Shared;

/// A command or service that runs at an event.
#[derive(Clone, Debug)]
pub struct Hook {
    pub(super) event: HookEvent,
    pub(super) matcher: Matcher,
    pub(super) action: Action,
    pub(super) timeout: Duration,
    pub(super) fail_closed: bool,
    pub(super) source: Arc<str>,
    pub(super) only_restricts: bool,
    /// Whether it is given the conversation as a file.
    pub(super) transcript: bool,
}

/// The action of a hook.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Runs a command.
    Command(String, Shared<dyn Shell>),
    /// Calls a service.
    Http { url: String, headers: Vec<(String, String)>, secret_env: Option<String>, sender: Shared<dyn HookSender> },
}

/// Selects the occurrences of an event for which a hook runs.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    /// Matches the whole value.
    Pattern(Box<Regex>),
}

impl Matcher {
    pub(super) fn parse(text: &str) -> Result<Self, regex_lite::Error> {
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

impl Hook {
    /// Returns the event at which it runs.
    pub fn event(&self) -> HookEvent {
        self.event
    }

    /// Returns its command, or the URL of its service.
    pub fn command(&self) -> &str {
        match &self.action {
            Action::Command(command, _) => command,
            Action::Http { url, .. } => url,
        }
    }

    /// Returns the matcher as written; `*` matches all occurrences of the event.
    pub fn matcher(&self) -> String {
        match &self.matcher {
            Matcher::All => "*".to_owned(),
            Matcher::Pattern(pattern) => {
                let text = pattern.as_str();
                text.strip_prefix("^(?:").and_then(|text| text.strip_suffix(")$")).unwrap_or(text).to_owned()
            }
        }
    }

    /// Returns `true` if it asks for the conversation as a file (`"transcript": true`). Services cannot read it.
    pub fn wants_transcript(&self) -> bool {
        self.transcript && matches!(self.action, Action::Command(..))
    }

    /// Returns its time limit.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns `true` if an error of the hook blocks whatever it could have blocked.
    pub fn fails_closed(&self) -> bool {
        self.fail_closed && self.event.can_block()
    }

    /// Returns `true` if its output must be a valid answer: because it fails closed, or because it is a service, which
    /// has no incidental output.
    pub(super) fn has_to_answer(&self) -> bool {
        self.fails_closed() || matches!(self.action, Action::Http { .. })
    }

    /// Returns the file that defines it.
    pub fn source(&self) -> &str {
        &self.source
    }
}
