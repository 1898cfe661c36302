//! The tasks of an agent object.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::agent::{Agent, BackgroundRun, Paused};
use deepagents_core::interrupt::{ActionRequest, Decision};
use deepagents_core::run::{Context, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{ChildState, ToolContext, ToolError, ToolOutput};
use serde_json::json;
use tokio::sync::mpsc;

use super::BackgroundLimits;
use super::task::{TaskState, TaskStatus, Work, WorkHandle, dismiss};
use crate::subagents::{DynSubAgent, Registry, SubAgentTask};

/// How many characters of a result are told.
const TOLD: usize = 80_000;

pub(super) struct Tasks {
    pub(super) registry: Arc<Registry>,
    /// How deep sub-agents may delegate in turn.
    depth: usize,
    limits: BackgroundLimits,
    list: Mutex<Vec<Entry>>,
}

struct Entry {
    owner: String,
    id: String,
    agent: Arc<dyn DynSubAgent>,
    /// How it stands.
    now: TaskState,
    /// Whether the agent knows that.
    told: bool,
    /// What an agent had when its result was last told.
    given: Option<State>,
    /// Said while it waited for what cannot be refused.
    undelivered: Vec<String>,
    /// What every run of an agent is given.
    base: RunInput,
    /// How many times it was gone on with, so that every run has a name of its own.
    parts: usize,
    work: WorkHandle,
}

/// How a task stands, to be told.
pub(super) struct News {
    pub(super) text: String,
    pub(super) child_state: Option<ChildState>,
    pub(super) update: Update,
}

/// Whose tasks a run sees.
pub(super) fn owner(cx: &Context) -> String {
    cx.thread().map_or_else(|| format!("run:{}", cx.run_id()), |thread| format!("thread:{thread}"))
}

impl Tasks {
    pub(super) fn new(registry: Arc<Registry>, depth: usize, limits: BackgroundLimits) -> Self {
        Self { registry, depth, limits, list: Mutex::default() }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task and gives its id.
    pub(super) fn start(self: &Arc<Self>, name: &str, task: String, cx: &ToolContext) -> Result<String, ToolError> {
        let agent = self.registry.find(cx.state(), name)?;
        let owner = owner(cx);
        let id = cx.ids().next("task");
        let task = SubAgentTask::new(task, self.depth);
        let mut list = self.list();
        self.make_room(&mut list, &owner)?;
        let (given, base, work) = match agent.as_built() {
            Some(built) => {
                let (given, input) = built.start(&task, cx)?;
                let input = input.with_extensions_of(cx).charge_to(cx);
                let run = built.agent().spawn_background(id.as_str(), given.clone(), input)?;
                (Some(given), run.base(), self.attend(&id, run))
            }
            None => {
                let (work, handle) = Work::new(self, &id);
                let (agent, cx) = (agent.clone(), cx.beside(handle.cancel.clone()));
                tokio::spawn(work.call(Box::pin(async move { Ok(agent.run(task, cx).await?.output) })));
                (None, RunInput::default(), handle)
            }
        };
        list.push(Entry {
            owner,
            id: id.clone(),
            agent,
            now: TaskState::new(TaskStatus::Running, String::new()),
            told: false,
            given,
            undelivered: Vec::new(),
            base,
            parts: 1,
            work,
        });
        Ok(id)
    }

    /// Refuses what is too much, and forgets what is old.
    fn make_room(&self, list: &mut Vec<Entry>, owner: &str) -> Result<(), ToolError> {
        self.check_running(list, owner)?;
        while list.iter().filter(|e| e.owner == owner).count() >= self.limits.remembered {
            let old = list.iter().position(|e| e.owner == owner && e.told && e.now.status.is_ended());
            let Some(old) = old else {
                return Err(ToolError::model(
                    "Error: there are too many tasks whose results you have not seen; check them.",
                ));
            };
            list.remove(old);
        }
        while list.len() >= self.limits.in_all {
            let told = list.iter().position(|e| e.told && e.now.status.is_ended());
            // A run without a thread that is over can be told nothing any more.
            let untold = || list.iter().position(|e| e.owner != owner && e.now.status.is_ended());
            let Some(old) = told.or_else(untold) else { break };
            list.remove(old);
        }
        Ok(())
    }

    fn check_running(&self, list: &[Entry], owner: &str) -> Result<(), ToolError> {
        let running = list.iter().filter(|e| e.owner == owner && e.now.status == TaskStatus::Running).count();
        if running >= self.limits.at_once {
            return Err(ToolError::model(format!("Error: {running} tasks are running; wait for one, or cancel one.")));
        }
        Ok(())
    }

    /// Waits for a run in the background.
    fn attend(self: &Arc<Self>, id: &str, run: BackgroundRun) -> WorkHandle {
        let (work, handle) = Work::new(self, id);
        tokio::spawn(work.run(run));
        handle
    }

    /// Does something with a task of an owner; `act` is also told whether another task may run.
    fn with<T>(
        &self,
        owner: &str,
        id: &str,
        act: impl FnOnce(&mut Entry, Result<(), ToolError>) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let id = id.trim();
        let mut list = self.list();
        let may_run = self.check_running(&list, owner);
        match list.iter_mut().find(|entry| entry.owner == owner && entry.id == id) {
            Some(entry) => act(entry, may_run),
            None => Err(ToolError::model(format!(
                "Error: there is no task {id}; `list_async_tasks` names those there are."
            ))),
        }
    }

    /// How a task stands. What was not told before counts as told now.
    pub(super) fn check(&self, owner: &str, id: &str) -> Result<ToolOutput, ToolError> {
        self.with(owner, id, |entry, _| {
            let output = ToolOutput::text(entry.json());
            let (child_state, update) = entry.tell();
            let output = output.with_update(update);
            Ok(match child_state {
                Some(child_state) => output.with_child_state(child_state),
                None => output,
            })
        })
    }

    /// What a task waits for; nothing if it does not wait.
    pub(super) fn waits_for(&self, owner: &str, id: &str) -> Result<Option<Vec<ActionRequest>>, ToolError> {
        self.with(owner, id, |entry, _| Ok(entry.now.paused.as_ref().map(Paused::questions)))
    }

    /// Goes on with decisions.
    pub(super) fn answer(
        self: &Arc<Self>,
        owner: &str,
        id: &str,
        answers: Vec<(String, Decision)>,
    ) -> Result<(), ToolError> {
        self.with(owner, id, |entry, _| {
            let Some(paused) = &entry.now.paused else { return Ok(()) };
            let run = paused.answer(answers)?;
            for text in std::mem::take(&mut entry.undelivered) {
                run.steer(text.as_str());
            }
            entry.works(self.attend(&entry.id, run));
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
        self.with(&owner(cx), id, |entry, may_run| {
            let agent = entry.built()?;
            if entry.now.status == TaskStatus::Running {
                // Its work reads the inbox once more before it ends, under the same lock.
                let _ = entry.work.inbox.send(text);
                return Ok("It hears this at its next model call.");
            }
            may_run?;
            if let Some(paused) = &entry.now.paused {
                let Ok(run) = dismiss(paused, &[text]) else {
                    return Err(ToolError::model(
                        "Error: it waits for what only a person can decide; check it, or cancel it.",
                    ));
                };
                entry.works(self.attend(&entry.id, run));
                return Ok("What it waited for was refused; it goes on with this.");
            }
            let Some(left) = entry.now.left.clone() else {
                return Err(ToolError::model(
                    "Error: there is nothing to go on with yet; try again, or start another.",
                ));
            };
            let base = entry.base.clone().with_extensions_of(cx).charge_to(cx);
            let run = entry.continued(&agent, left, base, vec![text])?;
            entry.base = run.base();
            entry.works(self.attend(&entry.id, run));
            Ok("It goes on with this.")
        })
    }

    /// Cancels a task and gives what its status was.
    pub(super) fn cancel(&self, owner: &str, id: &str) -> Result<TaskStatus, ToolError> {
        self.with(owner, id, |entry, _| {
            let was = entry.now.status;
            if !was.is_ended() {
                entry.work.cancel.cancel();
                entry.now.paused = None;
                (entry.now.status, entry.told) = (TaskStatus::Cancelled, true);
            }
            Ok(was)
        })
    }

    /// A line for each task.
    pub(super) fn lines(&self, owner: &str, only: Option<TaskStatus>) -> Vec<String> {
        let list = self.list();
        let of = list.iter().filter(|e| e.owner == owner && only.is_none_or(|status| status == e.now.status));
        of.map(|e| format!("- {}", e.heading())).collect()
    }

    /// What was not told yet of tasks that ended or wait; it counts as told now.
    pub(super) fn news(&self, owner: &str) -> Vec<News> {
        let mut list = self.list();
        let fresh = list.iter_mut().filter(|entry| entry.owner == owner && entry.is_news());
        fresh
            .map(|entry| {
                let (what, rest) = match entry.now.status {
                    TaskStatus::Interrupted => (
                        "waits for a person's decision.",
                        "Check it with `check_async_task` to have the person asked; or cancel it.".to_owned(),
                    ),
                    _ => ("has ended.", entry.cut()),
                };
                let text = format!(
                    "This is a message of the system, not of the user: a background task {what}\n{}\n\n{rest}",
                    entry.heading()
                );
                let (child_state, update) = entry.tell();
                News { text, child_state, update }
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
        mut ended: TaskState,
        mut texts: Vec<String>,
        inbox: &mut mpsc::UnboundedReceiver<String>,
    ) -> Option<BackgroundRun> {
        let mut list = self.list();
        let entry = list.iter_mut().find(|entry| entry.id == id)?;
        while let Ok(text) = inbox.try_recv() {
            texts.push(text);
        }
        let cancelled = entry.now.status != TaskStatus::Running;
        if !cancelled && !texts.is_empty() {
            let next = match (&ended.paused, &ended.left, entry.built()) {
                (Some(paused), ..) => dismiss(paused, &texts).ok(),
                (None, Some(left), Ok(agent)) => {
                    entry.continued(&agent, left.clone(), entry.base.clone(), texts.clone()).ok()
                }
                _ => None,
            };
            if next.is_some() {
                return next;
            }
            entry.undelivered = texts;
        }
        // What it has come to is gone on from if more is said to it, unless it waits.
        ended.left = ended.left.filter(|_| ended.paused.is_none());
        if cancelled {
            (entry.now.left, entry.now.said) = (ended.left, ended.said);
        } else {
            (entry.now, entry.told) = (ended, false);
        }
        None
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.list().iter().for_each(|entry| entry.work.cancel.cancel());
    }
}

impl Entry {
    /// The agent, where it is one that can go on.
    fn built(&self) -> Result<Agent, ToolError> {
        let built = self.agent.as_built().map(|built| built.agent().clone());
        built.ok_or_else(|| {
            let name = self.agent.name();
            ToolError::model(format!("Error: {name} cannot be told anything more; start another task."))
        })
    }

    /// It works again.
    fn works(&mut self, work: WorkHandle) {
        (self.work, self.told) = (work, false);
        self.now = TaskState::new(TaskStatus::Running, String::new());
    }

    /// Another run that goes on from a state.
    fn continued(
        &mut self,
        agent: &Agent,
        left: State,
        base: RunInput,
        texts: Vec<String>,
    ) -> Result<BackgroundRun, ToolError> {
        let label = format!("{}.{}", self.id, self.parts);
        self.parts += 1;
        let input = texts.into_iter().fold(base, |input, text| input.message(text.as_str()));
        Ok(agent.spawn_background(label, left, input)?)
    }

    fn is_news(&self) -> bool {
        !self.told && self.now.status != TaskStatus::Running
    }

    /// How it stands counts as told; gives what it changed since the last time.
    fn tell(&mut self) -> (Option<ChildState>, Update) {
        if !self.is_news() {
            return (None, Update::none());
        }
        self.told = true;
        if let (Some(left), Some(given)) = (self.now.left.clone(), self.given.clone()) {
            self.given = Some(left.clone());
            return (Some(ChildState { given, left }), Update::none());
        }
        std::mem::replace(&mut self.now.changes, (None, Update::none()))
    }

    fn cut(&self) -> String {
        match self.now.said.char_indices().nth(TOLD) {
            Some((at, _)) => format!("{}\n[cut off here]", self.now.said.get(..at).unwrap_or_default()),
            None => self.now.said.clone(),
        }
    }

    fn heading(&self) -> String {
        format!("task_id: {}  agent: {}  status: {}", self.id, self.agent.name(), self.now.status.as_str())
    }

    fn json(&self) -> String {
        let (id, agent, status) = (&self.id, self.agent.name(), self.now.status);
        let out = match status {
            TaskStatus::Running => json!({"task_id": id, "agent": agent, "status": status}),
            TaskStatus::Interrupted => {
                let asked = self.now.paused.iter().flat_map(Paused::questions);
                let asked = asked.map(|q| json!({"tool": q.tool, "args": q.args, "description": q.text}));
                let note = "It waits for a person, and this run has no thread to ask one in; cancel it, or tell it to do \
                            something else with `update_async_task`.";
                let asked: Vec<_> = asked.collect();
                json!({"task_id": id, "agent": agent, "status": status, "interrupts": asked, "note": note})
            }
            TaskStatus::Error => json!({"task_id": id, "agent": agent, "status": status, "error": self.cut()}),
            _ => json!({"task_id": id, "agent": agent, "status": status, "result": self.cut()}),
        };
        out.to_string()
    }
}
