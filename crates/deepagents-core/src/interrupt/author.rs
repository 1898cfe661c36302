//! Who made a decision.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Decision;

/// Who made a decision. As JSON `{"by": "person"}`, or with the `text` of a rule.
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
    /// A rule that was there from the beginning.
    Rule {
        /// The rule in words.
        text: String,
    },
    /// A rule that a person made of an earlier answer.
    RememberedRule {
        /// The rule in words.
        text: String,
    },
    /// What holds where nobody and nothing else decides, such as a mode, or the end of a question's time.
    Default {
        /// What that is, in words.
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

/// A decision and who made it. As JSON the decision with a field `author`.
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
    /// Who made it; not known of records from before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<DecisionAuthor>,
}

impl DecisionRecord {
    /// A decision by somebody.
    pub fn new(decision: Decision, author: DecisionAuthor) -> Self {
        Self { decision, author: Some(author) }
    }
}

impl From<Decision> for DecisionRecord {
    /// A decision by a person.
    fn from(decision: Decision) -> Self {
        Self::new(decision, DecisionAuthor::Person)
    }
}
