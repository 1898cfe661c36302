//! Running sub-agents.

use std::time::Instant;

use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind};

use super::super::transcript::{AgentWork, Call, Item, text_arg};
use super::{Added, Live, Retry, RunningCall};

/// The tool that starts sub-agents.
const TASK: &str = "task";

/// A running sub-agent.
#[derive(Clone, Debug)]
pub(crate) struct LiveAgent {
    pub(crate) work: AgentWork,
    pub(crate) since: Instant,
    /// Its current answer.
    answer: String,
    /// The pending retry of its failed request.
    pub(crate) retry: Option<Retry>,
}

impl Live {
    /// Handles an event of a sub-agent.
    pub(super) fn below(&mut self, event: &Event, now: Instant) -> Added {
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

    /// Takes the unfinished calls of a sub-agent whose own call has ended.
    fn cut_off(&mut self, path: &[String]) -> Vec<Item> {
        let calls = self.calls.extract_if(.., |id, _| id.path == path);
        calls.map(|(_, running)| Item::Call(Call { failed: true, ..running.call })).collect()
    }

    /// Converts a finished call to an item, with the work of the sub-agent that it ran.
    pub(super) fn finished(&mut self, id: &CallId, call: Call, now: Instant) -> Item {
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

    /// Returns the task of a sub-agent, from the call that runs it.
    fn task_of(&self, path: &[String]) -> String {
        let Some((own, above)) = path.split_last() else { return String::new() };
        let is_it = |call: &CallId| call.path == above && *own == format!("task:{}.{}", call.turn, call.index);
        let call = self.calls.iter().find(|(call, _)| is_it(call));
        call.map(|(_, running)| text_arg(&running.call.args, "description").to_owned()).unwrap_or_default()
    }

    /// Returns the task of the sub-agent at this path, or of its nearest ancestor with a known task.
    pub(crate) fn task_at(&self, path: &[String]) -> Option<&str> {
        let known = |path: &[String]| {
            let live = self.agents.get(path).map(|agent| &agent.work);
            let work = live.or_else(|| self.earlier.get(path))?;
            Some(work.task.as_str()).filter(|task| !task.is_empty())
        };
        (1..=path.len()).rev().find_map(|depth| known(path.get(..depth)?))
    }

    /// Adds the cost of an answer to its sub-agent.
    pub(crate) fn cost(&mut self, path: &[String], dollars: f64) {
        if let Some(agent) = self.agents.get_mut(path) {
            agent.work.dollars += dollars;
        }
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

    /// Returns the work, with an unfinished answer.
    fn finished(mut self) -> AgentWork {
        if !self.answer.trim().is_empty() {
            self.work.items.push(Item::Answer(self.answer));
        }
        self.work
    }

    /// Returns the last line of the current answer.
    pub(crate) fn last_line(&self) -> &str {
        self.answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }
}
