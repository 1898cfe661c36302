//! The channel of hook decisions about the calls of a turn.

use std::collections::BTreeMap;

use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_core::tool::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Channel of what [hooks](crate::middleware::hooks) decide about the calls of the current turn, by the answer's id and
/// the position of the call in it (`msg_1.0`), and of the reason if they end the run. Each agent has its own.
#[derive(Debug)]
pub struct CallReviews;

/// The decisions of hooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookReviews {
    /// The calls on which hooks had an effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, CallReview>,
    /// Why the run ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// The decision of hooks about a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallReview {
    /// Whether the call is made; `None` leaves the decision to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<HookDecision>,
    /// Arguments that replace the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Text shown to the model together with the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
}

impl CallReview {
    /// Returns the key of a call of the current turn: the id of its answer and its position. The call's own id changes
    /// if the thread is rewound and the turn resumes under another number.
    pub(crate) fn key(id: &CallId, cx: &Context) -> String {
        let messages = cx.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at));
        format!("{}.{}", answer.map_or("", |answer| answer.id()), id.index)
    }

    /// Returns the decision of hooks about a call of the current turn.
    pub(crate) fn of(id: &CallId, cx: &Context) -> Self {
        let mut reviews = cx.get::<CallReviews>().calls;
        // Earlier versions used the calls' own ids as keys.
        reviews.remove(&Self::key(id, cx)).or_else(|| reviews.remove(&id.to_string())).unwrap_or_default()
    }

    /// Returns `true` if hooks allow the call, so that nobody is asked unless a rule requires it.
    pub(crate) fn allows(&self) -> bool {
        self.decision == Some(HookDecision::Allow)
    }

    /// Returns `true` if hooks deny the call, so that there is nothing to ask about.
    pub(crate) fn denies(&self) -> bool {
        matches!(self.decision, Some(HookDecision::Deny(_)))
    }
}

/// Whether a call is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// The call is made, and nobody is asked unless a rule [requires](crate::InterruptOn::required) it.
    Allow,
    /// A person is asked, for this reason.
    Ask(String),
    /// The call is not made, for this reason.
    Deny(String),
}

/// A change to the decisions of hooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookReviewsChange {
    /// Starts a new turn with these reviews.
    Turn(BTreeMap<String, CallReview>),
    /// Ends the run, for this reason.
    End(String),
    /// Clears the reviews at the start of a run.
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
