//! The answers of hooks.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Hook, HookEvent};
use crate::text::truncated;

/// Maximum number of characters that a hook may show to the model.
const MAX_CONTEXT_CHARS: usize = 10_000;
/// Number of characters of an invalid answer to quote in an error.
const MAX_QUOTED_CHARS: usize = 80;

/// A hook's decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookPermission {
    /// The call is made without asking.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is not made.
    Deny,
}

/// The answer of a hook, or the combined answers of several.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HookAnswer {
    /// Why the run should end, if it should.
    pub stop: Option<String>,
    /// Why what is about to happen should not happen, if so.
    pub block: Option<String>,
    /// The decision about a call, and the reason.
    pub permission: Option<(HookPermission, String)>,
    /// Arguments that replace the model's.
    pub updated_input: Option<Value>,
    /// A result that replaces the tool's.
    pub updated_output: Option<Value>,
    /// Text for the model.
    pub context: Vec<String>,
    /// Messages for the user.
    pub messages: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<HookPermission>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    updated_tool_output: Option<Value>,
    additional_context: Option<String>,
    decision: Option<RequestDecision>,
}

/// The answer to a [`HookEvent::PermissionRequest`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestDecision {
    behavior: HookPermission,
    updated_input: Option<Value>,
    message: Option<String>,
    #[serde(default)]
    interrupt: bool,
}

impl HookAnswer {
    /// Parses the output and exit code of a hook.
    ///
    /// # Errors
    /// Returns what is wrong with the hook.
    pub(super) fn read(hook: &Hook, code: i32, stdout: &str, stderr: &str) -> Result<Self, String> {
        let (event, said) = (hook.event(), stderr.trim());
        match code {
            0 => Self::from_text(event, stdout.trim(), hook.has_to_answer()),
            2 if event.can_block() => {
                let why = if said.is_empty() { "no reason was given" } else { said };
                Ok(Self { block: Some(cut(why)), ..Self::default() })
            }
            code if said.is_empty() => Err(format!("it ended with exit code {code}")),
            code => Err(format!("it ended with exit code {code}: {}", cut(said))),
        }
    }

    /// Parses the output. Plain text is for the model at some events; at others it is ordinary output of a command and
    /// not an answer.
    fn from_text(event: HookEvent, text: &str, has_to_answer: bool) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if !text.starts_with('{') {
            if event.takes_text() {
                return Ok(Self { context: vec![cut(text)], ..Self::default() });
            }
            let is_other_json = || text.starts_with('[') && serde_json::from_str::<IgnoredAny>(text).is_ok();
            if has_to_answer || is_other_json() {
                return Err(format!("its answer cannot be read: it is not a JSON object: {}", line(text)));
            }
            return Ok(Self::default());
        }
        let wire: Wire = serde_json::from_str(text).map_err(|error| format!("its answer cannot be read: {error}"))?;
        wire.into_answer(event)
    }

    /// Combines two answers: restrictions take precedence over permissions, and later arguments and results over
    /// earlier ones.
    #[must_use]
    pub(super) fn and(mut self, other: Self) -> Self {
        self.stop = self.stop.or(other.stop);
        self.block = match (self.block, other.block) {
            (Some(one), Some(two)) => Some(format!("{one}\n{two}")),
            (one, two) => one.or(two),
        };
        self.permission = match (self.permission, other.permission) {
            (Some(one), Some(two)) => Some(if two.0 > one.0 { two } else { one }),
            (one, two) => one.or(two),
        };
        self.updated_input = other.updated_input.or(self.updated_input);
        self.updated_output = other.updated_output.or(self.updated_output);
        self.context.extend(other.context);
        self.messages.extend(other.messages);
        self
    }
}

impl Wire {
    fn into_answer(self, event: HookEvent) -> Result<HookAnswer, String> {
        let mut answer = HookAnswer { messages: self.system_message.into_iter().collect(), ..HookAnswer::default() };
        if self.r#continue == Some(false) {
            answer.stop = Some(self.stop_reason.unwrap_or_else(|| "a hook ended the run".to_owned()));
        }
        let reason = self.reason.map(|reason| cut(reason.trim())).filter(|reason| !reason.is_empty());
        let or_none = |reason: Option<String>| reason.unwrap_or_else(|| "no reason was given".to_owned());
        match self.decision.as_deref() {
            None => {}
            Some("block") if event.can_block() => answer.block = Some(or_none(reason)),
            // The older form of `permissionDecision` below.
            Some("approve") if event == HookEvent::PreToolUse => {
                answer.permission = Some((HookPermission::Allow, reason.unwrap_or_default()));
            }
            Some(other) => return Err(format!("the decision `{other}` has no meaning for {event}")),
        }
        let Some(specific) = self.hook_specific_output else { return Ok(answer) };
        if let Some(name) = specific.hook_event_name.filter(|name| name != event.as_str()) {
            return Err(format!("its answer is about {name}, but it was asked about {event}"));
        }
        answer.context.extend(specific.additional_context.map(|context| cut(context.trim())));
        answer.context.retain(|context| !context.is_empty());
        answer.updated_input = specific.updated_input;
        answer.updated_output = specific.updated_tool_output;
        if let Some(permission) = specific.permission_decision {
            answer.permission = Some((permission, specific.permission_decision_reason.unwrap_or_default()));
        }
        if let Some(decision) = specific.decision {
            let message = decision.message.unwrap_or_default();
            if decision.interrupt {
                answer.stop = Some(message.clone());
            }
            answer.permission = Some((decision.behavior, message));
            answer.updated_input = decision.updated_input.or(answer.updated_input);
        }
        match &answer.updated_input {
            Some(input) if !input.is_object() => Err("the updated input is not an object".to_owned()),
            _ => Ok(answer),
        }
    }
}

/// Returns the beginning of an invalid answer on one line.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(MAX_QUOTED_CHARS).collect();
    let mut short: String = words.join(" ").chars().take(MAX_QUOTED_CHARS).collect();
    if text.chars().count() > MAX_QUOTED_CHARS {
        short.push('…');
    }
    short
}

/// Truncates a text that is too long.
fn cut(text: &str) -> String {
    truncated(text, MAX_CONTEXT_CHARS, "\n[cut off: a hook may say 10,000 characters]")
}
