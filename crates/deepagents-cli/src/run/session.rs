//! The thread of a run: new or resumed.

use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::core::journal::{Journal, Record, RunStatus, ThreadInfo, ThreadQuery};
use deepagents::{FinishReason, MemoryJournal, Message, RunInput};
use serde_json::{Map, Value, json};

use crate::args::{AgentArgs, Approve, RedactedKind, RunArgs, hidden};
use crate::exit::WrongUsage;
use crate::threads::note::{self, root};
use crate::threads::{Noted, database, fresh, with_model_of};
use crate::tracing::Tracing;

/// The error if there is no thread to resume.
const NO_THREAD: &str = "this directory has no thread to continue; name one with --resume";
/// Metadata key for the caller's trace.
const CALLER: &str = "traceparent";
/// How many records at the end of a log are searched for the end of the last run; later changes come after it.
const MAX_RECORDS: u64 = 100;
/// The message for the model if there is nothing to do but wait for background tasks.
const LEFT: &str = "This is a message of the system, not of the user: the background tasks of this conversation go on. Go on \
                    with their results when they are there.";

/// The thread to resume, and how decisions are made in it.
pub(super) struct Found {
    journal: Arc<dyn Journal>,
    info: ThreadInfo,
    /// The mode of its last run, if noted; for a background task, the mode of its parent thread.
    mode: Option<Approve>,
    /// What it redacts, or else its parent thread.
    pub(super) redact: Vec<RedactedKind>,
}

impl Found {
    /// Finds the thread that the options ask for, if they ask for one.
    pub(super) async fn open(args: &RunArgs) -> Result<Option<Self>> {
        if !args.resumes() {
            return Ok(None);
        }
        // Do not create a database only to find it empty.
        if args.go_on && !database::is_there(&database::place(&args.database)?)? {
            bail!(WrongUsage(NO_THREAD.to_owned()));
        }
        let Some(database) = database::open_existing(&args.database).await? else {
            bail!(WrongUsage("there are no threads to continue yet".to_owned()));
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

    /// Returns the options with the thread's model, if they name none.
    pub(super) fn with_model(&self, args: &AgentArgs) -> Option<AgentArgs> {
        with_model_of(args, &self.info)
    }

    /// Whether the thread or its parent notes how decisions are made.
    pub(super) fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// Whether the thread has had a run.
    fn was_worked_on(&self) -> bool {
        self.info.status != RunStatus::Empty
    }
}

/// Returns how decisions are made: as the options say, else as noted in the thread. For a thread that has had a run
/// without noting it, nothing is decided silently: the user is asked, or the run is refused.
pub(super) fn mode(args: &RunArgs, found: Option<&Found>, is_person_there: bool) -> Result<Approve> {
    let kept = || found.and_then(|found| found.mode);
    if let Some(mode) = args.approve.or_else(kept) {
        return Ok(mode);
    }
    match found {
        Some(found) if found.was_worked_on() && is_person_there => Ok(Approve::Ask),
        Some(found) if found.was_worked_on() => {
            bail!("the approval mode of thread {} was not recorded: give --approve ask, deny or auto", found.info.id)
        }
        _ => Ok(Approve::default()),
    }
}

/// What a run starts with.
pub(super) struct Session {
    /// Where its thread is stored.
    pub(super) journal: Option<Arc<dyn Journal>>,
    /// The thread's ID, if it outlives the program.
    pub(super) kept: Option<String>,
    pub(super) input: RunInput,
    /// Whether its last run has not ended; it may wait for an answer.
    pub(super) is_open: bool,
    /// Whether the thread has background tasks, or is one.
    pub(super) has_tasks: bool,
    /// Whether there is nothing to do but wait for background tasks.
    pub(super) waits: bool,
    /// Whether there is nothing to do at all: the last run has ended, and its answer is shown.
    pub(super) is_over: bool,
    /// The caller's trace noted by the previous process.
    pub(super) caller: Option<String>,
    /// The metadata for the thread once this program owns it.
    pub(super) note: Map<String, Value>,
}

impl Session {
    /// Finds the thread or chooses an ID for a new one. Without a task, the run resumes unfinished work. Nothing is
    /// written here: the run stores the metadata once it owns the thread.
    pub(super) async fn open(
        args: &RunArgs,
        found: Option<Found>,
        (mode, redact): (Approve, &[RedactedKind]),
        task: Option<String>,
        (model, address): (&str, Option<&str>),
    ) -> Result<Self> {
        if args.no_save {
            let input = RunInput::new(task.unwrap_or_default()).thread("run");
            // Questions and background tasks need a thread, even if it ends with the program.
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
        // A thread keeps the directory in which it was started, and its title.
        let has_root = found.as_ref().is_some_and(note::has_root);
        let has_name = found.as_ref().is_some_and(note::has_name);
        let (id, input) = match found {
            Some(info)
                if task.is_none()
                    && info.status == RunStatus::Ended
                    && !is_unfinished
                    && tasks.iter().any(|t| is_unfinished_task(t, &info)) =>
            {
                waits = true;
                (info.id.clone(), RunInput::new(Message::harness(LEFT)).thread(&info.id))
            }
            Some(info) => {
                is_over = stop.is_some() && !is_unfinished;
                (info.id.clone(), resume_input(&info, task.as_deref(), stop.is_some())?)
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

    /// Notes the caller's trace, or that there is none, for the process that resumes the thread.
    pub(super) fn note_caller(&mut self, tracing: &Tracing) {
        if let Some(parent) = tracing.parent() {
            self.note.insert(CALLER.to_owned(), json!(parent.map(|parent| parent.to_string())));
        }
    }

    /// Returns the thread, if it can be continued turn by turn.
    pub(super) fn thread(&self) -> Option<String> {
        self.kept.clone()
    }
}

/// Finds the thread to resume.
async fn find(args: &RunArgs, journal: &dyn Journal, root: &str) -> Result<ThreadInfo> {
    if let Some(id) = &args.resume {
        return database::find(journal, id).await;
    }
    let query = ThreadQuery::default().metadata("root", root).limit(1);
    let found = journal.threads().list(&query).await?.pop();
    found.ok_or_else(|| WrongUsage(NO_THREAD.to_owned()).into())
}

/// Returns how a thread's last run ended, if it has: on its own, so that there is an answer, or from outside, so that
/// it can be resumed.
async fn last_stop(journal: &dyn Journal, info: &ThreadInfo) -> Result<Option<FinishReason>> {
    if info.status != RunStatus::Ended {
        return Ok(None);
    }
    let last = journal.read(&info.id, info.end.saturating_sub(MAX_RECORDS)..info.end).await?;
    // Records undone by a rewind no longer belong to the thread.
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

/// Returns the input that resumes a thread: with a new task, or with the unfinished work or the answer of its last run.
fn resume_input(info: &ThreadInfo, task: Option<&str>, has_stopped: bool) -> Result<RunInput> {
    match task {
        Some(task) => Ok(RunInput::new(task).thread(&info.id)),
        None if matches!(info.status, RunStatus::Ended | RunStatus::Empty) && !has_stopped => {
            bail!("the last run of thread {} has ended; say what to do next, such as \"Go on\"", info.id)
        }
        None => Ok(RunInput::resume(&info.id)),
    }
}

/// Whether a background task has not ended, or ended after the last run of its thread.
fn is_unfinished_task(task: &ThreadInfo, thread: &ThreadInfo) -> bool {
    !matches!(task.status, RunStatus::Ended | RunStatus::Failed) || task.updated_at >= thread.updated_at
}
