//! What hooks say of the calls of a turn.

use std::collections::BTreeMap;

use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_core::tool::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What [hooks](crate::middleware::hooks) say of the calls of the turn under way, by the calls' own ids, and why they end
/// the run, if they do. Each agent has its own.
#[derive(Debug)]
pub struct CallReviews;

/// What hooks have come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookReviews {
    /// The calls that they had something to say of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, CallReview>,
    /// Why the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// What hooks say of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallReview {
    /// Whether it is made; left to others if they do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<HookDecision>,
    /// Arguments in place of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What the model is told with the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
}

impl CallReview {
    /// What hooks have said of a call of the turn under way.
    pub(crate) fn of(id: &CallId, cx: &Context) -> Self {
        cx.get::<CallReviews>().calls.remove(&id.to_string()).unwrap_or_default()
    }

    /// Whether hooks allow the call, so that nobody has to be asked about it, but where that is required.
    pub(crate) fn allows(&self) -> bool {
        self.decision == Some(HookDecision::Allow)
    }

    /// Whether hooks refuse the call, so that there is nothing to ask about.
    pub(crate) fn denies(&self) -> bool {
        matches!(self.decision, Some(HookDecision::Deny(_)))
    }
}

/// Whether a call is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// It is, and nobody is asked, but where a rule [requires](crate::InterruptOn::required) it.
    Allow,
    /// A person is asked, for this reason.
    Ask(String),
    /// It is not, for this reason.
    Deny(String),
}

/// A change of what hooks have come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookReviewsChange {
    /// Another turn has begun: these are its reviews.
    Turn(BTreeMap<String, CallReview>),
    /// The run ends.
    End(String),
    /// Another run has begun.
    Clear,
}

impl Channel for CallReviews {
    const NAME: &'static str = "hook_reviews";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = HookReviews;
    type Update = Vec<HookReviewsChange>;

    fn reduce(value: &mut HookReviews, update: Vec<HookReviewsChange>) -> Result<(), ChannelError> {
        for change in update {
            match change {
                HookReviewsChange::Turn(calls) => value.calls = calls,
                HookReviewsChange::End(why) => {
                    value.stop.get_or_insert(why);
                }
                HookReviewsChange::Clear => *value = HookReviews::default(),
            }
        }
        Ok(())
    }
}
