//! The start and end of a run's tasks: model calls and tool calls.

use deepagents_core::tool::CallId;
use serde_json::{Value, json};

use super::Projector;
use crate::stream::event::Kind;
use crate::stream::task::{Task, TaskEnd, TaskInput};

impl Projector {
    /// Starts a model task, at most once per turn, and returns it.
    pub(super) fn model_begins(&mut self, path: &[String]) -> Task {
        let view = self.view(path);
        let turn = view.asked.unwrap_or_else(|| u32::try_from(view.step).unwrap_or(u32::MAX));
        let is_new = view.asked.replace(turn).is_none();
        let step = view.checkpoints.step();
        let task = Task::model(&self.run.identity, path, turn, step);
        if is_new && let Some(state) = self.replay.agent_state(path).cloned() {
            self.view(path).tasks.push(task.clone());
            self.push(path, Kind::TaskStarted { task: task.clone(), input: TaskInput::State(state) });
        }
        task
    }

    /// Starts the task of a tool call.
    pub(super) fn call_begins(&mut self, path: &[String], call: &CallId, id: &str, name: &str, args: &Value) {
        let step = self.view(path).checkpoints.step();
        let task = Task::call(&self.run.identity, call, step);
        // A call repeated after a crash has started already.
        if self.view(path).tasks.iter().any(|open| open.id == task.id) {
            return;
        }
        let input = json!({"name": name, "args": args, "id": id, "type": "tool_call"});
        self.view(path).tasks.push(task.clone());
        self.push(path, Kind::TaskStarted { task, input: TaskInput::Call(input) });
    }

    /// Ends the unfinished tasks for which `end` returns a result, those of the deepest agents first.
    pub(super) fn end_tasks(&mut self, end: impl Fn(&Task) -> Option<TaskEnd>) {
        let mut open: Vec<Vec<String>> = self.agents.keys().cloned().collect();
        open.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        for path in open {
            for task in std::mem::take(&mut self.view(&path).tasks) {
                match end(&task) {
                    Some(end) => self.push(&path, Kind::TaskFinished { task, end }),
                    None => self.view(&path).tasks.push(task),
                }
            }
        }
    }
}
