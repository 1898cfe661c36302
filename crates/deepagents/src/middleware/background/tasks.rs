//! The tasks of an agent object: starting, inspecting and resuming them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deepagents_core::agent::{Agent, BackgroundError, BackgroundTask, BackgroundTasks, NewTask};
use deepagents_core::error::{Error, Result};
use deepagents_core::journal::JournalError;
use deepagents_core::run::{RunHandle, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{ChildState, ToolContext, ToolError, ToolOutput};

use super::BackgroundLimits;
use super::channel::{KnownTask, KnownTaskChange, KnownTasks};
use super::closure::{Closures, lost};
use super::task::{TaskState, TaskStatus};
use crate::digest::sha256_hex;
use crate::shared::lock;
use crate::subagents::{Depth, DynSubAgent, Registry, SubAgentTask};

/// Note for the model if the log lacks the state against which a task's changes are merged.
const PRUNED: &str = "[not kept: what it changed, since the history of its thread was removed]";
/// Note for the model if the log of a task cannot be read.
const UNREADABLE: &str = "[not kept: what it changed, since its log cannot be read]";

/// Returns the error if this program can never read the log, or `None` if a retry may succeed.
fn unreadable(error: &Error) -> Option<&JournalError> {
    match error {
        Error::Journal(
            error @ (JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::NoState { .. }),
        ) => Some(error),
        _ => None,
    }
}

pub(super) struct Tasks {
    pub(super) registry: Arc<Registry>,
    /// The depth to which sub-agents may delegate.
    depth: usize,
    limits: BackgroundLimits,
    pub(super) closures: Closures,
    /// The threads of the tasks that this object has started, and whether their ends were delivered; oldest first.
    started: Mutex<Vec<(String, bool)>>,
}

impl Tasks {
    pub(super) fn new(registry: Arc<Registry>, depth: usize, limits: BackgroundLimits) -> Self {
        Self { registry, depth, limits, closures: Closures::default(), started: Mutex::default() }
    }

    /// Returns the agent with this name, if its work can be resumed.
    fn built(&self, state: &State, name: &str) -> Result<Agent, ToolError> {
        let agent = self.registry.find(state, name)?;
        let built = agent.background_agent().map(|built| built.agent().clone());
        built.ok_or_else(|| ended_for_good(name))
    }

    /// Returns the state of all tasks of a conversation as far as possible without reading their logs.
    pub(super) async fn survey(&self, home: &BackgroundTasks, state: &State) -> Result<Vec<TaskState>> {
        let known = state.get::<KnownTasks>().cloned().unwrap_or_default();
        let mut tasks = HashMap::new();
        if known.iter().any(|task| !task.unlogged) {
            tasks.extend(home.list().await?.into_iter().map(|task| (task.id.clone(), task)));
        }
        let state = |task: KnownTask| {
            if task.unlogged {
                let result = self.closures.result(&home.thread(&task.id));
                return Some(TaskState::of_closure(task, result));
            }
            match tasks.remove(&task.id) {
                Some(thread) => Some(TaskState::of_task(task, thread)),
                // A task of an earlier process, which had it in memory.
                None if home.is_private() && task.told.is_none() => Some(TaskState::of_closure(task, Some(lost()))),
                None => None,
            }
        };
        Ok(known.into_iter().filter_map(state).collect())
    }

    /// Reads the log of a task. If the log is unreadable, the task has failed and the conversation continues without
    /// it.
    pub(super) async fn read(&self, state: &State, task: &mut TaskState) -> Result<()> {
        let Some(thread) = task.task.clone() else { return Ok(()) };
        let Ok(agent) = self.built(state, &task.known.agent) else {
            task.status = TaskStatus::Error;
            task.text = format!("There is no sub-agent {} any more.", task.known.agent);
            return Ok(());
        };
        match thread.report(agent.schema().clone(), Some(task.end)).await {
            Ok(report) => task.read(report),
            Err(error) => match unreadable(&error) {
                Some(why) => task.cannot_be_read(why),
                None => return Err(error),
            },
        }
        Ok(())
    }

    /// Returns the changes of a task since they were last handed back.
    pub(super) async fn changes(
        &self,
        state: &State,
        task: &TaskState,
    ) -> Result<(Option<ChildState>, Update, &'static str)> {
        if let Some(result) = &task.result {
            return Ok((result.child_state.clone(), result.update.clone(), ""));
        }
        let (Some(thread), Some(report), true) = (&task.task, &task.report, task.status.is_ended()) else {
            return Ok((None, Update::none(), ""));
        };
        let Ok(agent) = self.built(state, &task.known.agent) else { return Ok((None, Update::none(), "")) };
        // The first record of its log is its initial state.
        let given = thread.report(agent.schema().clone(), Some(task.known.joined.unwrap_or(1))).await;
        match given {
            Ok(given) => Ok((Some(ChildState { given: given.state, left: report.state.clone() }), Update::none(), "")),
            Err(Error::Journal(JournalError::NoState { .. })) => Ok((None, Update::none(), PRUNED)),
            Err(error) if unreadable(&error).is_some() => Ok((None, Update::none(), UNREADABLE)),
            Err(error) => Err(error),
        }
    }

    /// Resumes abandoned tasks.
    pub(super) async fn resume_abandoned(
        &self,
        home: &BackgroundTasks,
        state: &State,
        tasks: &mut [TaskState],
    ) -> Result<()> {
        home.follow();
        for task in tasks {
            let Some(thread) = task.task.clone().filter(BackgroundTask::is_abandoned) else { continue };
            if !task.is_unreadable {
                self.read(state, task).await?;
            }
            if task.is_unreadable {
                continue;
            }
            let Ok(agent) = self.built(state, &task.known.agent) else {
                // Nothing can resume it.
                task.status = TaskStatus::Error;
                continue;
            };
            let input = RunInput::resume(thread.thread.as_str()).with(Depth(self.depth));
            home.run(&task.known.id, &agent, input, usize::MAX).map_err(Error::other)?;
        }
        Ok(())
    }

    /// Charges what tasks have spent since the last charge.
    pub(super) async fn count(
        &self,
        home: &BackgroundTasks,
        state: &State,
        tasks: &mut [TaskState],
    ) -> Result<Vec<KnownTaskChange>> {
        let mut changes = Vec::new();
        for task in tasks {
            let counted = task.known.counted;
            if task.task.is_none() || counted.map(|(at, _)| at) == Some(task.end) {
                continue;
            }
            if task.report.is_none() && !task.is_unreadable {
                self.read(state, task).await?;
            }
            if task.is_unreadable {
                // Its usage is unknown; do not read it again until it has progressed.
                let spent = counted.map(|(_, spent)| spent).unwrap_or_default();
                changes.push(KnownTaskChange::Count(task.known.id.clone(), task.end, spent));
                continue;
            }
            let (Some(thread), Some(report)) = (&task.task, &task.report) else { continue };
            let new = report.spent.since(&counted.map(|(_, spent)| spent).unwrap_or_default());
            if !new.is_nothing() {
                home.count(thread, &new);
                changes.push(KnownTaskChange::Count(task.known.id.clone(), task.end, report.spent));
            }
        }
        Ok(changes)
    }

    /// Records whether the end of a task was delivered.
    pub(super) fn note_told(&self, thread: &str, told: bool) {
        if let Some(entry) = lock(&self.started).iter_mut().find(|(known, _)| known == thread) {
            entry.1 = told;
        }
    }

    /// Starts a task and returns its id. If the call is repeated after a crash, it finds the task that it has started.
    pub(super) async fn start(
        &self,
        name: &str,
        description: String,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let agent = self.registry.find(cx.state(), name)?;
        let messages = cx.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at)).map(|message| message.id());
        let (home, id) = (cx.background(), task_id(answer.unwrap_or_default(), cx.provider_call_id()));
        let output = |changes: Vec<KnownTaskChange>| {
            ToolOutput::text(format!("Started. task_id: {id}")).with_update(Update::new::<KnownTasks>(changes))
        };
        let known = KnownTask { id: id.clone(), agent: name.to_owned(), ..KnownTask::default() };
        if home.get(&id).await?.is_some_and(|task| task.end > 0) {
            return Ok(output(vec![KnownTaskChange::Start(known)]));
        }
        let tasks = self.survey(&home, cx.state()).await?;
        let limit = self.room_to_run(&home, &tasks)?;
        let mut changes = self.make_room(&home, &tasks).await?;
        let unlogged = self.launch(&home, &id, &agent, SubAgentTask::new(description, self.depth), limit, cx).await?;
        lock(&self.started).push((home.thread(&id), false));
        changes.push(KnownTaskChange::Start(KnownTask { unlogged, ..known }));
        Ok(output(changes))
    }

    async fn launch(
        &self,
        home: &BackgroundTasks,
        id: &str,
        agent: &Arc<dyn DynSubAgent>,
        task: SubAgentTask,
        limit: usize,
        cx: &ToolContext,
    ) -> Result<bool, ToolError> {
        let Some(built) = agent.background_agent() else {
            self.closures.start(home.thread(id), agent.clone(), task, cx);
            return Ok(true);
        };
        let (state, input) = built.start(&task, cx)?;
        let (id, name, agent) = (id.to_owned(), agent.name().to_owned(), built.agent().clone());
        let run = home.start(NewTask { id, name, agent, state, input }, limit).map_err(|error| self.refused(&error))?;
        // If this call does not complete, nothing would know about the task.
        let unknown = CancelOnDrop(Some(&run));
        wait_for_start(&run).await?;
        unknown.disarm();
        Ok(false)
    }

    /// Returns how many agents may run in this process when one more is started.
    fn room_to_run(&self, home: &BackgroundTasks, tasks: &[TaskState]) -> Result<usize, ToolError> {
        let here = home.running();
        let elsewhere = |task: &&TaskState| task.status == TaskStatus::Running && !here.contains(&task.known.id);
        let elsewhere = tasks.iter().filter(elsewhere).count();
        let limit = self.limits.at_once.saturating_sub(elsewhere);
        if here.len() >= limit {
            return Err(self.refused(&BackgroundError::TooMany { running: here.len() + elsewhere }));
        }
        Ok(limit)
    }

    fn refused(&self, error: &BackgroundError) -> ToolError {
        ToolError::model(match error {
            BackgroundError::TooMany { running } => {
                let running = running.max(&self.limits.at_once);
                format!("Error: {running} tasks are running; wait for one, or cancel one.")
            }
            other => format!("Error: {other}."),
        })
    }

    /// Forgets old tasks to make room for a new one.
    async fn make_room(&self, home: &BackgroundTasks, tasks: &[TaskState]) -> Result<Vec<KnownTaskChange>, ToolError> {
        let mut forgotten = Vec::new();
        let mut old = tasks.iter().filter(|task| task.status.is_ended() && !task.is_news());
        // Tasks that other calls of this turn have started are not known yet.
        let known = |id: &String| tasks.iter().any(|task| task.known.id == *id);
        let started = home.running().iter().filter(|id| !known(id)).count();
        while (tasks.len() + started).saturating_sub(forgotten.len()) >= self.limits.remembered {
            let Some(task) = old.next() else {
                return Err(ToolError::model(
                    "Error: there are too many tasks whose results you have not seen; check them.",
                ));
            };
            self.forget(home, &home.thread(&task.known.id)).await?;
            forgotten.push(KnownTaskChange::Forget(task.known.id.clone()));
        }
        while lock(&self.started).len() >= self.limits.in_all {
            let mut old = lock(&self.started).iter().find(|(_, told)| *told).map(|(thread, _)| thread.clone());
            if old.is_none() {
                // Nothing can be delivered to a finished run without a thread.
                let own = home.thread("");
                let others: Vec<String> = lock(&self.started).iter().map(|(thread, _)| thread.clone()).collect();
                for thread in others.into_iter().filter(|thread| !thread.starts_with(&own)) {
                    if home.has_ended(&thread).await? {
                        old = Some(thread);
                        break;
                    }
                }
            }
            let Some(old) = old else { break };
            self.forget(home, &old).await?;
        }
        Ok(forgotten)
    }

    async fn forget(&self, home: &BackgroundTasks, thread: &str) -> Result<(), ToolError> {
        self.closures.forget(thread);
        lock(&self.started).retain(|(known, _)| known != thread);
        Ok(home.delete(thread).await?)
    }

    /// Starts another run of an inactive task: with a new message, or resumed.
    pub(super) async fn start_run(
        &self,
        home: &BackgroundTasks,
        task: &TaskState,
        input: RunInput,
        cx: &ToolContext,
    ) -> Result<RunHandle, ToolError> {
        let agent = self.built(cx.state(), &task.known.agent)?;
        let tasks = self.survey(home, cx.state()).await?;
        let limit = match task.status {
            // It already counts towards the limit.
            TaskStatus::Interrupted => usize::MAX,
            _ => self.room_to_run(home, &tasks)?,
        };
        self.note_told(&home.thread(&task.known.id), false);
        let input = input.with(Depth(self.depth));
        let run = home.run(&task.known.id, &agent, input, limit).map_err(|error| self.refused(&error))?;
        wait_for_start(&run).await?;
        Ok(run)
    }
}

/// Cancels a run on drop unless it is disarmed.
struct CancelOnDrop<'a>(Option<&'a RunHandle>);

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.0 {
            run.cancel();
        }
    }
}

/// Returns the error for a message to a task whose work cannot be resumed.
pub(super) fn ended_for_good(agent: &str) -> ToolError {
    ToolError::model(format!("Error: {agent} cannot be told anything more; start another task."))
}

/// Waits until the start of a run is recorded.
async fn wait_for_start(run: &RunHandle) -> Result<(), ToolError> {
    let _ = run.snapshot().await;
    if !run.is_finished() {
        return Ok(());
    }
    match run.outcome().await {
        Err(failure) if matches!(failure.kind(), "answer" | "input" | "journal") => {
            Err(ToolError::model(format!("Error: {failure}")))
        }
        _ => Ok(()),
    }
}

/// Returns the id of the task that a call of an answer starts: the same if the call is repeated, and different for
/// every other call, even in a fork of the thread.
pub(super) fn task_id(answer: &str, call: &str) -> String {
    format!("task_{}", sha256_hex(format!("{answer}:{call}"), 5))
}
