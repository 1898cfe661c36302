//! The state of the current run.

mod agents;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind};

use super::transcript::{AgentWork, Call, Item};
use crate::duration;
use crate::text::shorten;

pub(crate) use agents::LiveAgent;

/// Maximum bytes of a command's output that are kept while it runs.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;
/// Maximum characters of the reason for a failed attempt.
const MAX_REASON_CHARS: usize = 300;

/// A running call.
#[derive(Clone, Debug)]
pub(crate) struct RunningCall {
    pub(crate) call: Call,
    pub(crate) since: Instant,
    /// Its result, until the calls before it have ended too.
    pub(crate) done: Option<Item>,
}

/// A pending retry of a failed request.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    at: Instant,
    /// Why the last attempt failed.
    reason: String,
    /// Whether the provider requested the delay.
    requested: bool,
}

impl Retry {
    /// Returns the retry that an event announces. Returns `None` if the model gives up.
    fn of(kind: &EventKind, now: Instant) -> Option<Self> {
        match kind {
            EventKind::AttemptDiscarded { reason, retry_after_ms, requested, again: true, .. } => Some(Self {
                at: now.checked_add(Duration::from_millis(*retry_after_ms))?,
                reason: reason.clone(),
                requested: *requested,
            }),
            _ => None,
        }
    }

    /// Describes the retry, the remaining delay and the reason.
    pub(crate) fn describe(&self, now: Instant) -> String {
        let left = duration::show(self.at.saturating_duration_since(now));
        let reason = shorten(&self.reason, MAX_REASON_CHARS);
        if self.requested {
            format!("the provider asks to wait {left}: {reason}")
        } else {
            format!("trying again in {left}: {reason}")
        }
    }
}

/// The state of the current run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// The answer so far.
    pub(crate) answer: String,
    /// What arrived of the answer before the request last failed.
    cut_answer: String,
    /// The thought so far.
    pub(crate) thinking: String,
    /// Running calls.
    pub(crate) calls: BTreeMap<CallId, RunningCall>,
    /// Sub-agents by path.
    pub(crate) agents: BTreeMap<Vec<String>, LiveAgent>,
    /// Earlier work of sub-agents that continue after a decision, by path.
    pub(crate) earlier: BTreeMap<Vec<String>, AgentWork>,
    /// A description of the current activity.
    pub(crate) activity: String,
    /// The pending retry of a failed request.
    pub(crate) retry: Option<Retry>,
    /// The last reason that was shown.
    shown_reason: String,
    /// Whether events were missed because the receiver lagged.
    pub(crate) lagged: bool,
    /// Whether the user has interrupted the run, so that its calls are cut off.
    pub(crate) interrupted: bool,
}

/// What an event adds to the conversation.
#[derive(Debug, Default)]
pub(crate) struct Added {
    pub(crate) items: Vec<Item>,
    /// Whether the displayed part of the current answer is discarded.
    pub(crate) discarded: bool,
}

impl Added {
    fn items(items: Vec<Item>) -> Self {
        Self { items, discarded: false }
    }
}

impl Live {
    /// Creates the initial state, with the earlier work of sub-agents.
    pub(crate) fn with_earlier_work(earlier: BTreeMap<Vec<String>, AgentWork>) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// Handles an event.
    pub(crate) fn event(&mut self, event: &Event, now: Instant) -> Added {
        let path = &*event.path;
        if !path.is_empty() {
            self.begin_agent(path, now);
        }
        match &event.kind {
            EventKind::ToolStarted { call, name, args, .. } => {
                let started = Call { name: name.clone(), args: args.clone(), ..Call::default() };
                self.calls.insert(call.clone(), RunningCall { call: started, since: now, done: None });
            }
            EventKind::ToolProgress { call, text } => self.progress(call, text),
            EventKind::ToolFinished { call: id, name, error, text, .. } => {
                let result = self.result(id, text, *error);
                let running = self.calls.remove(id).map(|running| running.call).unwrap_or_default();
                let call = Call { name: name.clone(), result, failed: *error, ..running };
                let item = self.finished(id, call, now);
                match self.agents.get_mut(path) {
                    Some(agent) => agent.finished_call(item),
                    None => return Added::items(self.in_order(id, item, now)),
                }
            }
            kind => match self.agents.get_mut(path) {
                Some(agent) => agent.event(kind, now),
                None => return self.main(kind, now),
            },
        }
        Added::default()
    }

