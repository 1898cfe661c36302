//! Converting log records to events: messages, calls, states and checkpoints.

use std::sync::Arc;

use deepagents_core::interrupt::{ActionRequests, Decision};
use deepagents_core::journal::{Record, RecordUpdate};
use deepagents_core::message::{AssistantMessage, Message, MessageOp, ToolMessage};
use deepagents_core::run::{Machine, NextStep};
use deepagents_core::state::{MessagesChannel, Update};
use deepagents_core::tool::CallId;
use serde_json::Value;

use super::Projector;
use crate::error::Result;
use crate::runs::LiveRun;
use crate::stream::checkpoint::{ReachedCheckpoint, next_tasks, start_task};
use crate::stream::event::{Kind, RunEnd};
use crate::stream::task::{Changes, TaskEnd};
use crate::wire::open_interrupts;

/// The node that interrupts before calls, as named by the LangGraph server.
const ASKS: &str = "HumanInTheLoopMiddleware.after_model";

impl Projector {
    pub(super) fn record(&mut self, path: &[String], record: Record) -> Result<()> {
        match record {
            Record::AgentStarted { agent, call, .. } => self.agent_started(path, &agent, call),
            Record::RunStarted { .. } => {
                if let Some(state) = self.replay.agent_state(path).cloned() {
                    self.view(path).checkpoints.begin(state);
                }
            }
            Record::RunResumed { .. } => self.resumed(path),
            Record::StateUpdated { update, .. } => {
                let position = self.replay.position();
                self.view(path).checkpoints.updated(position);
                self.updated(path, update)?;
            }
            Record::Update { update } => self.updated(path, update)?,
            Record::ToolStarted { call, provider_call_id, name, args, .. } => {
                self.calls.insert(call.clone(), provider_call_id.clone());
                let input = args.unwrap_or_else(|| self.input_of(path, &provider_call_id));
                self.call_begins(path, &call, &provider_call_id, &name, &input);
                self.push(path, Kind::ToolStarted { call, id: provider_call_id, name, input });
            }
            Record::ToolFinished { call, message, update } => {
                let update = self.resolve(update)?;
                self.tool_finished(path, &call, &message, &update);
            }
            Record::ToolsCommitted { .. } => self.view(path).changed = true,
            Record::Rewind { .. } => {
                let position = self.replay.position();
                if path.is_empty() {
                    self.asked = open_interrupts(&self.run.thread, self.replay.state());
                }
                let view = self.view(path);
                view.changed = true;
                view.checkpoints.rewound(position);
            }
            Record::Step { machine, .. } => {
                self.view(path).step += 1;
                self.view(path).is_new_turn = false;
                if self.view(path).changed {
                    self.show_values(path, Vec::new());
                }
                self.checkpoint(path, &machine);
                if goes_to_model(&machine) {
                    self.model_begins(path);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles a change of an agent's state.
    fn updated(&mut self, path: &[String], update: RecordUpdate) -> Result<()> {
        let update = self.resolve(update)?;
        self.view(path).changed = true;
        for message in put(&update) {
            match &*message {
                Message::Assistant(answer) => self.answered(path, answer),
                Message::Tool(result) => self.result_added(path, result),
                _ => {}
            }
        }
        Ok(())
    }

    fn resolve(&self, update: RecordUpdate) -> Result<Update> {
        Ok(update.resolve(self.replay.state().schema())?)
    }

    /// Handles the start of a sub-agent.
    fn agent_started(&mut self, path: &[String], name: &str, call: Option<CallId>) {
        self.name(path, name);
        let id = call.as_ref().and_then(|call| self.calls.get(call).cloned());
        let view = self.view(path);
        (view.call, view.changed) = (call, true);
        self.push(path, Kind::AgentStarted { call: id });
    }

    /// Handles a resumed agent. A sub-agent started in an earlier run, so the records of this run do not contain its
    /// start.
    fn resumed(&mut self, path: &[String]) {
        if path.is_empty() {
            self.main_agent_resumed();
            if self.replay.machine().is_some_and(goes_to_model) {
                self.model_begins(path);
            }
        } else if self.view(path).info.name.is_none()
            && let Some((name, call)) = self.replay.sub_agent(path)
        {
            let (name, call) = (name.to_owned(), call.cloned());
            self.name(path, &name);
            let id = call.as_ref().and_then(|call| self.calls.get(call).cloned());
            self.view(path).call = call;
            self.push(path, Kind::AgentStarted { call: id });
        }
    }

    /// Handles a resumed main agent: shows its last checkpoint with the interrupts pending there.
    fn main_agent_resumed(&mut self) {
        let Some(at) = self.view(&[]).checkpoints.last() else { return };
        let (step, identity) = (self.view(&[]).step, &self.run.identity);
        let (state, Some(machine)) = (self.replay.state(), self.replay.machine()) else { return };
        let tasks = next_tasks(identity, (&[], step), state, machine, &self.asked);
        let state = state.clone();
        self.push(&[], Kind::Checkpoint(ReachedCheckpoint { at, state, tasks }));
    }

    /// Shows the current state of an agent.
    pub(super) fn show_values(&mut self, path: &[String], interrupts: Vec<Value>) {
        let Some(state) = self.replay.agent_state(path).cloned() else { return };
        self.view(path).changed = false;
        self.push(path, Kind::Values { state, interrupts });
    }

    /// Handles an assistant message that was added to the conversation.
    fn answered(&mut self, path: &[String], answer: &AssistantMessage) {
        let view = self.view(path);
        let mut open = std::mem::take(&mut view.answer);
        view.answered.clone_from(&answer.id);
        view.is_new_turn = true;
        if let Some(origin) = answer.origin.as_ref().filter(|_| view.info.model.is_empty()) {
            Arc::make_mut(&mut view.info).model = format!("{}:{}", origin.provider, origin.model);
        }
        let task = self.model_begins(path);
        self.view(path).asked = None;
        for kind in open.finish(answer) {
            match kind {
                Some(kind) => self.push(path, kind),
                None => self.numbers.record += 1,
            }
        }
        let changes = Arc::new(Changes { message: Message::Assistant(answer.clone()), channels: None });
        self.view(path).tasks.retain(|open| open.id != task.id);
        self.push(path, Kind::TaskFinished { task, end: TaskEnd::Done(changes.clone()) });
        self.push(path, Kind::Updated { node: "model", changes });
    }

    /// Returns the arguments of a call from the conversation.
    fn input_of(&self, path: &[String], id: &str) -> Value {
        let Some(state) = self.replay.agent_state(path) else { return Value::Null };
        let answers = state.messages().iter().rev().filter_map(|message| message.as_assistant());
        let args = answers.flat_map(AssistantMessage::tool_calls).find(|call| call.id == id);
        args.map_or(Value::Null, |call| call.args.clone())
    }

    /// Handles a result that no call returned: of a middleware, or one which says that the call was not made. Results
    /// that a client sent are not shown to it.
    fn result_added(&mut self, path: &[String], result: &ToolMessage) {
        // A resumed run adds what its client sent beside what its middlewares add.
        let sends = |run: &LiveRun| path.is_empty() && run.record().kwargs.sends_result(&result.call_id);
        let is_sent = !result.is_synthetic && (self.view(path).checkpoints.has_begun() || sends(&self.run));
        if is_sent || !self.results.insert(result.id.clone()) {
            return;
        }
        let Some(call) = self.call_answered_by(path, result) else { return };
        let result = Arc::new(result.clone());
        self.push(path, Kind::ToolFinished { call, message: result.clone() });
        let changes = Arc::new(Changes { message: Message::Tool((*result).clone()), channels: None });
        self.push(path, Kind::Updated { node: "tools", changes });
    }

    /// Finds the call that a result answers: one of the answer before it. Reads only the messages from that answer on.
    fn call_answered_by(&self, path: &[String], result: &ToolMessage) -> Option<CallId> {
        let mut newest_first = self.replay.agent_state(path)?.messages().iter().rev();
        newest_first.find(|message| message.id() == result.id)?;
        let answer = newest_first.find_map(|message| message.as_assistant())?;
        let index = answer.call_ids().position(|id| id == result.call_id)?;
        // The turn of an answer that came since the last step is not counted yet.
        let is_new = self.agents.get(path).is_some_and(|view| view.is_new_turn);
        let turn = self.replay.turns(path).saturating_sub(u32::from(!is_new));
        Some(CallId { path: path.to_vec(), turn, index: u32::try_from(index).ok()? })
    }

    fn tool_finished(&mut self, path: &[String], call: &CallId, result: &Arc<ToolMessage>, update: &Update) {
        self.results.insert(result.id.clone());
        let failed = || RunEnd::Failed(text_of(result));
        let end = if result.is_error { failed() } else { RunEnd::Completed };
        let ended = self.agents.iter().filter(|(_, view)| view.call.as_ref() == Some(call));
        let ended: Vec<Vec<String>> = ended.map(|(path, _)| path.clone()).collect();
        for below in ended {
            self.view(&below).call = None;
            self.push(&below, Kind::AgentEnded(end.clone()));
        }
        self.push(path, Kind::ToolFinished { call: call.clone(), message: result.clone() });
        let own = update.entries().iter().map(|entry| entry.spec());
        let own = own.filter(|spec| !spec.is_private() && !spec.is::<MessagesChannel>());
        let changed: Vec<&'static str> = own.map(|spec| spec.name()).collect();
        let state = self.replay.agent_state(path).cloned();
        let channels = state.filter(|_| !changed.is_empty()).map(|state| (state, changed));
        let changes = Arc::new(Changes { message: Message::Tool((**result).clone()), channels });
        let tasks = &mut self.view(path).tasks;
        // A call that was answered without being executed had no task.
        if let Some(at) = tasks.iter().position(|open| open.call.as_ref() == Some(call)) {
            let task = tasks.remove(at);
            self.push(path, Kind::TaskFinished { task, end: TaskEnd::Done(changes.clone()) });
        }
        let node = if self.is_answered_by_person(path, call) { ASKS } else { "tools" };
        self.push(path, Kind::Updated { node, changes });
    }

    /// Whether the result of a call comes from a person's decision and not from the tool.
    fn is_answered_by_person(&self, path: &[String], call: &CallId) -> bool {
        let asked = self.replay.agent_state(path).and_then(|state| state.get::<ActionRequests>());
        let review = asked.and_then(|asked| asked.get(&call.to_string()));
        let decision = review.and_then(|review| review.decision.as_ref()).map(|decided| &decided.decision);
        matches!(decision, Some(Decision::Reject { .. } | Decision::Respond { .. }))
    }

    fn checkpoint(&mut self, path: &[String], machine: &Machine) {
        let Some(state) = self.replay.agent_state(path).cloned() else { return };
        let position = self.replay.position();
        let view = self.view(path);
        let step = view.step;
        let (input, at) = view.checkpoints.stepped(position);
        let identity = &self.run.identity;
        let tasks = next_tasks(identity, (path, step), &state, machine, &[]);
        if let Some((at, before)) = input {
            let tasks = vec![start_task(identity, at)];
            self.push(path, Kind::Checkpoint(ReachedCheckpoint { at, state: before, tasks }));
        }
        self.push(path, Kind::Checkpoint(ReachedCheckpoint { at, state, tasks }));
    }
}

/// Whether the next step is a model call.
fn goes_to_model(machine: &Machine) -> bool {
    matches!(machine.next(), NextStep::BeforeAgent | NextStep::BeforeModel | NextStep::Model { .. })
}

fn text_of(result: &ToolMessage) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        deepagents_core::message::Block::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn put(update: &Update) -> Vec<Arc<Message>> {
    let put = update.get::<MessagesChannel>().flatten().filter_map(|op| match op {
        MessageOp::Put(message) => Some(message.clone()),
        _ => None,
    });
    put.collect()
}
