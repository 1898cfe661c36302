//! The calls of one turn: which are to be made, and which must wait for others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::error::{Error, Result};
use crate::ids::CallId;
use crate::journal::ChildLog;
use crate::machine::Open;
use crate::message::{self, MessageOp, PendingCall, ToolMessage};
use crate::middleware::ToolResponse;
use crate::panics::caught;
use crate::run::driver::Driver;
use crate::state::Concurrent;
use crate::status::FinishReason;
use crate::structured::ResponseFormat;
use crate::tool::{CallInfo, DynTool, Effect, coerce_call};

/// One call of the turn.
pub(super) struct Planned {
    pub(super) id: CallId,
    pub(super) call: PendingCall,
    /// The tool name and arguments that a person, or otherwise a middleware, put in place of the call.
    pub(super) changed: Option<(String, Value)>,
    pub(super) tool: Option<Arc<dyn DynTool>>,
    /// Whether it may be repeated if its outcome is unknown.
    pub(super) repeatable: bool,
    /// Whether a process that has since ended started it.
    pub(super) begun: bool,
    /// Earlier calls of the turn that must finish first.
    pub(super) waits_for: HashSet<usize>,
    pub(super) state: Progress,
}

impl Planned {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, Progress::Running)
    }

    /// Returns whether this is the structured answer in this format. Even if the agent's own model is not given the tool
    /// for it (`by_tool`), another model may have been, so the name decides unless a tool has it.
    pub(super) fn is_answer(&self, format: &ResponseFormat, by_tool: bool) -> bool {
        self.call.name() == format.name() && (by_tool || self.tool.is_none())
    }
}

pub(super) enum Progress {
    Pending,
    Running,
    /// Waits for a decision.
    Interrupted,
    Finished {
        message: Arc<ToolMessage>,
        added: Vec<MessageOp>,
    },
}

/// The calls of one turn.
pub(super) struct Turn {
    pub(super) calls: Vec<Planned>,
    pub(super) running: JoinSet<Result<ToolResponse>>,
    pub(super) by_task: HashMap<Id, Running>,
    /// Sub-agents left by an earlier process that their calls, now aborted or waiting, had not resumed.
    pub(super) untaken: Vec<ChildLog>,
    /// Last output of aborted calls.
    pub(super) outputs: HashMap<usize, String>,
    /// Channels written by a call of this turn that no other call may write.
    pub(super) taken: HashSet<&'static str>,
    pub(super) has_structured: bool,
    /// Set if calls were not made because the budget is spent.
    pub(super) spent: Option<FinishReason>,
    pub(super) failed: Option<Error>,
}

/// A call in progress.
pub(super) struct Running {
    pub(super) at: usize,
    pub(super) handle: AbortHandle,
    pub(super) info: Arc<CallInfo>,
}

impl Turn {
    /// Returns whether all calls have results.
    pub(super) fn are_done(&self) -> bool {
        self.calls.iter().all(|c| matches!(c.state, Progress::Finished { .. }))
    }

    /// Returns the finished part of a turn that waits for a decision.
    pub(super) fn left_open(&self) -> Open {
        let finished = self.calls.iter().filter_map(|c| match &c.state {
            Progress::Finished { message, added } => Some((c.id.clone(), (message.clone(), added.clone()))),
            _ => None,
        });
        let changed = self.taken.iter().map(|name| (*name).to_owned()).collect();
        Open { finished: finished.collect(), changed, ..Open::default() }
    }
}

impl Driver {
    /// Plans the open calls.
    ///
    /// # Errors
    /// Returns an error if a middleware panics.
    pub(super) fn plan(&self, turn: u32) -> Result<Turn> {
        let tools = self.tools_on_offer();
        let mut calls: Vec<Planned> = Vec::new();
        let mut writes: Vec<(usize, Vec<String>)> = Vec::new();
        for (at, open) in message::pending(self.state.messages()).into_iter().enumerate() {
            let (tool, mut call) = (tools.get(open.call.name()).cloned(), open.call);
            if let (PendingCall::Valid(call), Some(tool)) = (&mut call, &tool) {
                coerce_call(call, &**tool);
            }
            let mut waits_for = HashSet::new();
            let mut repeatable = false;
            let id = CallId { path: self.shared.path.to_vec(), turn, index: open.index };
            let changed = self.put_in_place(&id, &call)?;
            let made = changed.as_ref().map_or(tool.as_ref(), |(name, _)| tools.get(name));
            if let (PendingCall::Valid(call), Some(made)) = (&call, made) {
                let args = changed.as_ref().map_or(&call.args, |(_, args)| args);
                // A tool that panics here writes everything, and may not be repeated.
                let effect = caught(|| made.effect(args)).unwrap_or(Effect::Write { paths: Vec::new() });
                repeatable = effect == Effect::Read || caught(|| made.idempotent(args)).unwrap_or(false);
                if let Effect::Write { paths } = effect {
                    waits_for.extend(writes.iter().filter(|(_, earlier)| overlap(earlier, &paths)).map(|(at, _)| *at));
                    writes.push((at, paths));
                }
            }
            let state = if self.is_asking(&id) { Progress::Interrupted } else { Progress::Pending };
            calls.push(Planned { id, call, changed, tool, repeatable, begun: false, waits_for, state });
        }
        Ok(Turn {
            calls,
            running: JoinSet::new(),
            by_task: HashMap::new(),
            untaken: Vec::new(),
            outputs: HashMap::new(),
            taken: HashSet::new(),
            has_structured: false,
            spent: None,
            failed: None,
        })
    }

    /// Restores what an earlier process had finished of the turn.
    pub(super) fn restore_turn(&self, turn: &mut Turn, open: &Open) {
        let schema = self.state.schema();
        let changed = open.changed.iter().filter_map(|name| schema.by_name(name));
        turn.taken.extend(changed.filter(|spec| spec.concurrent() == Concurrent::Refuse).map(|spec| spec.name()));
        let format = self.shared.agent.format.as_ref();
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get_mut(at) else { continue };
            planned.begun = open.in_doubt.contains_key(&planned.id);
            let Some((message, added)) = open.finished.get(&planned.id) else { continue };
            let is_answer = format.is_some_and(|format| planned.is_answer(format, self.structured_by_tool));
            turn.has_structured |= !message.is_error && is_answer;
            planned.state = Progress::Finished { message: message.clone(), added: added.clone() };
            for other in &mut turn.calls {
                other.waits_for.remove(&at);
            }
        }
    }
}

/// Returns whether two writes touch the same path, or a path below one of the other's. A write without paths touches
/// everything.
fn overlap(a: &[String], b: &[String]) -> bool {
    let below = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || outer.ends_with('/'))
    };
    a.is_empty() || b.is_empty() || a.iter().any(|x| b.iter().any(|y| below(x, y) || below(y, x)))
}