    /// Handles an event of the main agent.
    fn main(&mut self, kind: &EventKind, now: Instant) -> Added {
        match kind {
            EventKind::ModelStarted { .. } => {
                self.retry = None;
                "waiting for the model".clone_into(&mut self.activity);
                return Added::items(self.take_held_calls());
            }
            EventKind::TextDelta { text, .. } => {
                self.retry = None;
                "answering".clone_into(&mut self.activity);
                self.answer.push_str(text);
                self.cut_answer.clear();
                // The thought ends when the answer begins.
                return Added::items(self.finish_thought().into_iter().collect());
            }
            EventKind::ReasoningDelta { text, .. } => {
                "thinking".clone_into(&mut self.activity);
                self.thinking.push_str(text);
            }
            EventKind::ToolCallDelta { name: Some(name), .. } => self.activity = format!("preparing {name}"),
            EventKind::ModelFinished { .. } => {
                self.retry = None;
                self.shown_reason.clear();
                self.cut_answer.clear();
                self.activity.clear();
                return Added::items(self.finish_answer());
            }
            EventKind::AttemptDiscarded { reason, retry_after_ms, requested, again, .. } => {
                let discarded = !self.answer.is_empty();
                if discarded {
                    self.cut_answer = std::mem::take(&mut self.answer);
                }
                self.thinking.clear();
                self.retry = Retry::of(kind, now);
                let mut items = Vec::new();
                // The end of the run reports the error of a model that gives up.
                if *again && self.shown_reason != *reason {
                    self.shown_reason.clone_from(reason);
                    let pause = duration::show(Duration::from_millis(*retry_after_ms));
                    let what = match requested {
                        true => format!("the provider asks to wait {pause} before trying again"),
                        false => "trying again".to_owned(),
                    };
                    let text = format!("{}; {what}", shorten(reason, MAX_REASON_CHARS));
                    items.push(Item::Note { text, bad: true });
                }
                return Added { items, discarded };
            }
            EventKind::Lagged { .. } => self.lagged = true,
            _ => {}
        }
        Added::default()
    }

    fn progress(&mut self, call: &CallId, text: &str) {
        if let Some(running) = self.calls.get_mut(call) {
            let output = &mut running.call.result;
            output.push_str(text);
            if output.len() > MAX_OUTPUT_BYTES {
                let from = (output.len() - MAX_OUTPUT_BYTES / 2..output.len()).find(|at| output.is_char_boundary(*at));
                output.drain(..from.unwrap_or(0));
            }
        }
    }

    /// Records a finished call. Returns the items that can be shown: a call is held back until the earlier calls of its
    /// turn have ended.
    fn in_order(&mut self, id: &CallId, item: Item, now: Instant) -> Vec<Item> {
        self.calls.insert(id.clone(), RunningCall { call: Call::default(), since: now, done: Some(item) });
        let mut items = Vec::new();
        while let Some(first) = self.calls.first_entry() {
            let is_of_turn = first.key().path.is_empty() && first.key().turn == id.turn;
            if !is_of_turn || first.get().done.is_none() {
                break;
            }
            items.extend(first.remove().done);
        }
        items
    }

    /// Takes the finished calls that wait for unfinished ones, in order.
    pub(crate) fn take_held_calls(&mut self) -> Vec<Item> {
        let held = self.calls.extract_if(.., |_, running| running.done.is_some());
        held.filter_map(|(_, running)| running.done).collect()
    }

    /// Returns the result of a call. If it was interrupted, the result includes all known output.
    fn result(&self, id: &CallId, text: &str, failed: bool) -> String {
        let shown = self.calls.get(id).map(|running| running.call.result.trim_end()).unwrap_or_default();
        if !self.interrupted || !failed || shown.is_empty() {
            return text.to_owned();
        }
        // The model gets the last part of the output, below a line that says why the call ended.
        let (head, told) = text.split_once('\n').unwrap_or((text, ""));
        let last = shown.lines().next_back().unwrap_or_default();
        match shown.ends_with(told.trim_end()) {
            true => format!("{head}\n{shown}"),
            false if text.contains(last) => text.to_owned(),
            false => format!("{}\n{shown}", text.trim_end()),
        }
    }

    /// Takes the current thought and answer as finished.
    pub(crate) fn finish_answer(&mut self) -> Vec<Item> {
        let (thought, answer) = (self.finish_thought(), std::mem::take(&mut self.answer));
        let answer = (!answer.trim().is_empty()).then_some(Item::Answer(answer));
        thought.into_iter().chain(answer).collect()
    }

    fn finish_thought(&mut self) -> Option<Item> {
        let thought = std::mem::take(&mut self.thinking);
        (!thought.trim().is_empty()).then_some(Item::Thinking(thought))
    }

    /// Takes everything left when a run has ended. Unfinished calls count as failed.
    pub(crate) fn finish(&mut self) -> Vec<Item> {
        let mut items = self.finish_answer();
        // No later attempt has repeated it.
        let cut = std::mem::take(&mut self.cut_answer);
        items.extend((!cut.trim().is_empty()).then_some(Item::CutAnswer(cut)));
        let calls = std::mem::take(self).calls.into_iter().filter(|(id, _)| id.path.is_empty());
        items.extend(calls.map(|(_, RunningCall { call, done, .. })| {
            done.unwrap_or_else(|| Item::Call(Call { failed: true, ..call }))
        }));
        items
    }
}
