//! From the log of a thread and the live events of a run to the events of its streams.
//!
//! Whatever the log holds is taken from the log, in its order; only pieces of answers and what tools tell while they work
//! come from the live events. So a run that ended in another process is read from the log in the same way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use deepagents::{Event, EventKind, EventStream, FinishReason};
use deepagents_core::agent::LogReplay;
use deepagents_core::interrupt::{ActionRequests, Decision};
use deepagents_core::journal::{LogPosition, Record, RecordUpdate};
use deepagents_core::message::{AssistantMessage, Message, MessageOp, ToolMessage};
use deepagents_core::run::{Machine, NextStep};
use deepagents_core::state::{MessagesChannel, State, Update};
use deepagents_core::tool::CallId;
use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::OpenAnswer;
use super::checkpoint::{At, Checkpoints, Reached, next_tasks, start_task};
use super::event::{AgentInfo, EventId, Kind, RunEnd, StreamEvent};
use super::log::Final;
use super::task::{Changes, Task, TaskEnd, TaskInput};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::runs::{LiveRun, StoppedEarly};
use crate::threads::Place;
use crate::wire::{OpenInterrupt, open_interrupts};

/// The node that asks people about calls, as other servers name it.
const ASKS: &str = "HumanInTheLoopMiddleware.after_model";

/// Works out the events of one run.
pub(crate) struct Projector {
    run: Arc<LiveRun>,
    replay: LogReplay,
    agents: HashMap<Vec<String>, AgentView>,
    /// The client's id of each call that began.
    calls: HashMap<CallId, String>,
    /// What the thread asked where reading began.
    asked: Vec<OpenInterrupt>,
    numbers: Numbers,
}

/// The next numbers at this position.
struct Numbers {
    record: u32,
    live: u32,
}

/// What is known of an agent of the run.
#[derive(Default)]
struct AgentView {
    info: Arc<AgentInfo>,
    /// Whether its state changed since it was last shown.
    changed: bool,
    /// The call that runs it.
    call: Option<CallId>,
    step: u64,
    answer: OpenAnswer,
    /// The id of the last answer that is complete.
    answered: String,
    /// The turn for which the model is to be asked, once the log says that it is.
    asked: Option<u32>,
    /// Tasks that have begun and not ended.
    tasks: Vec<Task>,
    checkpoints: Checkpoints,
}

impl Projector {
    /// Begins at a position of the log. What is there already is read by [`follow`](Self::follow) or
    /// [`read_to`](Self::read_to).
    pub(crate) async fn new(app: &App, run: &Arc<LiveRun>, from: LogPosition, shows_state: bool) -> Result<Self> {
        let info = app.thread(&run.thread).await?;
        let replay = app.threads_of(&info)?.replay(&run.thread, from).await?;
        let numbers = Numbers { record: EventId::FIRST, live: EventId::FIRST_LIVE };
        let (run, agents, calls) = (run.clone(), HashMap::new(), HashMap::new());
        let asked = open_interrupts(&run.thread, replay.state());
        let mut projector = Self { run, replay, agents, calls, asked, numbers };
        if from > 0 {
            let entries = app.checkpoints.entries(&app.threads_of(&info)?, &info).await?;
            let is_before = |place| matches!(place, Place::After(position) if position <= from);
            let last = entries.newest_first().find(|entry| is_before(entry.place)).map(|entry| At {
                place: entry.place,
                parent: entry.parent,
                source: entry.source,
                step: entry.step,
            });
            projector.view(&[]).checkpoints = Checkpoints::after(last);
        }
        projector.push(&[], Kind::RunStarted);
        if shows_state {
            projector.show_values(&[], Vec::new());
        }
        Ok(projector)
    }

    fn push(&mut self, path: &[String], kind: Kind) {
        self.numbers.record += 1;
        let number = self.numbers.record;
        self.add(path, number, Timestamp::now(), kind);
    }

    fn push_live(&mut self, path: &[String], at: Timestamp, kind: Kind) {
        self.numbers.live += 1;
        let number = self.numbers.live;
        self.add(path, number, at, kind);
    }

