//! The thread of a run: new or resumed.

use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::core::journal::{Journal, Record, RunStatus, ThreadInfo, ThreadQuery};
use deepagents::{FinishReason, MemoryJournal, Message, RunInput};
use serde_json::{Map, Value, json};

use crate::args::{Approve, RedactedKind, RunArgs, hidden};
use crate::exit::WrongUsage;
use crate::threads::note::{self, root};
use crate::threads::{Noted, database, fresh};
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
    pub(super) info: ThreadInfo,
    /// The mode of its last run, if noted; for a background task, the mode of its parent thread.
    pub(super) mode: Option<Approve>,
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
            bail!(WrongUsage::new(NO_THREAD.to_owned()));
        }
        let Some(database) = database::open_existing(&args.database).await? else {
            bail!(WrongUsage::new("there are no threads to continue yet"));
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
    pub(super) journal: Arc<dyn Journal>,
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
    /// Whether its last run waits for decisions, which the new task leaves unmade.
    pub(super) leaves_questions: bool,
    /// The caller's trace noted by the previous process.
    pub(super) caller: Option<String>,
    /// The metadata for the thread once this program owns it.
    pub(super) note: Map<String, Value>,
}

impl Session {
    /// A session without a past.
    fn new(journal: Arc<dyn Journal>, kept: Option<String>, input: RunInput) -> Self {
        Self {
            journal,
            kept,
            input,
            is_open: false,
            has_tasks: false,
            waits: false,
            is_over: false,
            leaves_questions: false,
            caller: None,
            note: Map::new(),
        }
    }

    /// Resumes the thread that was found, or chooses an ID for a new one. Without a task, the run resumes unfinished
    /// work. Nothing is written here: the run stores the metadata once it owns the thread.
    pub(super) async fn open(
        args: &RunArgs,
        found: Option<Found>,
        (mode, redact): (Approve, &[RedactedKind]),
        task: Option<String>,
        (model, address): (&str, Option<&str>),
    ) -> Result<Self> {
        let text = task.as_deref().unwrap_or_default();
        if args.no_save {
            // Questions and background tasks need a thread, even if it ends with the program.
            return Ok(Self::new(Arc::new(MemoryJournal::new()), None, RunInput::new(text).thread("run")));
        }
        // A thread keeps the directory in which it was started, and its title.
        let has_root = found.as_ref().is_some_and(|found| note::has_root(&found.info));
        let has_name = found.as_ref().is_some_and(|found| note::has_name(&found.info));
        let mut session = match found {
            Some(Found { journal, info, .. }) => Self::resume(journal, &info, task.as_deref()).await?,
            None => {
                let journal: Arc<dyn Journal> = Arc::new(database::open(&args.database).await?);
                let id = fresh(&*journal).await?;
                let input = RunInput::new(text).thread(&id);
                Self::new(journal, Some(id), input)
            }
        };
        let root = Some(args.agent.directory()).filter(|_| !has_root);
        session.note = Noted { root, model: Some((model, address)), approve: mode, redact }.metadata();
        if let Some(task) = task.filter(|_| !has_name) {
            note::name(&mut session.note, &hidden(redact, &task));
        }
        Ok(session)
    }

    /// Resumes a thread: with a new task, or with the unfinished work or the answer of its last run.
    async fn resume(journal: Arc<dyn Journal>, info: &ThreadInfo, task: Option<&str>) -> Result<Self> {
        let tasks = database::tasks_of(&*journal, info).await?;
        let stop = if task.is_none() { last_stop(&*journal, info).await? } else { None };
        let is_unfinished = stop.as_ref().is_some_and(FinishReason::is_from_outside);
        let has_ended = matches!(info.status, RunStatus::Ended | RunStatus::Empty);
        let waits = task.is_none()
            && info.status == RunStatus::Ended
            && !is_unfinished
            && tasks.iter().any(|task| is_unfinished_task(task, info));
        let input = match task {
            Some(task) => RunInput::new(task).thread(&info.id),
            None if waits => RunInput::new(Message::harness(LEFT)).thread(&info.id),
            None if has_ended && stop.is_none() => {
                bail!("the last run of thread {} has ended; say what to do next, such as \"Go on\"", info.id)
            }
            None => RunInput::resume(&info.id),
        };
        Ok(Self {
            is_open: !has_ended,
            has_tasks: info.parent.is_some() || !tasks.is_empty(),
            waits,
            is_over: !waits && stop.is_some() && !is_unfinished,
            leaves_questions: task.is_some() && info.status == RunStatus::Interrupted,
            caller: info.metadata.get(CALLER).and_then(Value::as_str).map(str::to_owned),
            ..Self::new(journal, Some(info.id.clone()), input)
        })
    }

    /// Notes the caller's trace, or that there is none, for the process that resumes the thread.
    pub(super) fn note_caller(&mut self, tracing: &Tracing) {
        if let Some(parent) = tracing.parent() {
            self.note.insert(CALLER.to_owned(), json!(parent.map(|parent| parent.to_string())));
        }
    }
}

/// Finds the thread to resume.
async fn find(args: &RunArgs, journal: &dyn Journal, root: &str) -> Result<ThreadInfo> {
    if let Some(id) = &args.resume {
        return database::find(journal, id).await;
    }
    let query = ThreadQuery::default().metadata("root", root).limit(1);
    let found = journal.threads().list(&query).await?.pop();
    found.ok_or_else(|| WrongUsage::new(NO_THREAD.to_owned()).into())
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

/// Whether a background task has not ended, or ended after the last run of its thread.
fn is_unfinished_task(task: &ThreadInfo, thread: &ThreadInfo) -> bool {
    !matches!(task.status, RunStatus::Ended | RunStatus::Failed) || task.updated_at >= thread.updated_at
}
