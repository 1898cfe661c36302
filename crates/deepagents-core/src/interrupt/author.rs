//! Authors of decisions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Decision;

/// The author of a decision. In JSON `{"by": "person"}`, or with the `text` of a rule.
///
/// ```
/// use deepagents_core::interrupt::DecisionAuthor;
/// let author = DecisionAuthor::RememberedRule { text: "execute `cargo test`".to_owned() };
/// assert_eq!(author.to_string(), "the remembered rule: execute `cargo test`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionAuthor {
    /// A person who was asked.
    Person,
    /// A predefined rule.
    Rule {
        /// The rule as text.
        text: String,
    },
    /// A rule that a person created with an earlier answer.
    RememberedRule {
        /// The rule as text.
        text: String,
    },
    /// A default that applies if nobody and nothing else decides, such as a mode, or the expiry of a question.
    Default {
        /// The default as text.
        text: String,
    },
}

impl fmt::Display for DecisionAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => f.write_str("a person"),
            Self::Rule { text } => write!(f, "the rule: {text}"),
            Self::RememberedRule { text } => write!(f, "the remembered rule: {text}"),
            Self::Default { text } => write!(f, "default: {text}"),
        }
    }
}

/// A decision and its author. In JSON, the decision with a field `author`.
///
/// ```
/// use deepagents_core::interrupt::{Decision, DecisionAuthor, DecisionRecord};
/// let rule = DecisionAuthor::RememberedRule { text: "reads of /docs are approved".into() };
/// let record = DecisionRecord::new(Decision::Approve, rule);
/// assert_eq!(record.decision, Decision::Approve);
/// assert_eq!(DecisionRecord::from(Decision::Approve).author, Some(DecisionAuthor::Person));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// The author; `None` in records from before authors were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<DecisionAuthor>,
}

impl DecisionRecord {
    /// Creates a decision by an author.
    pub fn new(decision: Decision, author: DecisionAuthor) -> Self {
        Self { decision, author: Some(author) }
    }
}

impl From<Decision> for DecisionRecord {
    /// Creates a decision by a person.
    fn from(decision: Decision) -> Self {
        Self::new(decision, DecisionAuthor::Person)
    }
}
