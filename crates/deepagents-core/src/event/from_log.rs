//! Derives events from a thread's log, for readers without a handle of its run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{EVENT_VERSION, Event, EventKind};
use crate::env::Timestamp;
use crate::ids::LogPosition;
use crate::interrupt::{
    ActionRequest, ActionRequestChange, ActionRequests, ActionReview, EditedAction, open_questions,
};
use crate::journal::{LogEntry, Record, RecordUpdate, Replay};
use crate::machine::{BudgetUsage, Machine};
use crate::message::{Author, Block, Message, MessageOp, Usage};
use crate::model::StopReason;
use crate::state::{ChannelError, MessagesChannel, Schema, Update};
use crate::status::FinishReason;

/// Derives a thread's durable events from its records.
pub(crate) struct LogEvents {
    thread: String,
    schema: Arc<Schema>,
    run: Arc<str>,
    attempt: u32,
    /// The sequence number of the next event.
    next: u64,
    agents: BTreeMap<Vec<String>, AgentEvents>,
    /// Edits by people of the calls of the latest answers.
    edited: BTreeMap<String, EditedAction>,
}

/// What is known of an agent of the run.
#[derive(Default)]
struct AgentEvents {
    name: Option<String>,
    /// Number of its answers so far.
    turn: u32,
    /// Arguments of the calls of its last answer, by index.
    args: BTreeMap<u32, Value>,
    /// Whether it has completed a step of its run. User messages after that were sent while it was running.
    stepped: bool,
    /// Number of answers, and tokens, of its run.
    model_calls: u32,
    usage: Usage,
    /// What its run had spent, as far as recorded, now and at the start of this part of the run.
    spent: BudgetUsage,
    spent_before: BudgetUsage,
    asked: BTreeMap<String, ActionRequest>,
    /// Decisions with which the run is about to be resumed.
    decided: Vec<EventKind>,
}

impl LogEvents {
    /// Starts after a position of a thread.
    pub(crate) fn after(thread: &str, replay: Replay) -> Self {
        let schema = replay.state.schema().clone();
        let mut main = AgentEvents { turn: replay.turns, stepped: replay.machine.is_some(), ..AgentEvents::default() };
        main.note_step(replay.machine.as_ref());
        let messages = replay.state.messages();
        if let Some(answer) = messages.last_assistant().and_then(|at| messages.get(at)) {
            main.read_calls(answer);
        }
        let asked = replay.state.get::<ActionRequests>().into_iter().flatten();
        let edit = |asked: &ActionReview| asked.decision.as_ref()?.decision.edited_action().cloned();
        let edited = asked.filter_map(|(id, asked)| Some((id.clone(), edit(asked)?))).collect();
        main.asked = open_questions(&replay.state).map(|question| (question.id.clone(), question.clone())).collect();
        let (run, attempt) = replay.run.map_or_else(Default::default, |run| (run.run, run.attempt));
        let mut events = Self {
            thread: thread.to_owned(),
            schema,
            run: run.into(),
            attempt,
            next: 0,
            agents: BTreeMap::from([(Vec::new(), main)]),
            edited,
        };
        for child in replay.children.into_values() {
            for record in child.into_records() {
                // Records before the position update the state but emit no events.
                let _ = events.kinds(record);
            }
        }
        events
    }

    /// Returns the events of an entry, in order.
    pub(crate) fn of(&mut self, entry: LogEntry) -> Result<Vec<Event>, ChannelError> {
        let (position, at) = (entry.position + 1, entry.at);
        let kinds = self.kinds(entry.record)?;
        Ok(kinds.into_iter().map(|(path, kind)| self.event(path, at, position, kind)).collect())
    }

    fn event(&mut self, path: Vec<String>, at: Timestamp, position: LogPosition, kind: EventKind) -> Event {
        let seq = self.next;
        self.next += 1;
        let (run, attempt) = (self.run.clone(), self.attempt);
        Event { v: EVENT_VERSION, seq, run, path: path.into(), at, attempt, position: Some(position), kind }
    }

