//! Projects the log of a thread and the live events of a run onto the events of its streams.
//!
//! Whatever is in the log is taken from the log, in its order. Only message chunks, tool progress and custom events
//! come from the live events. Because of this, a run that ended in another process can be read from the log in the same
//! way.

mod end;
mod records;
mod tasks;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use deepagents::{Event, EventKind, EventStream};
use deepagents_core::agent::LogReplay;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::journal::{LogPosition, Record};
use deepagents_core::tool::CallId;
use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::json;

use super::answer::OpenAnswer;
use super::checkpoint::{At, Checkpoints};
use super::event::{AgentInfo, EventId, Kind, StreamEvent};
use super::task::Task;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::runs::LiveRun;
use crate::threads::Place;
use crate::wire::{OpenInterrupt, open_interrupts};

/// Produces the events of one run.
pub(crate) struct Projector {
    run: Arc<LiveRun>,
    replay: LogReplay,
    agents: HashMap<Vec<String>, AgentView>,
    /// The client's id of each call that has started.
    calls: HashMap<CallId, String>,
    /// The interrupts pending where reading began.
    asked: Vec<OpenInterrupt>,
    /// The ids of the results that the thread had, or that have been shown.
    results: HashSet<String>,
    numbers: Numbers,
}

/// The last event numbers used at this position.
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
    /// The id of the last complete assistant message.
    answered: String,
    /// Whether that message came since the last step.
    is_new_turn: bool,
    /// The turn of the model task in progress.
    asked: Option<u32>,
    /// Tasks that have started and not ended.
    tasks: Vec<Task>,
    checkpoints: Checkpoints,
}

impl AgentView {
    /// Whether the turn whose first attempt has this message id has its answer, from this or a later attempt.
    fn has_answered(&self, message: &str) -> bool {
        self.answered.strip_prefix(message).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

impl Projector {
    /// Creates a projector at a log position. [`follow`](Self::follow) or [`read_to`](Self::read_to) then reads the
    /// records.
    pub(crate) async fn new(app: &App, run: &Arc<LiveRun>, from: LogPosition, shows_state: bool) -> Result<Self> {
        let info = app.thread(&run.thread).await?;
        let replay = app.threads_of(&info)?.replay(&run.thread, from).await?;
        let numbers = Numbers { record: EventId::FIRST, live: EventId::FIRST_LIVE };
        let (run, agents, calls) = (run.clone(), HashMap::new(), HashMap::new());
        let asked = open_interrupts(&run.thread, replay.state());
        let had = replay.state().messages().iter().filter(|message| message.as_tool().is_some());
        let results = had.map(|message| message.id().to_owned()).collect();
        let mut projector = Self { run, replay, agents, calls, asked, results, numbers };
        // Checkpoint numbers continue from those of earlier runs.
        if from > 0 {
            let entries = app.entries(&info).await?;
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
                // The input of a model call is in the log before the call.
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

    /// Reports that the log cannot be read any further.
    fn broken(&mut self, error: &ApiError) {
        self.push(&[], Kind::Failed { kind: "stream".to_owned(), message: error.to_string() });
    }

    /// Reads the records before a position.
    pub(crate) async fn read_to(&mut self, position: LogPosition) -> Result<()> {
        // Records added by a cancellation are not shown.
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

    /// Handles an event that is not in the log: a message chunk, tool progress or a custom event.
    fn live(&mut self, event: &Event) {
        let (path, at) = (&event.path, event.at);
        match &event.kind {
            EventKind::AgentStarted { name } => self.name(path, name),
            EventKind::ModelStarted { model, message, .. } => {
                let view = self.view(path);
                if view.info.model != *model {
                    Arc::make_mut(&mut view.info).model.clone_from(model);
                }
                // If the log is ahead of the events, the message has been shown as a whole.
                if view.has_answered(message) {
                    view.answer = OpenAnswer::complete();
                    return;
                }
                view.answer = OpenAnswer::new(message);
            }
            EventKind::AttemptDiscarded { reason, again, next, .. } => {
                let view = self.view(path);
                let voided = view.answer.discard(reason);
                if !view.answer.is_complete() {
                    // If there is no next attempt, a middleware answers in the model's place, and its answer has
                    // another id.
                    view.answer = if *again { OpenAnswer::new(next) } else { OpenAnswer::default() };
                }
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
            EventKind::Middleware(event) if is_judging(event) => {
                self.push_live(path, at, Kind::Custom { name: "rubric".to_owned(), data: json!(event) });
            }
            // An answer by a middleware is shown from the log, which has its id.
            EventKind::TextDelta { .. }
                if self.replay.agent_state(path).is_some() && self.view(path).answer.is_unnamed() => {}
            piece => {
                for kind in self.view(path).answer.add_chunk(piece) {
                    self.push_live(path, at, kind);
                }
            }
        }
    }
}

/// Whether an event tells how the work is judged by its rubric.
fn is_judging(event: &MiddlewareEvent) -> bool {
    matches!(
        event,
        MiddlewareEvent::RubricEvaluationStarted { .. }
            | MiddlewareEvent::RubricEvaluated { .. }
            | MiddlewareEvent::RubricEvaluationFailed { .. }
    )
}
