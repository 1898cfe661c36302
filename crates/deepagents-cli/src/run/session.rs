//! The thread of a run: a new one, or one that is gone on with.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::journal::{Journal, Record, RunStatus, ThreadInfo, ThreadQuery};
use deepagents::{FinishReason, MemoryJournal, Message, RunInput};
use serde_json::{Map, Value, json};

use crate::args::{AgentArgs, Approve, RedactedKind, RunArgs, hidden};
use crate::exit::WrongUsage;
use crate::threads::note::{self, root};
use crate::threads::{Noted, database, fresh, with_model_of};
use crate::tracing::Tracing;

/// What is said where there is nothing to go on with.
const NO_THREAD: &str = "there is no thread of this directory to go on with; name one with --resume";
/// The key under which a thread notes the trace that its caller had.
const CALLER: &str = "traceparent";
/// Records of a log that are looked through for its end: what was changed since stands behind it.
const LAST: u64 = 100;
/// What the model is told where there is nothing else to do.
const LEFT: &str = "This is a message of the system, not of the user: the background tasks of this conversation go on. Go on \
                    with their results when they are there.";

/// The thread that a run goes on with, and how decisions are made in it.
pub(super) struct Found {
    journal: Arc<dyn Journal>,
    info: ThreadInfo,
    /// The mode that it was run in last, if that was noted; that of a background task is the one of the thread it belongs to.
    mode: Option<Approve>,
    /// What was hidden in it, or in that thread.
    pub(super) redact: Vec<RedactedKind>,
}

impl Found {
    /// The thread that the options ask for, if they ask for one.
    pub(super) async fn open(args: &RunArgs) -> Result<Option<Self>> {
        if !args.resumes() {
            return Ok(None);
        }
        // Nothing is begun only to find that nothing is in it.
        if args.go_on && !database::is_there(&database::place(&args.database)?)? {
            bail!(NO_THREAD);
        }
        let Some(database) = database::open_existing(&args.database).await? else {
            bail!(WrongUsage("there are no threads yet to go on with".to_owned()));
        };
        let journal: Arc<dyn Journal> = Arc::new(database);
        let info = find(args, &*journal, &root(args.agent.directory())).await?;
        let (mut mode, mut parent) = (note::mode_of(&info), info.parent.clone());
        let mut redact = note::redaction_of(&info);
        while let (None, Some(above)) = (mode, parent.take()) {
            let Some(above) = journal.threads().get(&above).await? else { break };
            if redact.is_empty() {
                redact = note::redaction_of(&above);
            }
            (mode, parent) = (note::mode_of(&above), above.parent);
        }
        Ok(Some(Self { journal, info, mode, redact }))
    }

    /// The options with the model of the thread, where they name none.
    pub(super) fn with_model(&self, args: &AgentArgs) -> Option<AgentArgs> {
        with_model_of(args, &self.info)
    }

    /// Whether it was noted how decisions are made in it.
    pub(super) fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// Whether calls were decided about in it that nobody knows how.
    fn was_worked_on(&self) -> bool {
        self.info.status != RunStatus::Empty
    }
}

/// How decisions are made: as the options say, or as in the thread before. Where neither says anything of a thread that was
/// worked on, nobody decides in silence: a person is asked, or the run is refused.
pub(super) fn mode(args: &RunArgs, found: Option<&Found>, is_person_there: bool) -> Result<Approve> {
    let kept = || found.and_then(|found| found.mode);
    if let Some(mode) = args.approve.or_else(kept) {
        return Ok(mode);
    }
    match found {
        Some(found) if found.was_worked_on() && is_person_there => Ok(Approve::Ask),
        Some(found) if found.was_worked_on() => {
            bail!("how decisions are made in thread {} was not noted: say --approve ask, deny or auto", found.info.id)
        }
        _ => Ok(Approve::default()),
    }
}

/// What a run begins with.
pub(super) struct Session {
    /// Where its thread is kept, if it has one.
    pub(super) journal: Option<Arc<dyn Journal>>,
    /// The thread, where it outlives the program.
    pub(super) kept: Option<String>,
    pub(super) input: RunInput,
    /// Whether its last run has not ended: it may wait for an answer.
    pub(super) is_open: bool,
    /// Whether it has tasks in the background, or is one.
    pub(super) has_tasks: bool,
    /// Whether there is nothing to do but to go on with those.
    pub(super) waits: bool,
    /// Whether there is nothing to do at all: the last run has ended, and its answer is shown.
    pub(super) is_over: bool,
    /// What the caller's trace was of the process that worked on the thread before.
    pub(super) caller: Option<String>,
    /// What the thread is to say of itself once it is this program's.
    pub(super) note: Map<String, Value>,
}

