//! What is under way.

mod agents;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind};

use super::transcript::{AgentWork, Call, Item};
use crate::duration;
use crate::text::shorten;

pub(crate) use agents::LiveAgent;

/// Bytes of a command's output that are kept while it runs.
const OUTPUT: usize = 16 * 1024;
/// Characters of why a try failed that are shown.
const REASON: usize = 300;

/// A call that has begun.
#[derive(Clone, Debug)]
pub(crate) struct RunningCall {
    pub(crate) call: Call,
    pub(crate) since: Instant,
    /// What came of it, until the calls before it have ended too.
    pub(crate) done: Option<Item>,
}

impl RunningCall {
    fn new(call: Call, since: Instant) -> Self {
        Self { call, since, done: None }
    }
}

/// A request that failed is made again.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    at: Instant,
    /// Why the last try failed.
    reason: String,
    /// Whether the provider has asked for the pause.
    requested: bool,
}

impl Retry {
    /// That of an event, unless the model does not try again.
    fn of(kind: &EventKind, now: Instant) -> Option<Self> {
        match kind {
            EventKind::AttemptDiscarded { reason, retry_after_ms, requested, again: true, .. } => Some(Self {
                at: now + Duration::from_millis(*retry_after_ms),
                reason: reason.clone(),
                requested: *requested,
            }),
            _ => None,
        }
    }

    /// What is waited for, how long from now on, and why.
    pub(crate) fn words(&self, now: Instant) -> String {
        let left = duration::show(self.at.saturating_duration_since(now));
        let reason = shorten(&self.reason, REASON);
        if self.requested {
            format!("the provider asks to wait {left}: {reason}")
        } else {
            format!("trying again in {left}: {reason}")
        }
    }
}

/// What a run does now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// The answer that comes.
    pub(crate) answer: String,
    /// The thought that comes.
    pub(crate) thinking: String,
    /// Calls that have begun.
    pub(crate) calls: BTreeMap<CallId, RunningCall>,
    /// Sub-agents by their paths.
    pub(crate) agents: BTreeMap<Vec<String>, LiveAgent>,
    /// What sub-agents had done that go on once something is decided.
    pub(crate) earlier: BTreeMap<Vec<String>, AgentWork>,
    /// What is waited for, in words.
    pub(crate) activity: String,
    /// The next try of a failed request.
    pub(crate) retry: Option<Retry>,
    /// The last reason that was told.
    told: String,
    /// Whether pieces of answers were missed.
    pub(crate) lagged: bool,
    /// Whether the person has ended the run, so that calls end where they are.
    pub(crate) interrupted: bool,
}

/// What an event adds to the conversation.
#[derive(Debug, Default)]
pub(crate) struct Added {
    pub(crate) items: Vec<Item>,
    /// Whether what was shown of the present answer is void.
    pub(crate) discarded: bool,
}

impl Added {
    fn items(items: Vec<Item>) -> Self {
        Self { items, discarded: false }
    }
}

impl Live {
    /// Nothing yet, with sub-agents that have done something before.
    pub(crate) fn going_on(earlier: BTreeMap<Vec<String>, AgentWork>) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// Takes an event in.
    pub(crate) fn event(&mut self, event: &Event, now: Instant) -> Added {
        if event.path.is_empty() { self.main(event, now) } else { self.below(event, now) }
    }