    fn kinds(&mut self, record: Record) -> Result<Vec<(Vec<String>, EventKind)>, ChannelError> {
        let (path, record) = match record {
            Record::Child { path, entry } => (path, *entry),
            own => (Vec::new(), own),
        };
        let is_main = path.is_empty();
        if is_main {
            match &record {
                Record::RunStarted { run, .. } => (self.run, self.attempt) = (run.as_str().into(), 0),
                Record::RunResumed { run, .. } => (self.run, self.attempt) = (run.as_str().into(), self.attempt + 1),
                _ => {}
            }
        }
        if matches!(record, Record::RunStarted { .. } | Record::ToolsCommitted { .. }) {
            // The calls before it have ended, and with them the sub-agents that they ran.
            self.agents.retain(|other, _| other.len() <= path.len() || !other.starts_with(&path));
        }
        let agent = self.agents.entry(path.clone()).or_default();
        let mut kinds = Vec::new();
        match record {
            Record::AgentStarted { agent: name, .. } => agent.name = Some(name),
            Record::RunStarted { .. } | Record::RunResumed { .. } => {
                // A resumed run already has its input, and its earlier answers count.
                if matches!(record, Record::RunStarted { .. }) {
                    (agent.stepped, agent.model_calls, agent.spent) = (false, 0, BudgetUsage::default());
                }
                (agent.usage, agent.spent_before) = (Usage::default(), agent.spent);
                if is_main {
                    kinds.push(EventKind::RunStarted { thread: Some(self.thread.clone()) });
                }
                kinds.extend(agent.name.clone().map(|name| EventKind::AgentStarted { name }));
                let decided = std::mem::take(&mut agent.decided);
                // The main agent reports the decisions of all agents.
                kinds.extend(decided.into_iter().filter(|_| is_main));
            }
            // All these calls have results.
            Record::ToolsCommitted { .. } if is_main => self.edited.clear(),
            Record::Step { machine, .. } => {
                (agent.stepped, agent.turn) = (true, machine.turn());
                agent.note_step(Some(&machine));
            }
            Record::Update { update } | Record::StateUpdated { update, .. } => {
                kinds = agent.updated(update, &self.schema, &mut self.edited)?;
            }
            Record::ToolStarted { call, provider_call_id: id, name, args, .. } => {
                let own = || agent.args.get(&call.index).cloned().unwrap_or_default();
                let (name, args) = match self.edited.get(&call.to_string()) {
                    Some(edited) => (edited.name.clone(), edited.args.clone()),
                    None => (name, args.unwrap_or_else(own)),
                };
                kinds.push(EventKind::ToolStarted { call, id, name, args });
            }
            Record::ToolFinished { call, message, update } => {
                kinds = agent.updated(update, &self.schema, &mut self.edited)?;
                kinds.retain(|kind| matches!(kind, EventKind::StateChanged { .. }));
                kinds.push(EventKind::tool_finished(call, &message));
            }
            Record::RunFinished { stop, .. } => kinds = agent.ended(stop, is_main),
            _ => {}
        }
        Ok(kinds.into_iter().map(|kind| (path.clone(), kind)).collect())
    }
}

impl AgentEvents {
    /// Records what a step says was spent.
    fn note_step(&mut self, step: Option<&Machine>) {
        if let Some(budget_state) = step.and_then(Machine::budget_state) {
            self.spent = budget_state.spent;
        }
    }

    /// Returns what this part of its run has used: the tokens of its answers, or, if recorded, those including
    /// sub-agents and model calls outside the conversation.
    fn reported_usage(&self) -> Usage {
        let kept = self.spent.since(&self.spent_before).usage;
        if kept.total() > self.usage.total() { kept } else { self.usage }
    }

    fn read_calls(&mut self, answer: &Message) {
        let calls =
            answer.content().iter().filter(|block| matches!(block, Block::ToolCall(_) | Block::InvalidToolCall(_)));
        let args = calls.zip(0..).map(|(block, index)| match block {
            Block::ToolCall(call) => (index, call.args.clone()),
            Block::InvalidToolCall(call) => (index, Value::String(call.raw.clone())),
            _ => (index, Value::Null),
        });
        self.args = args.collect();
    }

