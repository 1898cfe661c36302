//! The channels that hold questions and waiting sub-agents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ActionRequest, DecisionRecord};
use crate::ids::CallId;
use crate::machine::{Machine, Open};
use crate::state::{Channel, ChannelError, Sharing};

/// The questions of the turn in progress by id, including answered ones.
#[derive(Debug)]
pub struct ActionRequests;

/// A call that waits, and the decision about it.
///
/// ```
/// use deepagents_core::interrupt::{ActionRequest, ActionReview, Decision};
/// /// Approves everything that a call asks.
/// fn approved(requests: &[ActionRequest]) -> Vec<ActionReview> {
///     requests.iter().map(|request| ActionReview::new(request.clone(), Decision::Approve)).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionReview {
    /// The question.
    #[serde(rename = "question")]
    pub request: ActionRequest,
    /// The decision, once there is one.
    #[serde(rename = "answer", default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRecord>,
}

impl ActionReview {
    /// Creates a review with a decision, for [`Agent::call_reviewed_tool`].
    ///
    /// [`Agent::call_reviewed_tool`]: crate::agent::Agent::call_reviewed_tool
    pub fn new(request: ActionRequest, decision: impl Into<DecisionRecord>) -> Self {
        Self { request, decision: Some(decision.into()) }
    }
}

/// A change to the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionRequestChange {
    /// Adds a question, unless it exists.
    #[serde(rename = "ask")]
    Request(Box<ActionRequest>),
    /// Answers a question.
    #[serde(rename = "answer")]
    Decide(String, DecisionRecord),
    /// Records a decision about a call that had no question. For the log only; it changes nothing.
    Decided(CallId, DecisionRecord),
    /// Removes a question.
    Drop(String),
    /// Removes all questions.
    Clear,
}

impl Channel for ActionRequests {
    const NAME: &'static str = "questions";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = BTreeMap<String, ActionReview>;
    type Update = Vec<ActionRequestChange>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        for change in update {
            match change {
                ActionRequestChange::Request(question) => {
                    value.entry(question.id.clone()).or_insert(ActionReview { request: *question, decision: None });
                }
                ActionRequestChange::Decide(id, answer) => {
                    if let Some(asked) = value.get_mut(&id) {
                        asked.decision = Some(answer);
                    }
                }
                ActionRequestChange::Decided(..) => {}
                ActionRequestChange::Drop(id) => {
                    value.remove(&id);
                }
                ActionRequestChange::Clear => value.clear(),
            }
        }
        Ok(())
    }
}

/// Waiting sub-agents, by the call that runs them and their label, in the format of logs from before sub-agents had
/// records of their own. Still read, never written.
#[derive(Debug)]
pub(crate) struct PausedChildren;

/// A sub-agent that waits for answers, with all it needs to resume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PausedChild {
    /// The call that runs it.
    pub(crate) call: CallId,
    /// The label that the call gave it.
    pub(crate) label: String,
    /// The path in the tree of agents. It stays the same even if the call is renumbered.
    pub(crate) path: Vec<String>,
    /// Its initial state.
    pub(crate) given: Map<String, Value>,
    /// Its current state.
    pub(crate) state: Map<String, Value>,
    pub(crate) machine: Machine,
    pub(crate) open: Open,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PausedChange {
    #[serde(rename = "pause")]
    Put(Box<PausedChild>),
    Clear,
}

impl PausedChild {
    pub(crate) fn key(call: &CallId, label: &str) -> String {
        format!("{call}#{label}")
    }
}

impl Channel for PausedChildren {
    const NAME: &'static str = "paused_children";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = BTreeMap<String, PausedChild>;
    type Update = Vec<PausedChange>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        for change in update {
            match change {
                PausedChange::Put(child) => {
                    value.insert(PausedChild::key(&child.call, &child.label), *child);
                }
                PausedChange::Clear => value.clear(),
            }
        }
        Ok(())
    }
}