    fn add(&mut self, path: &[String], number: u32, at: Timestamp, kind: Kind) {
        let id = EventId { position: self.replay.position(), number };
        let view = self.view(path);
        let (agent, step) = (view.info.clone(), view.step);
        self.run.log.push(StreamEvent { id, at: at.as_millisecond(), agent, step, kind });
    }

    fn view(&mut self, path: &[String]) -> &mut AgentView {
        self.agents.entry(path.to_vec()).or_insert_with(|| AgentView {
            info: Arc::new(AgentInfo { path: path.to_vec(), ..AgentInfo::default() }),
            ..AgentView::default()
        })
    }

    fn name(&mut self, path: &[String], name: &str) {
        let view = self.view(path);
        if view.info.name.as_deref() != Some(name) {
            Arc::make_mut(&mut view.info).name = Some(name.to_owned());
        }
    }

    /// Follows a run to its end.
    pub(crate) async fn follow(mut self, mut events: EventStream) -> Self {
        while let Some(event) = events.next().await {
            let position = match (&event.kind, event.position) {
                (_, Some(position)) => position,
                // What was said to a model is in the log before it is asked.
                (EventKind::ModelStarted { .. }, None) => LogPosition::MAX,
                _ => 0,
            };
            if let Err(error) = self.read_to(position).await {
                self.broken(&error);
                return self;
            }
            self.live(&event);
        }
        if let Err(error) = self.read_to(LogPosition::MAX).await {
            self.broken(&error);
        }
        self
    }

    /// The log cannot be read on: what follows is not shown, and that is.
    fn broken(&mut self, error: &ApiError) {
        self.push(&[], Kind::Failed { kind: "stream".to_owned(), message: error.to_string() });
    }

    /// Takes in the records before a position.
    pub(crate) async fn read_to(&mut self, position: LogPosition) -> Result<()> {
        // What cancelling adds is no part of what the run came to.
        while self.replay.position() < position.min(self.run.cancelled_from().unwrap_or(LogPosition::MAX)) {
            let Some(entry) = self.replay.next().await? else { return Ok(()) };
            self.numbers = Numbers { record: 0, live: EventId::LIVE };
            match entry.record {
                Record::Child { path, entry } => self.record(&path, *entry)?,
                own => self.record(&[], own)?,
            }
        }
        Ok(())
    }