    fn updated(
        &mut self,
        update: RecordUpdate,
        schema: &Schema,
        edited: &mut BTreeMap<String, EditedAction>,
    ) -> Result<Vec<EventKind>, ChannelError> {
        let update = update.resolve(schema)?;
        let mut kinds = EventKind::state_changes(&update)?;
        self.push_message_events(&update, &mut kinds);
        for change in update.get::<ActionRequests>().flatten() {
            match change {
                ActionRequestChange::Request(question) => {
                    self.asked.insert(question.id.clone(), (**question).clone());
                }
                ActionRequestChange::Decide(id, decided) => {
                    self.asked.remove(id);
                    edited.extend(decided.decision.edited_action().map(|edit| (id.clone(), edit.clone())));
                    self.decided.push(EventKind::decided(id, decided));
                }
                ActionRequestChange::Decided(call, decided) => {
                    kinds.push(EventKind::decided(&call.to_string(), decided));
                }
                ActionRequestChange::Drop(id) => {
                    self.asked.remove(id);
                }
                ActionRequestChange::Clear => self.asked.clear(),
            }
        }
        Ok(kinds)
    }

    /// Adds the events of the messages in an update.
    fn push_message_events(&mut self, update: &Update, kinds: &mut Vec<EventKind>) {
        for op in update.get::<MessagesChannel>().flatten() {
            let MessageOp::Put(message) = op else { continue };
            match &**message {
                Message::Assistant(answer) => {
                    self.read_calls(message);
                    let usage = answer.usage.unwrap_or_default();
                    let stop = if answer.has_calls() { StopReason::ToolCalls } else { StopReason::End };
                    let turn = self.turn;
                    (self.turn, self.model_calls) = (turn + 1, self.model_calls + 1);
                    self.usage += usage;
                    let message = answer.id.clone();
                    kinds.push(EventKind::ModelFinished { turn, attempt: 0, message, usage, stop });
                }
                Message::User(user) if self.stepped && user.author != Author::Harness => {
                    kinds.push(EventKind::Steered { text: message.text() });
                }
                _ => {}
            }
        }
    }

    fn ended(&mut self, stop: Option<FinishReason>, is_main: bool) -> Vec<EventKind> {
        let (usage, model_calls) = (self.reported_usage(), self.model_calls);
        let Some(stop) = stop else {
            // The log records that the run failed, but not why.
            let (kind, error) = ("unknown".to_owned(), "the run failed".to_owned());
            let failed =
                if is_main { EventKind::RunFailed { kind, error } } else { EventKind::AgentFailed { kind, error } };
            return vec![failed];
        };
        let mut kinds = Vec::new();
        if is_main && stop == FinishReason::Interrupted {
            let asked = self.asked.values().cloned();
            kinds.extend(asked.map(|question| EventKind::ActionRequested { question: Box::new(question) }));
        }
        kinds.push(EventKind::AgentFinished { stop: stop.clone(), usage });
        if is_main {
            kinds.push(EventKind::RunFinished { stop, usage, model_calls });
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    #[test]
    fn sub_agents_are_forgotten_once_the_turn_that_ran_them_is_over() {
        let mut events = LogEvents::after("t", Replay::new(State::default().schema().clone()));
        for turn in 0..100 {
            let path = vec![format!("task:{turn}.0")];
            let below = |record| Record::Child { path: path.clone(), entry: Box::new(record) };
            let started = below(Record::RunStarted { run: "r".to_owned(), at: String::new(), thread: None });
            let finished = below(Record::RunFinished { run: "r".to_owned(), stop: Some(FinishReason::Done) });
            for record in [started, finished, Record::ToolsCommitted { calls: Vec::new() }] {
                events.kinds(record).unwrap();
            }
        }
        assert_eq!(events.agents.len(), 1);
    }
}
