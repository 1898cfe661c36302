//! What a person may decide.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a person decides about a call. As JSON `{"type":"approve"}`,
/// `{"type":"edit","edited_action":{"name":…,"args":{…}}}`, `{"type":"reject","message":…}`,
/// `{"type":"respond","message":…}`; `accept` is read as approve, `ignore` as reject, `response` as respond, and an edit
/// may give its `args` directly.
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
    /// Make the call as it is.
    Approve,
    /// Make another call in its place.
    Edit {
        /// The call to make.
        edited_action: EditedAction,
    },
    /// Do not make it.
    Reject {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Do not make it; this is its result.
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
    /// The tool.
    pub name: String,
    /// Its arguments.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Edit, Self::Reject, Self::Respond];

    /// The word in JSON.
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
    /// Its kind.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Approve => DecisionKind::Approve,
            Self::Edit { .. } => DecisionKind::Edit,
            Self::Reject { .. } => DecisionKind::Reject,
            Self::Respond { .. } => DecisionKind::Respond,
        }
    }

    /// Reads a decision about a call of `tool`.
    ///
    /// # Errors
    /// When the JSON is none.
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

/// Why an answer is not taken. The question stays open and nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No open question has the id.
    #[error("no open question is named `{id}`; the open ones are: {}", if open.is_empty() { "none".to_owned() } else { open.join(", ") })]
    Unknown {
        /// The id as given.
        id: String,
        /// Those that are open.
        open: Vec<String>,
    },
    /// The question was answered before.
    #[error("question `{id}` has already been answered")]
    Answered {
        /// The question.
        id: String,
    },
    /// The question does not allow it.
    #[error("question `{id}` cannot be answered with {given}, only with {}", kind_names(allowed))]
    NotAllowed {
        /// The question.
        id: String,
        /// What was given.
        given: DecisionKind,
        /// What is allowed.
        allowed: Vec<DecisionKind>,
    },
    /// The edited call is of a tool that there is not.
    #[error("question `{id}`: the call cannot be changed to `{tool}`, which the agent does not have; it has {}", known.join(", "))]
    UnknownTool {
        /// The question.
        id: String,
        /// The tool as given.
        tool: String,
        /// The tools there are.
        known: Vec<String>,
    },
    /// The tool does not take the arguments of the edited call.
    #[error("question `{id}`: {why}")]
    Arguments {
        /// The question.
        id: String,
        /// What is wrong with them.
        why: String,
    },
    /// Its time is over.
    #[error("question `{id}` has expired; resume the thread without an answer to it")]
    Expired {
        /// The question.
        id: String,
    },
    /// The JSON is no decision.
    #[error("this is not a decision: {0}; the types are approve, edit, reject and respond")]
    Shape(String),
    /// The number of answers is not that of the questions.
    #[error("{given} answers were given to {open} questions; give one for each, in order, or name the questions")]
    Count {
        /// Answers.
        given: usize,
        /// Open questions.
        open: usize,
    },
}

fn kind_names(allowed: &[DecisionKind]) -> String {
    allowed.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}