impl Session {
    /// Finds the thread, or names a new one; no task means to go on with what was left unfinished. Nothing is written: the
    /// run notes what the thread is about, once it has it.
    pub(super) async fn open(
        args: &RunArgs,
        found: Option<Found>,
        (mode, redact): (Approve, &[RedactedKind]),
        task: Option<String>,
        (model, address): (&str, Option<&str>),
    ) -> Result<Self> {
        if args.no_save {
            let input = RunInput::new(task.unwrap_or_default()).thread("run");
            // Questions and tasks are kept in a thread, if only for as long as the program runs.
            let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
            return Ok(Self {
                journal: Some(journal),
                kept: None,
                input,
                has_tasks: false,
                is_open: false,
                waits: false,
                is_over: false,
                caller: None,
                note: Map::new(),
            });
        }
        let (journal, found) = match found {
            Some(Found { journal, info, .. }) => (journal, Some(info)),
            None => (Arc::new(database::open(&args.database).await?) as Arc<dyn Journal>, None),
        };
        let tasks = match &found {
            Some(info) => journal.threads().list(&ThreadQuery::default().parent(info.id.as_str())).await?,
            None => Vec::new(),
        };
        let noted = found.as_ref().and_then(|info| info.metadata.get(CALLER));
        let caller = noted.and_then(Value::as_str).map(str::to_owned);
        let is_task = found.as_ref().is_some_and(|info| info.parent.is_some());
        let stop = match &found {
            Some(info) if task.is_none() => last_stop(&*journal, info).await?,
            _ => None,
        };
        let is_unfinished = stop.as_ref().is_some_and(FinishReason::is_from_outside);
        let is_open = found.as_ref().is_some_and(|info| !matches!(info.status, RunStatus::Ended | RunStatus::Empty));
        let (mut waits, mut is_over) = (false, false);
        // A thread stays that of the directory where it was begun, and keeps its name.
        let has_root = found.as_ref().is_some_and(note::has_root);
        let has_name = found.as_ref().is_some_and(note::has_name);
        let (id, input) = match found {
            Some(info)
                if task.is_none()
                    && info.status == RunStatus::Ended
                    && !is_unfinished
                    && tasks.iter().any(|t| is_left(t, &info)) =>
            {
                waits = true;
                (info.id.clone(), RunInput::new(Message::harness(LEFT)).thread(&info.id))
            }
            Some(info) => {
                is_over = stop.is_some() && !is_unfinished;
                (info.id.clone(), go_on(&info, task.as_deref(), stop.is_some())?)
            }
            None => {
                let id = fresh(&*journal).await?;
                (id.clone(), RunInput::new(task.as_deref().unwrap_or_default()).thread(id))
            }
        };
        let root = Some(args.agent.directory()).filter(|_| !has_root);
        let mut note = Noted { root, model: Some((model, address)), approve: mode, redact }.metadata();
        if let Some(task) = task.as_deref().filter(|_| !has_name) {
            note::name(&mut note, &hidden(redact, task));
        }
        Ok(Self {
            journal: Some(journal),
            kept: Some(id),
            input,
            has_tasks: is_task || !tasks.is_empty(),
            is_open,
            waits,
            is_over,
            caller,
            note,
        })
    }

    /// Notes the caller's trace, or that there is none, for the process that goes on with the thread.
    pub(super) fn note_caller(&mut self, tracing: &Tracing) {
        if let Some(parent) = tracing.parent() {
            self.note.insert(CALLER.to_owned(), json!(parent.map(|parent| parent.to_string())));
        }
    }

    /// The thread, where it can be gone on with turn after turn.
    pub(super) fn thread(&self) -> Option<String> {
        self.kept.clone()
    }
}

/// The thread to go on with.
async fn find(args: &RunArgs, journal: &dyn Journal, root: &str) -> Result<ThreadInfo> {
    if let Some(id) = &args.resume {
        return database::find(journal, id).await;
    }
    let query = ThreadQuery::default().metadata("root", root).limit(1);
    let found = journal.threads().list(&query).await?.pop();
    found.ok_or_else(|| anyhow!(NO_THREAD))
}

/// How the last run of a thread has ended, where it has: by itself, so that there is an answer, or from outside, so that it
/// can be gone on with.
async fn last_stop(journal: &dyn Journal, info: &ThreadInfo) -> Result<Option<FinishReason>> {
    if info.status != RunStatus::Ended {
        return Ok(None);
    }
    let last = journal.read(&info.id, info.end.saturating_sub(LAST)..info.end).await?;
    // What a rewind has left behind is none of the thread any more.
    let (mut end, mut stops) = (info.end, None);
    for entry in last.into_iter().rev().filter(|entry| entry.position < info.end) {
        match entry.record {
            _ if entry.position >= end => {}
            Record::Rewind { to, .. } => end = to,
            Record::RunFinished { stop, .. } => {
                stops = Some(stop);
                break;
            }
            _ => {}
        }
    }
    Ok(stops.flatten().filter(|stop| *stop != FinishReason::Interrupted))
}

/// Goes on with a thread: with a new task, or with what its last run left or came to.
fn go_on(info: &ThreadInfo, task: Option<&str>, has_stopped: bool) -> Result<RunInput> {
    match task {
        Some(task) => Ok(RunInput::new(task).thread(&info.id)),
        None if matches!(info.status, RunStatus::Ended | RunStatus::Empty) && !has_stopped => {
            bail!("the last run of thread {} has ended; say what is to be done next, such as \"Go on\"", info.id)
        }
        None => Ok(RunInput::resume(&info.id)),
    }
}

/// Whether a task in the background has not ended, or ended after its thread was run last.
fn is_left(task: &ThreadInfo, thread: &ThreadInfo) -> bool {
    !matches!(task.status, RunStatus::Ended | RunStatus::Failed) || task.updated_at >= thread.updated_at
}
