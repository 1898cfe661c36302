//! The approval policy of a session: its mode and its rules.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use deepagents::ActionRequest;
use deepagents::remembered::RememberedRule;

/// How much a session does without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Asks before files are changed and commands are run.
    #[default]
    Ask,
    /// Changes files, and runs commands in the sandbox, without asking. Asks about everything else.
    Auto,
    /// Changes nothing. The agent only explores, and says what it would do.
    Plan,
}

impl Mode {
    /// All modes, in display order.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Auto, Self::Plan];

    /// Returns the ID in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Plan => "plan",
        }
    }

    /// Returns the mode with this ID.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == id)
    }

    /// Returns the display name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Auto => "Auto (sandboxed)",
            Self::Plan => "Plan",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Ask => "Asks before files are changed and commands are run",
            Self::Auto => {
                "Changes files without asking; commands run in the agent's own sandbox, not in the editor's terminal"
            }
            Self::Plan => "Changes nothing: looks around and says what it would do",
        }
    }
}

/// The rule name of the session's own interrupts.
pub(crate) const ASKED: &str = "the session's mode";

/// How a call is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    Allow,
    Ask,
    /// The call is not made.
    Refuse,
}

/// A rule that a person has made for the rest of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SessionRule {
    /// Covers every call of `write_file` and `edit_file`.
    Edits,
    /// Covers the calls of a narrow rule.
    Calls(RememberedRule),
}

impl SessionRule {
    /// Returns the rule to offer for a call. `rule` is the narrow rule that covers it.
    pub(crate) fn of_call(question: &ActionRequest, rule: &RememberedRule) -> Self {
        if is_edit(&question.tool) { Self::Edits } else { Self::Calls(rule.clone()) }
    }

    fn covers(&self, question: &ActionRequest) -> bool {
        match self {
            Self::Edits => is_edit(&question.tool),
            Self::Calls(rule) => rule.covers(question),
        }
    }
}

impl fmt::Display for SessionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edits => f.write_str("every change of a file by write_file or edit_file"),
            Self::Calls(rule) => rule.fmt(f),
        }
    }
}

fn is_edit(tool: &str) -> bool {
    matches!(tool, "write_file" | "edit_file")
}

/// The approval policy of a session.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    mode: Mode,
    /// The rules of the session.
    always: Vec<SessionRule>,
    /// Whether the host's own shell runs commands in a sandbox.
    sandboxed: bool,
}

impl Policy {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.with(|inner| inner.mode)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.with(|inner| inner.mode = mode);
    }

    /// Sets whether the host's own shell runs commands in a sandbox.
    pub(crate) fn set_sandboxed(&self, sandboxed: bool) {
        self.with(|inner| inner.sandboxed = sandboxed);
    }

    /// Adds a rule, so that the calls it covers are no longer asked about.
    pub(crate) fn allow_always(&self, rule: SessionRule) {
        self.with(|inner| inner.always.push(rule));
    }

    /// Returns the session's rule that covers a call.
    pub(crate) fn rule(&self, question: &ActionRequest) -> Option<SessionRule> {
        self.with(|inner| inner.always.iter().find(|rule| rule.covers(question)).cloned())
    }

    /// Whether the host's own shell runs commands in a sandbox.
    pub(crate) fn is_sandboxed(&self) -> bool {
        self.with(|inner| inner.sandboxed)
    }

    /// Returns why a call is allowed, for the decision record.
    pub(crate) fn reason(&self) -> String {
        format!("the mode {}", self.mode().as_str())
    }

    /// Decides how to treat a call with side effects. The session's rules are checked later, when the call is asked
    /// about and everything that a rule depends on is known.
    pub(crate) fn decide(&self, tool: &str) -> PolicyDecision {
        self.with(|inner| match inner.mode {
            Mode::Plan => PolicyDecision::Refuse,
            Mode::Auto if matches!(tool, "write_file" | "edit_file" | "apply_patch" | "delete") => {
                PolicyDecision::Allow
            }
            Mode::Auto if tool == "execute" && inner.sandboxed => PolicyDecision::Allow,
            Mode::Ask | Mode::Auto => PolicyDecision::Ask,
        })
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::tool::CallId;
    use serde_json::json;

    use super::*;

    fn command(text: &str) -> ActionRequest {
        ActionRequest::about(&CallId::default(), "execute", json!({"command": text}), "2026-01-01T00:00:00Z")
    }

    #[test]
    fn an_always_rule_is_no_wider_than_the_call_it_was_given_for() {
        let policy = Policy::default();
        policy.allow_always(SessionRule::Calls(RememberedRule::covering(&command("cargo test -p core"))));
        assert!(policy.rule(&command("cargo  test -p 'core'")).is_some());
        for other in
            ["cargo test", "cargo test -p core --release", "cargo test -p core; rm x", "A=1 cargo test -p core"]
        {
            assert_eq!(policy.rule(&command(other)), None, "{other}");
        }
    }

    #[test]
    fn modes_decide_which_calls_are_allowed_asked_about_or_refused() {
        let policy = Policy::default();
        assert_eq!(policy.decide("execute"), PolicyDecision::Ask);
        policy.set_mode(Mode::Plan);
        assert_eq!(policy.decide("execute"), PolicyDecision::Refuse);
        policy.set_mode(Mode::Auto);
        assert_eq!(policy.decide("edit_file"), PolicyDecision::Allow);
        assert_eq!(policy.decide("execute"), PolicyDecision::Ask);
        policy.set_sandboxed(true);
        assert_eq!(policy.decide("execute"), PolicyDecision::Allow);
        assert_eq!(policy.decide("pay"), PolicyDecision::Ask);
    }
}
