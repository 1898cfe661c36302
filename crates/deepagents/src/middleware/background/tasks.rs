//! The tasks of an agent object.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::ask::{Decision, Question};
use deepagents_core::run::{Beside, Context, Paused, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{Handback, ToolContext, ToolError};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::agent::Way;
use super::task::{Ended, TaskStatus, Work, dismiss};
use super::{BackgroundAgent, BackgroundLimits};
use crate::roster::{Named, Roster};

/// How many characters of a result are told.
const TOLD: usize = 80_000;

pub(super) struct Tasks {
    pub(super) roster: Roster<BackgroundAgent>,
    limits: BackgroundLimits,
    list: Mutex<Vec<Entry>>,
}

struct Entry {
    owner: String,
    id: String,
    agent: BackgroundAgent,
    status: TaskStatus,
    /// Its result, or what went wrong.
    said: String,
    /// Whether the agent knows how it stands.
    told: bool,
    /// What an agent had when its result was last told.
    given: Option<State>,
    /// What an agent has come to.
    left: Option<State>,
    /// What a closure hands back.
    changes: (Option<Handback>, Update),
    /// How to go on while it waits.
    paused: Option<Paused>,
    /// Said while it waited for what cannot be refused.
    unheard: Vec<String>,
    /// What every run of an agent is given.
    base: RunInput,
    /// How many times it was gone on with, so that every run has a name of its own.
    parts: usize,
    inbox: mpsc::UnboundedSender<String>,
    cancel: CancellationToken,
}

/// How a task stands, to be told.
pub(super) struct News {
    pub(super) text: String,
    pub(super) handback: Option<Handback>,
    pub(super) update: Update,
}

/// Whose tasks a run sees.
pub(super) fn owner(cx: &Context) -> String {
    cx.thread().map_or_else(|| format!("run:{}", cx.run_id()), |thread| format!("thread:{thread}"))
}

fn gone() -> ToolError {
    ToolError::model("Error: the task is gone.")
}

impl Tasks {
    pub(super) fn new(roster: Roster<BackgroundAgent>, limits: BackgroundLimits) -> Self {
        Self { roster, limits, list: Mutex::default() }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task and gives its id.
    pub(super) fn start(self: &Arc<Self>, name: &str, task: &str, cx: &ToolContext) -> Result<String, ToolError> {
        let Some(agent) = self.roster.find(cx.state(), name) else {
            let all = self.roster.all(cx.state());
            let known: Vec<&str> = all.iter().map(Named::name).collect();
            return Err(ToolError::model(format!(
                "Error: there is no sub-agent {name}; there are {}.",
                known.join(", ")
            )));
        };
        let owner = owner(cx);
        let id = cx.ids().next("task");
        let mut list = self.list();
        self.make_room(&mut list, &owner)?;
        let (given, base, (inbox, cancel)) = match &agent.work {
            Way::Agent { agent, begin } => {
                let (given, input) = begin(task.to_owned(), cx)?;
                let input = input.with_extensions_of(cx).within_budget_of(cx);
                let run = agent.run_beside(id.as_str(), given.clone(), input)?;
                (Some(given), run.base(), self.attend(&id, run))
            }
            Way::Call(call) => {
                let (work, inbox) = self.work(&id);
                let cancel = work.cancel.clone();
                tokio::spawn(work.call(call(task.to_owned(), cx.beside(cancel.clone()))));
                (None, RunInput::default(), (inbox, cancel))
            }
        };
        list.push(Entry {
            owner,
            id: id.clone(),
            agent,
            status: TaskStatus::Running,
            said: String::new(),
            told: false,
            given,
            left: None,
            changes: (None, Update::none()),
            paused: None,
            unheard: Vec::new(),
            base,
            parts: 1,
            inbox,
            cancel,
        });
        Ok(id)
    }

    /// Refuses what is too much, and forgets what is old.
    fn make_room(&self, list: &mut Vec<Entry>, owner: &str) -> Result<(), ToolError> {
        self.check_running(list, owner)?;
        while list.iter().filter(|e| e.owner == owner).count() >= self.limits.remembered {
            let old = list.iter().position(|e| e.owner == owner && e.told && e.status.is_ended());
            let Some(old) = old else {
                return Err(ToolError::model(
                    "Error: there are too many tasks whose results you have not seen; check them.",
                ));
            };
            list.remove(old);
        }
        while list.len() >= self.limits.in_all {
            let told = list.iter().position(|e| e.told && e.status.is_ended());
            // A run without a thread that is over can be told nothing any more.
            let untold = || list.iter().position(|e| e.owner != owner && e.status.is_ended());
            let Some(old) = told.or_else(untold) else { break };
            list.remove(old);
        }
        Ok(())
    }

    fn check_running(&self, list: &[Entry], owner: &str) -> Result<(), ToolError> {
        let running = list.iter().filter(|e| e.owner == owner && e.status == TaskStatus::Running).count();
        if running >= self.limits.at_once {
            return Err(ToolError::model(format!("Error: {running} tasks are running; wait for one, or cancel one.")));
        }
        Ok(())
    }

    fn work(self: &Arc<Self>, id: &str) -> (Work, mpsc::UnboundedSender<String>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let work = Work { tasks: Arc::downgrade(self), id: id.to_owned(), inbox, cancel: CancellationToken::new() };
        (work, sender)
    }

    fn attend(self: &Arc<Self>, id: &str, run: Beside) -> (mpsc::UnboundedSender<String>, CancellationToken) {
        let (work, sender) = self.work(id);
        let cancel = work.cancel.clone();
        tokio::spawn(work.run(run));
        (sender, cancel)
    }

    /// Does something with a task of an owner.
    fn with<T>(
        &self,
        owner: &str,
        id: &str,
        act: impl FnOnce(&mut Vec<Entry>, usize) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut list = self.list();
        match list.iter().position(|entry| entry.owner == owner && entry.id == id.trim()) {
            Some(at) => act(&mut list, at),
            None => {
                let id = id.trim();
                Err(ToolError::model(format!(
                    "Error: there is no task {id}; `list_async_tasks` names those there are."
                )))
            }
        }
    }

    /// How a task stands. What was not told before counts as told now.
    pub(super) fn check(&self, owner: &str, id: &str) -> Result<News, ToolError> {
        self.with(owner, id, |list, at| {
            let entry = list.get_mut(at).ok_or_else(gone)?;
            let text = entry.json();
            let (handback, update) = entry.tell();
            Ok(News { text, handback, update })
        })
    }

    /// What a task waits for; nothing if it does not wait.
    pub(super) fn waits_for(&self, owner: &str, id: &str) -> Result<Option<Vec<Question>>, ToolError> {
        self.with(owner, id, |list, at| Ok(list.get(at).and_then(|entry| entry.paused.as_ref()).map(Paused::questions)))
    }

    /// Goes on with decisions.
    pub(super) fn answer(
        self: &Arc<Self>,
        owner: &str,
        id: &str,
        answers: Vec<(String, Decision)>,
    ) -> Result<(), ToolError> {
        self.with(owner, id, |list, at| {
            let entry = list.get_mut(at).ok_or_else(gone)?;
            let Some(paused) = &entry.paused else { return Ok(()) };
            let run = paused.answer(answers)?;
            for text in std::mem::take(&mut entry.unheard) {
                run.steer(text.as_str());
            }
            (entry.inbox, entry.cancel) = self.attend(&entry.id, run);
            entry.works();
            Ok(())
        })
    }

    /// Says more to a task: to one that runs at its next model call, to one that has ended as the next thing to do.
    pub(super) fn update(
        self: &Arc<Self>,
        id: &str,
        text: String,
        cx: &ToolContext,
    ) -> Result<&'static str, ToolError> {
        let owner = owner(cx);
        self.with(&owner, id, |list, at| {
            let status = list.get(at).map(|entry| entry.status).ok_or_else(gone)?;
            if status != TaskStatus::Running {
                self.check_running(list, &owner)?;
            }
            let entry = list.get_mut(at).ok_or_else(gone)?;
            let Way::Agent { agent, .. } = entry.agent.work.clone() else {
                return Err(ToolError::model(format!(
                    "Error: {} cannot be told anything more; start another task.",
                    entry.agent.name
                )));
            };
            if status == TaskStatus::Running {
                // Its work reads the inbox once more before it ends, under the same lock.
                let _ = entry.inbox.send(text);
                return Ok("It hears this at its next model call.");
            }
            if let Some(paused) = &entry.paused {
                let Ok(run) = dismiss(paused, &[text]) else {
                    return Err(ToolError::model(
                        "Error: it waits for what only a person can decide; check it, or cancel it.",
                    ));
                };
                (entry.inbox, entry.cancel) = self.attend(&entry.id, run);
                entry.works();
                return Ok("What it waited for was refused; it goes on with this.");
            }
            let Some(left) = entry.left.clone() else {
                return Err(ToolError::model(
                    "Error: there is nothing to go on with yet; try again, or start another.",
                ));
            };
            let base = entry.base.clone().with_extensions_of(cx).within_budget_of(cx);
            let run = entry.part(&agent, left, base, vec![text])?;
            entry.base = run.base();
            (entry.inbox, entry.cancel) = self.attend(&entry.id, run);
            entry.works();
            Ok("It goes on with this.")
        })
    }

    pub(super) fn cancel(&self, owner: &str, id: &str) -> Result<TaskStatus, ToolError> {
        self.with(owner, id, |list, at| {
            let entry = list.get_mut(at).ok_or_else(gone)?;
            let was = entry.status;
            if !was.is_ended() {
                entry.cancel.cancel();
                entry.paused = None;
                (entry.status, entry.told) = (TaskStatus::Cancelled, true);
            }
            Ok(was)
        })
    }

    /// A line for each task.
    pub(super) fn lines(&self, owner: &str, only: Option<TaskStatus>) -> Vec<String> {
        let list = self.list();
        let of = list.iter().filter(|e| e.owner == owner && only.is_none_or(|status| status == e.status));
        of.map(|e| format!("- task_id: {}  agent: {}  status: {}", e.id, e.agent.name, e.status.word())).collect()
    }

    /// What was not told yet of tasks that ended or wait; it counts as told now.
    pub(super) fn news(&self, owner: &str) -> Vec<News> {
        let mut list = self.list();
        let fresh = list.iter_mut().filter(|entry| entry.owner == owner && entry.is_news());
        fresh
            .map(|entry| {
                let (status, agent) = (entry.status.word(), &entry.agent.name);
                let head = "This is a message of the system, not of the user: a background task ";
                let (what, rest) = match entry.status {
                    TaskStatus::Waiting => (
                        "waits for a person's decision.",
                        "Check it with `check_async_task` to have the person asked; or cancel it.".to_owned(),
                    ),
                    _ => ("has ended.", entry.cut()),
                };
                let text = format!("{head}{what}\ntask_id: {}  agent: {agent}  status: {status}\n\n{rest}", entry.id);
                let (handback, update) = entry.tell();
                News { text, handback, update }
            })
            .collect()
    }

    pub(super) fn has_news(&self, owner: &str) -> bool {
        self.list().iter().any(|entry| entry.owner == owner && entry.is_news())
    }

    /// A part of a task has ended; gives what is to be done next, if anything was said meanwhile.
    pub(super) fn ended(
        &self,
        id: &str,
        ended: Ended,
        mut texts: Vec<String>,
        inbox: &mut mpsc::UnboundedReceiver<String>,
    ) -> Option<Beside> {
        let mut list = self.list();
        let entry = list.iter_mut().find(|entry| entry.id == id)?;
        while let Ok(text) = inbox.try_recv() {
            texts.push(text);
        }
        if entry.status != TaskStatus::Running {
            // Cancelled meanwhile: what it has come to is gone on from if more is said to it, unless it waited.
            entry.left = ended.left.filter(|_| ended.paused.is_none());
            entry.said = ended.said;
            return None;
        }
        if !texts.is_empty() {
            let next = match (&ended.paused, &ended.left, entry.agent.work.clone()) {
                (Some(paused), ..) => dismiss(paused, &texts).ok(),
                (None, Some(left), Way::Agent { agent, .. }) => {
                    let base = entry.base.clone();
                    entry.part(&agent, left.clone(), base, texts.clone()).ok()
                }
                _ => None,
            };
            if next.is_some() {
                return next;
            }
            entry.unheard = texts;
        }
        (entry.status, entry.said, entry.told) = (ended.status, ended.said, false);
        entry.left = ended.left.filter(|_| ended.paused.is_none());
        entry.changes = ended.changes;
        entry.paused = ended.paused;
        None
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.list().iter().for_each(|entry| entry.cancel.cancel());
    }
}

impl Entry {
    /// It works again.
    fn works(&mut self) {
        (self.status, self.told, self.left, self.paused) = (TaskStatus::Running, false, None, None);
        self.said.clear();
    }

    /// Another run that goes on from a state.
    fn part(
        &mut self,
        agent: &deepagents_core::agent::Agent,
        left: State,
        base: RunInput,
        texts: Vec<String>,
    ) -> Result<Beside, ToolError> {
        let label = format!("{}.{}", self.id, self.parts);
        self.parts += 1;
        let input = texts.into_iter().fold(base, |input, text| input.message(text.as_str()));
        Ok(agent.run_beside(label, left, input)?)
    }

    fn is_news(&self) -> bool {
        !self.told && self.status != TaskStatus::Running
    }

    /// How it stands counts as told; gives what it changed since the last time.
    fn tell(&mut self) -> (Option<Handback>, Update) {
        if !self.is_news() {
            return (None, Update::none());
        }
        self.told = true;
        if let (Some(left), Some(given)) = (self.left.clone(), self.given.clone()) {
            self.given = Some(left.clone());
            return (Some(Handback { given, left }), Update::none());
        }
        std::mem::replace(&mut self.changes, (None, Update::none()))
    }

    fn cut(&self) -> String {
        match self.said.char_indices().nth(TOLD) {
            Some((at, _)) => format!("{}\n[cut off here]", self.said.get(..at).unwrap_or_default()),
            None => self.said.clone(),
        }
    }

    fn json(&self) -> String {
        let mut out = json!({"task_id": self.id, "agent": &*self.agent.name, "status": self.status.word()});
        let more = match self.status {
            TaskStatus::Running => Vec::new(),
            TaskStatus::Waiting => {
                let asked = self.paused.iter().flat_map(Paused::questions);
                let asked = asked.map(|q| json!({"tool": q.tool, "args": q.args, "description": q.text}));
                let note = "It waits for a person, and this run has no thread to ask one in; cancel it, or tell it to do \
                            something else with `update_async_task`.";
                vec![("interrupts", asked.collect()), ("note", note.into())]
            }
            TaskStatus::Error => vec![("error", self.cut().into())],
            TaskStatus::Success | TaskStatus::Cancelled => vec![("result", self.cut().into())],
        };
        if let Some(map) = out.as_object_mut() {
            map.extend(more.into_iter().map(|(key, value): (&str, serde_json::Value)| (key.to_owned(), value)));
        }
        out.to_string()
    }
}
