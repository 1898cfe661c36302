//! Decisions of people.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A person's decision about a call. In JSON `{"type":"approve"}`,
/// `{"type":"edit","edited_action":{"name":…,"args":{…}}}`, `{"type":"reject","message":…}`,
/// `{"type":"respond","message":…}`. When reading, `accept` means approve, `ignore` means reject, `response` means
/// respond, and an edit may contain its `args` directly.
///
/// ```
/// use deepagents_core::interrupt::{Decision, DecisionKind};
/// use serde_json::json;
/// let decision: Decision = serde_json::from_value(json!({"type": "reject", "message": "Not on a Friday."}))?;
/// assert_eq!(decision.kind(), DecisionKind::Reject);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Make the call unchanged.
    Approve,
    /// Make another call in its place.
    Edit {
        /// The call to make.
        edited_action: EditedAction,
    },
    /// Do not make the call.
    Reject {
        /// The reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Do not make the call; use this as its result.
    Respond {
        /// The result.
        message: String,
    },
}

/// A call in place of the model's.
///
/// ```
/// use deepagents_core::interrupt::{Decision, EditedAction};
/// # use serde_json::json;
/// let args = json!({"file_path": "/notes.md", "content": "Less.\n"});
/// let edited_action = EditedAction { name: "write_file".to_owned(), args };
/// let decision = Decision::Edit { edited_action };
/// # assert!(matches!(decision, Decision::Edit { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EditedAction {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// Kinds of decisions.
///
/// ```
/// use deepagents_core::interrupt::DecisionKind;
/// let kinds: Vec<&str> = DecisionKind::ALL.iter().map(|kind| kind.as_str()).collect();
/// assert_eq!(kinds, ["approve", "edit", "reject", "respond"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionKind {
    /// See [`Decision::Approve`].
    #[serde(alias = "accept")]
    Approve,
    /// See [`Decision::Edit`].
    Edit,
    /// See [`Decision::Reject`].
    #[serde(alias = "ignore")]
    Reject,
    /// See [`Decision::Respond`].
    #[serde(alias = "response")]
    Respond,
}

impl DecisionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Edit, Self::Reject, Self::Respond];

    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
            Self::Respond => "respond",
        }
    }
}

impl fmt::Display for DecisionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Decision {
    /// Returns the decision's kind.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Approve => DecisionKind::Approve,
            Self::Edit { .. } => DecisionKind::Edit,
            Self::Reject { .. } => DecisionKind::Reject,
            Self::Respond { .. } => DecisionKind::Respond,
        }
    }

    /// Returns the call in place of the model's, if there is one.
    pub(crate) fn edited_action(&self) -> Option<&EditedAction> {
        if let Self::Edit { edited_action } = self { Some(edited_action) } else { None }
    }

    /// Reads a decision about a call of `tool` from JSON.
    ///
    /// # Errors
    /// Returns an error if the JSON is not a decision.
    pub fn from_json(value: Value, tool: &str) -> Result<Self, DecisionError> {
        let given: Given = serde_json::from_value(value).map_err(|error| DecisionError::Shape(error.to_string()))?;
        Ok(match given {
            Given::Approve => Self::Approve,
            Given::Reject { message } => Self::Reject { message },
            Given::Respond { message } => Self::Respond { message },
            Given::Edit { edited_action: Some(edited_action), .. } => Self::Edit { edited_action },
            Given::Edit { args: Some(args), .. } => {
                Self::Edit { edited_action: EditedAction { name: tool.to_owned(), args } }
            }
            Given::Edit { .. } => return Err(DecisionError::Shape("an edit needs `edited_action`".to_owned())),
        })
    }
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(value, "").map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Given {
    #[serde(alias = "accept")]
    Approve,
    Edit {
        edited_action: Option<EditedAction>,
        args: Option<Value>,
    },
    #[serde(alias = "ignore")]
    Reject {
        #[serde(default)]
        message: Option<String>,
    },
    #[serde(alias = "response")]
    Respond {
        message: String,
    },
}

/// Error for an answer that is not valid. The question stays open, and nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No open question has this id.
    #[error("no open question is named `{id}`; the open ones are: {}", if open.is_empty() { "none".to_owned() } else { open.join(", ") })]
    Unknown {
        /// The id as given.
        id: String,
        /// The open questions.
        open: Vec<String>,
    },
    /// The question has been answered already.
    #[error("question `{id}` has already been answered")]
    Answered {
        /// The question.
        id: String,
    },
    /// The question does not allow this kind of decision.
    #[error("question `{id}` cannot be answered with {given}, only with {}", kind_names(allowed))]
    NotAllowed {
        /// The question.
        id: String,
        /// The given kind.
        given: DecisionKind,
        /// The allowed kinds.
        allowed: Vec<DecisionKind>,
    },
    /// The edited call is for a tool that is not available.
    #[error("question `{id}`: the call cannot be changed to `{tool}`, which the agent does not have; it has {}", known.join(", "))]
    UnknownTool {
        /// The question.
        id: String,
        /// The given tool.
        tool: String,
        /// The available tools.
        known: Vec<String>,
    },
    /// The tool does not accept the arguments of the edited call.
    #[error("question `{id}`: {reason}")]
    Arguments {
        /// The question.
        id: String,
        /// The reason.
        reason: String,
    },
    /// The question has expired.
    #[error("question `{id}` has expired; resume the thread without an answer to it")]
    Expired {
        /// The question.
        id: String,
    },
    /// The JSON is not a decision.
    #[error("this is not a decision: {0}; the types are approve, edit, reject and respond")]
    Shape(String),
    /// The number of answers differs from the number of questions.
    #[error("{given} answers were given to {open} questions; give one for each, in order, or name the questions")]
    Count {
        /// Number of answers.
        given: usize,
        /// Number of open questions.
        open: usize,
    },
}

fn kind_names(allowed: &[DecisionKind]) -> String {
    allowed.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}
