//! What is under way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind};

use super::transcript::{AgentWork, Call, Item, text_arg};
use crate::duration;
use crate::text::shorten;

/// Bytes of a command's output that are kept while it runs.
const OUTPUT: usize = 16 * 1024;
/// The tool that delegates.
const TASK: &str = "task";
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

/// A sub-agent at work.
#[derive(Clone, Debug)]
pub(crate) struct LiveAgent {
    pub(crate) work: AgentWork,
    pub(crate) since: Instant,
    /// What it says now.
    answer: String,
    /// The next try of a failed request of it.
    pub(crate) retry: Option<Retry>,
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

    /// What a sub-agent does.
    fn below(&mut self, event: &Event, now: Instant) -> Added {
        let path = event.path.to_vec();
        if !self.agents.contains_key(&path) {
            let task = self.task_of(&path);
            let earlier = self.earlier.remove(&path);
            let work = earlier.unwrap_or_else(|| AgentWork { task, ..AgentWork::default() });
            self.agents.insert(path.clone(), LiveAgent { work, since: now, answer: String::new(), retry: None });
        }
        match &event.kind {
            EventKind::ToolStarted { call, name, args, .. } => {
                let started = Call { name: name.clone(), args: args.clone(), ..Call::default() };
                self.calls.insert(call.clone(), RunningCall::new(started, now));
            }
            EventKind::ToolProgress { call, text } => self.progress(call, text),
            EventKind::ToolFinished { call, name, error, text, .. } => {
                let result = self.result(call, text, *error);
                let args = self.calls.remove(call).map(|running| running.call.args).unwrap_or_default();
                let done = Call { name: name.clone(), args, result, failed: *error, file: None };
                let item = self.finished(call, done, now);
                if let Some(agent) = self.agents.get_mut(&path) {
                    agent.work.calls += 1;
                    agent.work.items.push(item);
                }
            }
            kind => {
                if let Some(agent) = self.agents.get_mut(&path) {
                    agent.event(kind, now);
                }
            }
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

    /// Calls of a sub-agent that end with the one that runs it.
    fn cut_off(&mut self, path: &[String]) -> Vec<Item> {
        let calls = self.calls.extract_if(.., |id, _| id.path == path);
        calls.map(|(_, running)| Item::Call(Call { failed: true, ..running.call })).collect()
    }

    /// A call that has ended, with the work of the sub-agents that it ran.
    fn finished(&mut self, id: &CallId, call: Call, now: Instant) -> Item {
        if call.name != TASK {
            return Item::Call(call);
        }
        let own = format!("task:{}.{}", id.turn, id.index);
        let is_below = |path: &[String]| path.strip_prefix(id.path.as_slice()).and_then(<[_]>::first) == Some(&own);
        let path = self.agents.keys().find(|path| path.len() == id.path.len() + 1 && is_below(path)).cloned();
        let cut_off = path.as_ref().map(|path| self.cut_off(path)).unwrap_or_default();
        let agent = path.and_then(|path| self.agents.remove(&path));
        self.agents.retain(|path, _| !is_below(path));
        let elapsed = agent.as_ref().map(|agent| now.saturating_duration_since(agent.since));
        let mut work = agent.map(LiveAgent::finished).unwrap_or_default();
        work.items.extend(cut_off);
        if work.name.is_empty() {
            text_arg(&call.args, "subagent_type").clone_into(&mut work.name);
        }
        text_arg(&call.args, "description").clone_into(&mut work.task);
        (work.answer, work.failed, work.elapsed, work.is_open) = (call.result, call.failed, elapsed, false);
        Item::Agent(work)
    }

    /// What a sub-agent was given to do, as the call that runs it says.
    fn task_of(&self, path: &[String]) -> String {
        let Some((own, above)) = path.split_last() else { return String::new() };
        let is_it = |call: &CallId| call.path == above && *own == format!("task:{}.{}", call.turn, call.index);
        let call = self.calls.iter().find(|(call, _)| is_it(call));
        call.map(|(_, running)| text_arg(&running.call.args, "description").to_owned()).unwrap_or_default()
    }

    /// What the sub-agent at a place was given to do, or the one above it of which that is known.
    pub(crate) fn task_at(&self, path: &[String]) -> Option<&str> {
        let known = |path: &[String]| {
            let live = self.agents.get(path).map(|agent| &agent.work);
            let work = live.or_else(|| self.earlier.get(path))?;
            Some(work.task.as_str()).filter(|task| !task.is_empty())
        };
        (1..=path.len()).rev().find_map(|depth| known(path.get(..depth)?))
    }

    /// An answer of a sub-agent has cost so much.
    pub(crate) fn cost(&mut self, path: &[String], dollars: f64) {
        if let Some(agent) = self.agents.get_mut(path) {
            agent.work.dollars += dollars;
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

impl LiveAgent {
    fn event(&mut self, kind: &EventKind, now: Instant) {
        self.retry = Retry::of(kind, now);
        match kind {
            EventKind::AgentStarted { name } => self.work.name.clone_from(name),
            EventKind::TextDelta { text, .. } => self.answer.push_str(text),
            EventKind::AttemptDiscarded { .. } => self.answer.clear(),
            EventKind::ModelFinished { usage, .. } => {
                self.work.tokens = self.work.tokens.saturating_add(usage.total());
                let answer = std::mem::take(&mut self.answer);
                if !answer.trim().is_empty() {
                    self.work.items.push(Item::Answer(answer));
                }
            }
            EventKind::AgentFailed { error, .. } => {
                self.work.items.push(Item::Note { text: error.clone(), bad: true });
            }
            _ => {}
        }
    }

    /// What it has done, with what it was saying as it ended.
    fn finished(mut self) -> AgentWork {
        if !self.answer.trim().is_empty() {
            self.work.items.push(Item::Answer(self.answer));
        }
        self.work
    }

    /// The words that it has said last, as far as they are there.
    pub(crate) fn words(&self) -> &str {
        self.answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }
}
