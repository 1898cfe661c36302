//! Where questions, and sub-agents that wait for answers, are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ActionRequest, DecisionRecord};
use crate::ids::CallId;
use crate::machine::Machine;
use crate::machine::Open;
use crate::state::{Channel, ChannelError, Sharing};

/// The questions of the turn under way, by their ids, answered ones too.
#[derive(Debug)]
pub struct ActionRequests;

/// A call that waits, and what was decided about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionReview {
    /// What waits.
    #[serde(rename = "question")]
    pub request: ActionRequest,
    /// The decision, once there is one.
    #[serde(rename = "answer", default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRecord>,
}

/// A change to the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionRequestChange {
    /// One more, unless it is there already.
    #[serde(rename = "ask")]
    Request(Box<ActionRequest>),
    /// The answer to one, and who gave it.
    #[serde(rename = "answer")]
    Decide(String, DecisionRecord),
    /// What was decided about a call without a question, and who did: for the log, it changes nothing.
    Decided(CallId, DecisionRecord),
    /// One less.
    Drop(String),
    /// None any more.
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

/// Sub-agents that wait for answers, by the call that runs them and what the call names them: as logs were written
/// before sub-agents had records of their own. Still read, never written.
#[derive(Debug)]
pub(crate) struct PausedChildren;

/// A sub-agent that waits for answers: all it needs to go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PausedChild {
    /// The call that runs it.
    pub(crate) call: CallId,
    /// What that call names it.
    pub(crate) label: String,
    /// Where it is in the tree; stays the same where its call is given another number.
    pub(crate) path: Vec<String>,
    /// What it was given.
    pub(crate) given: Map<String, Value>,
    /// What it has come to.
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