    fn record(&mut self, path: &[String], record: Record) -> Result<()> {
        match record {
            Record::AgentStarted { agent, call, .. } => self.agent_started(path, &agent, call),
            Record::RunStarted { .. } => {
                if let Some(state) = self.replay.agent_state(path).cloned() {
                    self.view(path).checkpoints.begin(state);
                }
            }
            Record::RunResumed { .. } => self.resumed(path),
            Record::StateUpdated { update } => {
                let position = self.replay.position();
                self.view(path).checkpoints.updated(position);
                self.updated(path, update)?;
            }
            Record::Update { update } => self.updated(path, update)?,
            Record::ToolStarted { call, provider_call_id, name, .. } => {
                self.calls.insert(call.clone(), provider_call_id.clone());
                let input = self.input_of(path, &provider_call_id);
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
                let view = self.view(path);
                view.changed = true;
                view.checkpoints.rewound(position);
            }
            Record::Step { machine, .. } => {
                self.view(path).step += 1;
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

    /// The state of an agent has changed.
    fn updated(&mut self, path: &[String], update: RecordUpdate) -> Result<()> {
        let update = self.resolve(update)?;
        self.view(path).changed = true;
        for answer in answers(&update) {
            self.answered(path, &answer);
        }
        Ok(())
    }

    fn resolve(&self, update: RecordUpdate) -> Result<Update> {
        Ok(update.resolve(self.replay.state().schema()).map_err(deepagents_core::error::Error::from)?)
    }

    /// A sub-agent begins.
    fn agent_started(&mut self, path: &[String], name: &str, call: Option<CallId>) {
        self.name(path, name);
        let id = call.as_ref().and_then(|call| self.calls.get(call).cloned());
        let view = self.view(path);
        (view.call, view.changed) = (call, true);
        self.push(path, Kind::AgentStarted { call: id });
    }

    /// An agent goes on. A sub-agent that does began in another run, so its beginning is not among the records of this one.
    fn resumed(&mut self, path: &[String]) {
        if path.is_empty() {
            self.goes_on();
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

    /// The main agent goes on: its last checkpoint is shown with what was asked there.
    fn goes_on(&mut self) {
        let Some(at) = self.view(&[]).checkpoints.last() else { return };
        let (step, identity) = (self.view(&[]).step, &self.run.identity);
        let (state, Some(machine)) = (self.replay.state(), self.replay.machine()) else { return };
        let tasks = next_tasks(identity, (&[], step), state, machine, &self.asked);
        let state = state.clone();
        self.push(&[], Kind::Checkpoint(Reached { at, state, tasks }));
    }

    /// Shows the state of an agent as it is now.
    fn show_values(&mut self, path: &[String], interrupts: Vec<Value>) {
        let Some(state) = self.replay.agent_state(path).cloned() else { return };
        self.view(path).changed = false;
        self.push(path, Kind::Values { state, interrupts });
    }

    /// An answer is part of the conversation.
    fn answered(&mut self, path: &[String], answer: &AssistantMessage) {
        let view = self.view(path);
        let mut open = std::mem::take(&mut view.answer);
        view.answered.clone_from(&answer.id);
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

    /// The arguments of a call, as the conversation has them.
    fn input_of(&self, path: &[String], id: &str) -> Value {
        let Some(state) = self.replay.agent_state(path) else { return Value::Null };
        let answers = state.messages().iter().rev().filter_map(|message| message.as_assistant());
        let args = answers.flat_map(AssistantMessage::tool_calls).find(|call| call.id == id);
        args.map_or(Value::Null, |call| call.args.clone())
    }

    fn tool_finished(&mut self, path: &[String], call: &CallId, result: &Arc<ToolMessage>, update: &Update) {
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
        // A call that was answered without being made never was a task.
        if let Some(at) = tasks.iter().position(|open| open.call.as_ref() == Some(call)) {
            let task = tasks.remove(at);
            self.push(path, Kind::TaskFinished { task, end: TaskEnd::Done(changes.clone()) });
        }
        let node = if self.is_answered_by_person(path, call) { ASKS } else { "tools" };
        self.push(path, Kind::Updated { node, changes });
    }

    /// Whether the result of a call is what a person decided before it was made, and no tool's.
    fn is_answered_by_person(&self, path: &[String], call: &CallId) -> bool {
        let asked = self.replay.agent_state(path).and_then(|state| state.get::<ActionRequests>());
        let review = asked.and_then(|asked| asked.get(&call.to_string()));
        let decision = review.and_then(|review| review.decision.as_ref()).map(|decided| &decided.decision);
        matches!(decision, Some(Decision::Reject { .. } | Decision::Respond { .. }))
    }

    /// The model is asked for an answer; once for each.
    fn model_begins(&mut self, path: &[String]) -> Task {
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

    /// A call is made.
    fn call_begins(&mut self, path: &[String], call: &CallId, id: &str, name: &str, args: &Value) {
        let step = self.view(path).checkpoints.step();
        let task = Task::call(&self.run.identity, call, step);
        // One that is made again after a crash has begun already.
        if self.view(path).tasks.iter().any(|open| open.id == task.id) {
            return;
        }
        let input = json!({"name": name, "args": args, "id": id, "type": "tool_call"});
        self.view(path).tasks.push(task.clone());
        self.push(path, Kind::TaskStarted { task, input: TaskInput::Call(input) });
    }

    /// Says of tasks that have not ended how they do; those of agents further down come first.
    fn end_tasks(&mut self, end: impl Fn(&Task) -> Option<TaskEnd>) {
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
            self.push(path, Kind::Checkpoint(Reached { at, state: before, tasks }));
        }
        self.push(path, Kind::Checkpoint(Reached { at, state, tasks }));
    }

    /// What is not in the log: pieces of answers, and what tools tell.
    fn live(&mut self, event: &Event) {
        let (path, at) = (&event.path, event.at);
        match &event.kind {
            EventKind::AgentStarted { name } => self.name(path, name),
            EventKind::ModelStarted { model, message, .. } => {
                let view = self.view(path);
                if view.info.model != *model {
                    Arc::make_mut(&mut view.info).model.clone_from(model);
                }
                // The log may be ahead of the events: then the answer has been shown as a whole.
                if view.answered == *message {
                    view.answer = OpenAnswer::complete();
                    return;
                }
                view.answer = OpenAnswer::new(message);
            }
            EventKind::AttemptDiscarded { reason, .. } => {
                let voided = self.view(path).answer.void(reason);
                if let Some(kind) = voided {
                    self.push_live(path, at, kind);
                }
            }
            EventKind::ToolProgress { call, text } => {
                let id = self.calls.get(call).cloned().unwrap_or_default();
                self.push_live(path, at, Kind::ToolProgress { id, text: text.clone() });
            }
            EventKind::Custom { name, data } => {
                self.push_live(path, at, Kind::Custom { name: name.clone(), data: data.clone() });
            }
            // An answer that a middleware gives in the model's place is shown from the log, which has its id.
            EventKind::TextDelta { .. }
                if self.replay.agent_state(path).is_some() && self.view(path).answer.is_unnamed() => {}
            piece => {
                for kind in self.view(path).answer.piece(piece) {
                    self.push_live(path, at, kind);
                }
            }
        }
    }

    /// What follows is said of the end.
    fn at_end(&mut self) {
        self.numbers.record = self.numbers.record.max(EventId::LAST);
    }

    /// The run has ended by itself: its last state, and the pauses where it waits.
    ///
    /// Where it was stopped before it was done, that is an error, behind the state as it is.
    pub(crate) fn ended(mut self, state: &State, stop: Option<&FinishReason>, error: Option<&StoppedEarly>) {
        self.at_end();
        let open = open_interrupts(&self.run.thread, state);
        self.end_tasks(|task| {
            let asks = |open: &&OpenInterrupt| task.call.as_ref().is_some_and(|call| open.waits_in(call));
            let asked: Vec<Value> = open.iter().filter(asks).map(OpenInterrupt::to_json).collect();
            (!asked.is_empty()).then_some(TaskEnd::Interrupted(asked))
        });
        let by_agent: BTreeMap<Vec<String>, Vec<Value>> = open.iter().fold(BTreeMap::new(), |mut all, open| {
            all.entry(open.path.clone()).or_default().push(open.to_json());
            all
        });
        for (path, asked) in by_agent.into_iter().filter(|(path, _)| !path.is_empty()) {
            self.push(&path, Kind::Interrupted { interrupts: asked });
            self.push(&path, Kind::AgentEnded(RunEnd::Interrupted));
        }
        let asked: Vec<Value> = open.iter().map(|open| open.to_json()).collect();
        let paused = !asked.is_empty() || stop == Some(&FinishReason::Suspended);
        if paused {
            self.push(&[], Kind::Interrupted { interrupts: asked.clone() });
        }
        self.run.log.set_last(Final::State(state.clone()));
        if !asked.is_empty() || self.view(&[]).changed {
            self.push(&[], Kind::Values { state: state.clone(), interrupts: asked });
        }
        for open in open {
            self.push(&open.path, Kind::InputRequested { id: open.id.clone(), value: open.value.clone() });
        }
        if let Some(error) = error {
            return self.failed(error.kind, &error.message);
        }
        let end = if paused { RunEnd::Interrupted } else { RunEnd::Completed };
        self.push(&[], Kind::RunEnded(end));
    }

    /// The run was ended from outside.
    pub(crate) fn cancelled(mut self) {
        self.at_end();
        self.push(&[], Kind::RunEnded(RunEnd::Interrupted));
    }

    /// The run has failed.
    pub(crate) fn failed(mut self, kind: &str, text: &str) {
        self.at_end();
        self.end_tasks(|_| Some(TaskEnd::Failed { kind: kind.to_owned(), message: text.to_owned() }));
        self.run.log.set_last(Final::Error(json!({"error": kind, "message": text})));
        self.push(&[], Kind::Failed { kind: kind.to_owned(), message: text.to_owned() });
        self.push(&[], Kind::RunEnded(RunEnd::Failed(text.to_owned())));
    }
}

/// Whether the model is asked next.
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

fn answers(update: &Update) -> Vec<AssistantMessage> {
    let put = update.get::<MessagesChannel>().flatten().filter_map(|op| match op {
        MessageOp::Put(message) => message.as_assistant().cloned(),
        _ => None,
    });
    put.collect()
}