    fn main(&mut self, event: &Event, now: Instant) -> Added {
        match &event.kind {
            EventKind::ModelStarted { .. } => {
                self.retry = None;
                "waiting for the model".clone_into(&mut self.activity);
                return Added::items(self.held_back());
            }
            EventKind::TextDelta { text, .. } => {
                self.retry = None;
                "answering".clone_into(&mut self.activity);
                self.answer.push_str(text);
                // The thought is finished once the answer begins.
                let thinking = std::mem::take(&mut self.thinking);
                if !thinking.trim().is_empty() {
                    return Added::items(vec![Item::Thinking(thinking)]);
                }
            }
            EventKind::ReasoningDelta { text, .. } => {
                "thinking".clone_into(&mut self.activity);
                self.thinking.push_str(text);
            }
            EventKind::ToolCallDelta { name: Some(name), .. } => self.activity = format!("preparing {name}"),
            EventKind::ModelFinished { .. } => {
                self.retry = None;
                self.told.clear();
                self.activity.clear();
                return Added::items(self.finish_answer());
            }
            EventKind::AttemptDiscarded { reason, retry_after_ms, requested, again, .. } => {
                let discarded = !self.answer.is_empty();
                (self.answer, self.thinking) = (String::new(), String::new());
                if !again {
                    // What ended the run is told with its end.
                    self.retry = None;
                    return Added { items: Vec::new(), discarded };
                }
                self.retry = Retry::of(&event.kind, now);
                let mut items = Vec::new();
                if self.told != *reason {
                    self.told.clone_from(reason);
                    let pause = duration::show(Duration::from_millis(*retry_after_ms));
                    let what = if *requested {
                        format!("the provider asks to wait {pause}, then it is tried again")
                    } else {
                        "trying again".to_owned()
                    };
                    items.push(Item::Note { text: format!("{}; {what}", shorten(reason, REASON)), bad: true });
                }
                return Added { items, discarded };
            }
            EventKind::ToolStarted { call, name, args, .. } => {
                let started = Call { name: name.clone(), args: args.clone(), ..Call::default() };
                self.calls.insert(call.clone(), RunningCall::new(started, now));
            }
            EventKind::ToolProgress { call, text } => self.progress(call, text),
            EventKind::ToolFinished { call, name, error, text, .. } => {
                let file = self.calls.get(call).and_then(|running| running.call.file.clone());
                let result = self.result(call, text, *error);
                let args = self.calls.remove(call).map(|running| running.call.args).unwrap_or_default();
                let call_item = Call { name: name.clone(), args, result, failed: *error, file };
                let item = self.finished(call, call_item, now);
                return Added::items(self.in_order(call, item, now));
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
            if output.len() > OUTPUT {
                let from = (output.len() - OUTPUT / 2..output.len()).find(|at| output.is_char_boundary(*at));
                output.drain(..from.unwrap_or(0));
            }
        }
    }

    /// What can be shown once a call has ended: it waits for the calls of its turn before it, and those after it for it.
    fn in_order(&mut self, id: &CallId, item: Item, now: Instant) -> Vec<Item> {
        let done = RunningCall { done: Some(item), ..RunningCall::new(Call::default(), now) };
        self.calls.insert(id.clone(), done);
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

    /// What waits for calls that have not ended, in order.
    pub(crate) fn held_back(&mut self) -> Vec<Item> {
        let held = self.calls.extract_if(.., |_, running| running.done.is_some());
        held.filter_map(|(_, running)| running.done).collect()
    }

    /// What a call came to; where it was interrupted also all that is known of what it had put out until then.
    fn result(&self, id: &CallId, text: &str, failed: bool) -> String {
        let shown = self.calls.get(id).map(|running| running.call.result.trim_end()).unwrap_or_default();
        if !self.interrupted || !failed || shown.is_empty() {
            return text.to_owned();
        }
        // The end of it, below a line that says why the call ended, is what the model is told.
        let (head, told) = text.split_once('\n').unwrap_or((text, ""));
        let last = shown.lines().next_back().unwrap_or_default();
        match shown.ends_with(told.trim_end()) {
            true => format!("{head}\n{shown}"),
            false if text.contains(last) => text.to_owned(),
            false => format!("{}\n{shown}", text.trim_end()),
        }
    }

    /// The present thought and answer, finished.
    pub(crate) fn finish_answer(&mut self) -> Vec<Item> {
        let (thinking, answer) = (std::mem::take(&mut self.thinking), std::mem::take(&mut self.answer));
        let mut items = Vec::new();
        if !thinking.trim().is_empty() {
            items.push(Item::Thinking(thinking));
        }
        if !answer.trim().is_empty() {
            items.push(Item::Answer(answer));
        }
        items
    }

    /// Everything that is left when a run has ended: what was begun and came to nothing.
    pub(crate) fn finish(&mut self) -> Vec<Item> {
        let mut items = self.finish_answer();
        let calls = std::mem::take(&mut self.calls);
        items.extend(calls.into_iter().filter(|(id, _)| id.path.is_empty()).map(|(_, running)| {
            let mut call = running.call;
            call.failed = true;
            running.done.unwrap_or(Item::Call(call))
        }));
        *self = Self::default();
        items
    }
}
