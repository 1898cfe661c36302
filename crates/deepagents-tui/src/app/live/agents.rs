//! Running sub-agents.

use std::time::Instant;

use deepagents::EventKind;
use deepagents::core::tool::CallId;

use super::super::transcript::{AgentWork, Call, Item, text_arg};
use super::{Live, Retry};

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
    /// Adds the sub-agent at a path, unless it is known. One that continues after a decision has its earlier work.
    pub(super) fn begin_agent(&mut self, path: &[String], now: Instant) {
        if !self.agents.contains_key(path) {
            let earlier = self.earlier.remove(path);
            let work = earlier.unwrap_or_else(|| AgentWork { task: self.task_of(path), ..AgentWork::default() });
            self.agents.insert(path.to_vec(), LiveAgent { work, since: now, answer: String::new(), retry: None });
        }
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
        let path = id.child_path(TASK);
        let agent = self.agents.remove(&path);
        let cut_off = if agent.is_some() { self.cut_off(&path) } else { Vec::new() };
        self.agents.retain(|other, _| !other.starts_with(&path));
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
        let call = self.calls.iter().find(|(call, _)| call.child_path(TASK) == path);
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
    pub(super) fn finished_call(&mut self, item: Item) {
        self.work.calls += 1;
        self.work.items.push(item);
    }

    pub(super) fn event(&mut self, kind: &EventKind, now: Instant) {
        self.retry = Retry::of(kind, now);
        match kind {
            EventKind::AgentStarted { name } => self.work.name.clone_from(name),
            EventKind::TextDelta { text, .. } => self.answer.push_str(text),
            EventKind::AttemptDiscarded { .. } => self.answer.clear(),
            EventKind::ModelFinished { usage, .. } => {
                self.work.tokens = self.work.tokens.saturating_add(usage.total());
                self.finish_answer();
            }
            EventKind::AgentFailed { error, .. } => {
                self.work.items.push(Item::Note { text: error.clone(), bad: true });
            }
            _ => {}
        }
    }

    /// Takes the current answer as finished.
    fn finish_answer(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        if !answer.trim().is_empty() {
            self.work.items.push(Item::Answer(answer));
        }
    }

    /// Returns the work, with an unfinished answer.
    fn finished(mut self) -> AgentWork {
        self.finish_answer();
        self.work
    }

    /// Returns the last line of the current answer.
    pub(crate) fn last_line(&self) -> &str {
        self.answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }
}
