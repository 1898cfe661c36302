//! What a person is asked about, as data.

use std::time::Duration;

use deepagents_core::ask::DecisionKind;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::approvals::AskBefore;

/// Whether and how a person is asked before calls of a tool: `true`, `false`, or
/// `{"allowed_decisions": [...], "description": ..., "expires_after": seconds}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ApprovalDefinition {
    /// Asked about, with anything to be decided; or not.
    Asked(bool),
    /// Asked about in this way.
    Ask(AskDefinition),
}

/// How a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AskDefinition {
    /// What may be decided.
    pub allowed_decisions: Vec<DecisionKind>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seconds after which it counts as rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<u64>,
}

impl ApprovalDefinition {
    pub(super) fn ask(&self) -> Option<AskBefore> {
        match self {
            Self::Asked(false) => None,
            Self::Asked(true) => Some(AskBefore::any()),
            Self::Ask(ask) => {
                let mut before = AskBefore::only(ask.allowed_decisions.clone());
                if let Some(text) = &ask.description {
                    before = before.text(text.as_str());
                }
                if let Some(seconds) = ask.expires_after {
                    before = before.expires_after(Duration::from_secs(seconds));
                }
                Some(before)
            }
        }
    }
}

impl<'de> Deserialize<'de> for ApprovalDefinition {
    // By hand, since an untagged enum says no more than that nothing matched.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(asked) => Ok(Self::Asked(asked)),
            given @ Value::Object(_) => serde_json::from_value(given).map(Self::Ask).map_err(D::Error::custom),
            _ => Err(D::Error::custom("write true, false or {\"allowed_decisions\": [...]}")),
        }
    }
}
