//! The tasks of an agent object.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::run::{Context, Outcome, RunError, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::{Handback, ToolContext, ToolError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::task::{TaskStatus, Work, go_on, shared, verdict};
use super::{BackgroundAgent, BackgroundLimits};

/// How many characters of a result are told.
const TOLD: usize = 80_000;

pub(super) struct Tasks {
    pub(super) agents: Vec<BackgroundAgent>,
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
    /// Whether the agent knows how it ended.
    told: bool,
    /// What it had when its result was last told.
    given: State,
    /// What it has come to.
    left: Option<State>,
    inbox: mpsc::UnboundedSender<String>,
    cancel: CancellationToken,
}

/// How a task ended, to be told.
pub(super) struct News {
    pub(super) text: String,
    pub(super) handback: Option<Handback>,
}

/// Whose tasks a run sees.
pub(super) fn owner(cx: &Context) -> String {
    cx.thread().map_or_else(|| format!("run:{}", cx.run_id()), |thread| format!("thread:{thread}"))
}

impl Tasks {
    pub(super) fn new(agents: Vec<BackgroundAgent>, limits: BackgroundLimits) -> Self {
        Self { agents, limits, list: Mutex::default() }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task and gives its id.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &str,
        description: &str,
        cx: &ToolContext,
    ) -> Result<String, ToolError> {
        let Some(agent) = self.agents.iter().find(|agent| agent.name == name).cloned() else {
            let known: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            return Err(ToolError::model(format!(
                "Error: there is no sub-agent {name}; there are {}.",
                known.join(", ")
            )));
        };
        let given = cx.state().fork(agent.agent.schema().clone())?;
        let owner = owner(cx);
        let id = cx.ids().next("task");
        let base = RunInput::default().with_extensions_of(cx);
        let input = shared(base.clone().message(description), &given);
        let mut list = self.list();
        self.make_room(&mut list, &owner)?;
        let (inbox, cancel) = self.work(&id, &agent, base, input);
        let (status, said, left) = (TaskStatus::Running, String::new(), None);
        list.push(Entry { owner, id: id.clone(), agent, status, said, told: false, given, left, inbox, cancel });
        Ok(id)
    }

