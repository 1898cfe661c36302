//! Checkpoints reached by a run, numbered as in the history of its thread.

use deepagents_core::journal::LogPosition;
use deepagents_core::run::{Machine, NextStep};
use deepagents_core::state::State;
use deepagents_core::tool::CallId;
use serde_json::{Value, json};

use super::event::{AgentInfo, RunIdentity};
use super::task::{call_task, model_task};
use crate::error::Result;
use crate::json::extend;
use crate::threads::Place;
use crate::wire::{OpenInterrupt, next_nodes, open_calls, state_values};

/// A checkpoint and its next tasks.
#[derive(Clone, Debug)]
pub(crate) struct ReachedCheckpoint {
    pub(crate) at: At,
    pub(crate) state: State,
    pub(crate) tasks: Vec<NextTask>,
}

/// The position of a checkpoint among those of its agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) place: Place,
    pub(crate) parent: Option<Place>,
    pub(crate) source: &'static str,
    pub(crate) step: i64,
}

/// A task to be executed after a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct NextTask {
    pub(crate) id: String,
    pub(crate) node: &'static str,
    pub(crate) interrupts: Vec<Value>,
}

/// Numbers the checkpoints of an agent.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// The last checkpoint.
    last: Option<At>,
    /// The state with which the run began, until its first step.
    begun: Option<State>,
    /// Whether that state was updated before the first step.
    changed: bool,
}

impl Checkpoints {
    /// Continues after a checkpoint of the history.
    pub(super) fn after(last: Option<At>) -> Self {
        Self { last, ..Self::default() }
    }

    pub(super) fn last(&self) -> Option<At> {
        self.last
    }

    /// Returns the number of the current step.
    pub(super) fn step(&self) -> i64 {
        self.last.map_or(0, |last| last.step.saturating_add(1))
    }

    /// Records that a run begins with a state.
    pub(super) fn begin(&mut self, state: State) {
        (self.begun, self.changed) = (Some(state), false);
    }

    /// Whether a run has begun and not made its first step.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    fn next(&mut self, place: Place, source: &'static str) -> At {
        let (parent, step) = self.last.map_or((None, -1), |last| (Some(last.place), last.step.saturating_add(1)));
        let at = At { place, parent, source, step };
        self.last = Some(at);
        at
    }

    /// Adds the checkpoint of a rewind.
    pub(super) fn rewound(&mut self, position: LogPosition) {
        self.next(Place::After(position), "fork");
    }

    /// Adds the checkpoint of a client's state update.
    pub(super) fn updated(&mut self, position: LogPosition) {
        if self.begun.is_some() {
            self.changed = true;
        } else {
            self.next(Place::After(position), "update");
        }
    }

    /// Adds the checkpoint of a completed step. An input has two checkpoints for clients; the first holds the state
    /// before it.
    pub(super) fn stepped(&mut self, position: LogPosition) -> (Option<(At, State)>, At) {
        let place = Place::After(position);
        match (self.begun.take(), std::mem::take(&mut self.changed)) {
            (Some(state), false) => {
                let input = self.next(Place::BeforeInput(position), "input");
                (Some((input, state)), self.next(place, "loop"))
            }
            (_, true) => (None, self.next(place, "update")),
            (None, false) => (None, self.next(place, "loop")),
        }
    }
}

/// Returns the only task at the checkpoint before an input.
pub(super) fn start_task(identity: &RunIdentity, at: At) -> NextTask {
    let id = crate::ids::derived(&[&identity.thread, &at.place.id(), "__start__"]).to_string();
    NextTask { id, node: "__start__", interrupts: Vec::new() }
}

/// Returns the next tasks of an agent: one for each call without a result, or one for the model.
pub(super) fn next_tasks(
    identity: &RunIdentity,
    (path, step): (&[String], u64),
    state: &State,
    machine: &Machine,
    open: &[OpenInterrupt],
) -> Vec<NextTask> {
    let one = |node: &'static str| match node {
        "tools" => open_call_ids(path, state, machine).into_iter().map(|call| call_of(identity, &call, open)).collect(),
        node => vec![NextTask { id: model_task(identity, path, step), node, interrupts: Vec::new() }],
    };
    next_nodes(state, Some(machine)).into_iter().flat_map(one).collect()
}

fn call_of(identity: &RunIdentity, call: &CallId, open: &[OpenInterrupt]) -> NextTask {
    let interrupts = open.iter().filter(|open| open.waits_in(call)).map(OpenInterrupt::to_json).collect();
    NextTask { id: call_task(identity, call), node: "tools", interrupts }
}

/// Returns the calls of the last assistant message that have no result.
fn open_call_ids(path: &[String], state: &State, machine: &Machine) -> Vec<CallId> {
    let turn = match machine.next() {
        NextStep::Tools { turn } => turn,
        _ => machine.turn().saturating_sub(1),
    };
    let open = open_calls(state).map(|(_, open)| open).unwrap_or_default();
    open.into_iter().map(|call| CallId { path: path.to_vec(), turn, index: call.index }).collect()
}

impl ReachedCheckpoint {
    /// Serialises the checkpoint.
    pub(crate) fn to_json(&self, identity: &RunIdentity, agent: &AgentInfo) -> Result<Value> {
        let namespace = identity.namespace(&agent.path).join("|");
        let place = |place: Place| json!({"thread_id": identity.thread, "checkpoint_ns": namespace, "checkpoint_id": place.id()});
        let config = |at: Place| json!({"configurable": place(at)});
        let At { place: own, parent, source, step } = self.at;
        let values = state_values(&self.state, agent)?;
        let next: Vec<&str> = self.tasks.iter().map(|task| task.node).collect();
        let task =
            |task: &NextTask| json!({"id": task.id, "name": task.node, "interrupts": task.interrupts, "state": null});
        let mut metadata = Value::Object(identity.metadata.clone());
        extend(&mut metadata, json!({"source": source, "step": step, "parents": {}, "run_id": identity.run}));
        Ok(json!({
            "values": values, "next": next, "tasks": self.tasks.iter().map(task).collect::<Vec<_>>(),
            "metadata": metadata,
            "config": config(own), "parent_config": parent.map(config),
            "checkpoint": place(own), "parent_checkpoint": parent.map(place),
        }))
    }
}