    /// Refuses what is too much, and forgets what is old.
    fn make_room(&self, list: &mut Vec<Entry>, owner: &str) -> Result<(), ToolError> {
        self.check_running(list, owner)?;
        while list.iter().filter(|e| e.owner == owner).count() >= self.limits.remembered {
            let old = list.iter().position(|e| e.owner == owner && e.told && e.status != TaskStatus::Running);
            let Some(old) = old else {
                return Err(ToolError::model(
                    "Error: there are too many tasks whose results you have not seen; check them.",
                ));
            };
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

    fn work(
        self: &Arc<Self>,
        id: &str,
        agent: &BackgroundAgent,
        base: RunInput,
        input: RunInput,
    ) -> (mpsc::UnboundedSender<String>, CancellationToken) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let (tasks, token) = (Arc::downgrade(self), cancel.clone());
        let work = Work { tasks, id: id.to_owned(), agent: agent.agent.clone(), base, inbox, cancel: token };
        tokio::spawn(work.run(input));
        (sender, cancel)
    }

    /// Does something with a task of an owner.
    fn with<T>(&self, owner: &str, id: &str, act: impl FnOnce(&mut Vec<Entry>, usize) -> T) -> Result<T, ToolError> {
        let mut list = self.list();
        match list.iter().position(|entry| entry.owner == owner && entry.id == id.trim()) {
            Some(at) => Ok(act(&mut list, at)),
            None => {
                let id = id.trim();
                Err(ToolError::model(format!(
                    "Error: there is no task {id}; `list_async_tasks` names those there are."
                )))
            }
        }
    }

    /// How a task stands. A result that was not told before counts as told now.
    pub(super) fn check(&self, owner: &str, id: &str) -> Result<News, ToolError> {
        self.with(owner, id, |list, at| {
            let entry = list.get_mut(at)?;
            Some(News { text: entry.json(), handback: entry.tell() })
        })
        .and_then(|news| news.ok_or_else(|| ToolError::model("Error: the task is gone.")))
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
            let running = list.get(at).is_some_and(|entry| entry.status == TaskStatus::Running);
            if !running {
                self.check_running(list, &owner)?;
            }
            let Some(entry) = list.get_mut(at) else { return Err(ToolError::model("Error: the task is gone.")) };
            if running {
                // Its work reads the inbox once more before it ends, under the same lock.
                let _ = entry.inbox.send(text);
                return Ok("It hears this at its next model call.");
            }
            let Some(left) = entry.left.clone() else {
                return Err(ToolError::model("Error: the task has not let go yet; try again."));
            };
            let base = RunInput::default().with_extensions_of(cx);
            let input = go_on(base.clone(), &left, vec![text]);
            (entry.inbox, entry.cancel) = self.work(&entry.id, &entry.agent, base, input);
            (entry.status, entry.told, entry.left) = (TaskStatus::Running, false, None);
            entry.said.clear();
            Ok("It goes on with this.")
        })?
    }

    pub(super) fn cancel(&self, owner: &str, id: &str) -> Result<TaskStatus, ToolError> {
        self.with(owner, id, |list, at| {
            let Some(entry) = list.get_mut(at) else { return TaskStatus::Cancelled };
            if entry.status == TaskStatus::Running {
                entry.cancel.cancel();
                (entry.status, entry.told) = (TaskStatus::Cancelled, true);
                return TaskStatus::Running;
            }
            entry.status
        })
    }

    /// A line for each task.
    pub(super) fn lines(&self, owner: &str, only: Option<TaskStatus>) -> Vec<String> {
        let list = self.list();
        let of = list.iter().filter(|e| e.owner == owner && only.is_none_or(|status| status == e.status));
        of.map(|e| format!("- task_id: {}  agent: {}  status: {}", e.id, e.agent.name, e.status.word())).collect()
    }

    /// The results that were not told yet; they count as told now.
    pub(super) fn news(&self, owner: &str) -> Vec<News> {
        let mut list = self.list();
        let fresh = list.iter_mut().filter(|entry| entry.owner == owner && entry.is_news());
        fresh
            .map(|entry| {
                let (status, agent) = (entry.status.word(), &entry.agent.name);
                let head = "This is a message of the system, not of the user: a background task has ended.";
                let text =
                    format!("{head}\ntask_id: {}  agent: {agent}  status: {status}\n\n{}", entry.id, entry.cut());
                News { text, handback: entry.tell() }
            })
            .collect()
    }

    pub(super) fn has_news(&self, owner: &str) -> bool {
        self.list().iter().any(|entry| entry.owner == owner && entry.is_news())
    }

    /// A run of a task has ended; gives what is to be done next, if anything was said meanwhile.
    pub(super) fn ended(
        &self,
        id: &str,
        ended: Result<Outcome, Box<RunError>>,
        mut texts: Vec<String>,
        inbox: &mut mpsc::UnboundedReceiver<String>,
    ) -> Option<(State, Vec<String>)> {
        let mut list = self.list();
        let entry = list.iter_mut().find(|entry| entry.id == id)?;
        let (status, said) = verdict(&ended);
        let left = match ended {
            Ok(outcome) => outcome.state,
            Err(error) => error.state,
        };
        while let Ok(text) = inbox.try_recv() {
            texts.push(text);
        }
        if entry.status == TaskStatus::Running && !texts.is_empty() {
            return Some((left, texts));
        }
        if entry.status == TaskStatus::Running {
            entry.status = status;
        }
        (entry.said, entry.left) = (said, Some(left));
        None
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.list().iter().for_each(|entry| entry.cancel.cancel());
    }
}

impl Entry {
    fn is_news(&self) -> bool {
        !self.told && self.status != TaskStatus::Running
    }

    /// The result counts as told; gives what it changed since the last time.
    fn tell(&mut self) -> Option<Handback> {
        if !self.is_news() {
            return None;
        }
        self.told = true;
        let left = self.left.clone()?;
        let given = std::mem::replace(&mut self.given, left.clone());
        Some(Handback { given, left })
    }

    fn cut(&self) -> String {
        match self.said.char_indices().nth(TOLD) {
            Some((at, _)) => format!("{}\n[cut off here]", self.said.get(..at).unwrap_or_default()),
            None => self.said.clone(),
        }
    }

    fn json(&self) -> String {
        let mut out = serde_json::json!({"task_id": self.id, "agent": self.agent.name, "status": self.status.word()});
        let field = match self.status {
            TaskStatus::Running => None,
            TaskStatus::Error => Some("error"),
            TaskStatus::Success | TaskStatus::Cancelled => Some("result"),
        };
        if let (Some(field), Some(map)) = (field, out.as_object_mut()) {
            map.insert(field.to_owned(), self.cut().into());
        }
        out.to_string()
    }
}
