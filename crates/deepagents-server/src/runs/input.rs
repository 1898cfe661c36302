//! What is to be done for a client's request: a change of the thread alone, or a run.

use deepagents::RunInput;
use deepagents_core::agent::{RewindPlan, ThreadAccess};
use deepagents_core::error::Error as CoreError;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::{LogEntry, LogPosition, Record, RunStatus, ThreadInfo};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::run::Node;
use deepagents_core::state::{MessagesChannel, State, Update};
use serde_json::{Map, Value};

use super::create::RunCreate;
use super::live::LiveRun;
use super::record::RunRecord;
use super::run_input::{Start, run_input};
use crate::app::App;
use crate::error::Result;
use crate::threads::{ThreadRecord, completed, earlier_position, has_next};
use crate::wire::{Call, open_calls, read_input, read_other_channels, read_update};

/// What remains to be done for a run.
pub(super) enum Prepared {
    Run(Box<RunInput>),
    /// Nothing: the state is final.
    Resolved(State),
}

pub(super) async fn prepare(app: &App, run: &LiveRun, record: &RunRecord, info: &ThreadInfo) -> Result<Prepared> {
    let (create, threads) = (&record.kwargs, app.threads_of(info)?);
    let attempted = Attempted::read(app, run, info).await?;
    let (earlier, at) = match create.checkpoint() {
        Some(checkpoint) if create.is_about_state() => (earlier_position(app, info, checkpoint).await?, None),
        Some(checkpoint) => (None, Some(app.entries(info).await?.find(checkpoint)?.1.clone())),
        None => (None, None),
    };
    let place = earlier.or_else(|| at.as_ref().map(|at| at.state.unwrap_or(0)));
    let (mut input, mut update) = (None, None);
    if let Some(values) = &create.input {
        input = Some(completed(&threads, &info.id, place, values).await?);
    }
    if let Some(values) = create.update() {
        update = Some(completed(&threads, &info.id, place, values).await?);
    }
    // There may be no work to resume. If the change was made before, it is all there was to do.
    let only_changes = create.only_updates()
        && !attempted.began
        && (attempted.has_changed(run) || !has_work(app, info, earlier).await?);
    let read = if only_changes { read_update } else { read_other_channels };
    if let Some(position) = earlier.filter(|position| !attempted.went_back(*position)) {
        let target = update.as_ref().map(|update| read(threads.schema(), update)).transpose()?;
        let target = target.unwrap_or_else(Update::none);
        let plan = async |_, _| Ok::<_, CoreError>(RewindPlan { left: Update::none(), target });
        threads.rewind_with(&info.id, position, plan).await?;
    }
    if create.ends() {
        resolve(&threads, info).await?;
    } else if only_changes {
        if let Some(update) = update.as_ref().filter(|_| earlier.is_none()) {
            attempted.change(&threads, run, read(threads.schema(), update)?).await?;
        }
    } else if let Some(given) = without_message(&threads, info, create, &attempted, input.as_deref()).await? {
        attempted.change(&threads, run, given).await?;
    } else {
        let start = Start { input, update, attempted, earlier, at };
        return Ok(Prepared::Run(Box::new(run_input(app, run, info, create, start).await?)));
    }
    Ok(Prepared::Resolved(threads.state(&info.id).await?))
}

/// Returns the change that an input makes if neither it nor the thread has a message: there is nothing to send to a
/// model.
async fn without_message(
    threads: &ThreadAccess,
    info: &ThreadInfo,
    create: &RunCreate,
    attempted: &Attempted,
    input: Option<&Map<String, Value>>,
) -> Result<Option<Update>> {
    let Some(input) = input.filter(|_| create.resume().is_none() && !attempted.began) else { return Ok(None) };
    let given = read_input(threads.schema(), input)?;
    let says_something = given.get::<MessagesChannel>().any(|ops| !ops.is_empty());
    let is_silent = !says_something && threads.state(&info.id).await?.messages().is_empty();
    Ok(is_silent.then_some(given))
}

/// Whether a run can resume work at an earlier position, or where the thread stands.
async fn has_work(app: &App, info: &ThreadInfo, earlier: Option<LogPosition>) -> Result<bool> {
    if earlier.is_some() {
        return has_next(app, info, earlier).await;
    }
    Ok(!matches!(info.status, RunStatus::Empty | RunStatus::Ended) || ThreadRecord::read(info).is_stopped())
}

/// What earlier attempts to execute a run, in this process or another one, have left in the log.
pub(super) struct Attempted {
    thread: String,
    /// The log position at which the first attempt began.
    from: LogPosition,
    since: Vec<LogEntry>,
    /// Whether the log contains the start of the run, and so its messages, limits and decisions.
    pub(super) began: bool,
}

impl Attempted {
    async fn read(app: &App, run: &LiveRun, info: &ThreadInfo) -> Result<Self> {
        let from = run.record().from.unwrap_or(info.end);
        let since = if info.end <= from { Vec::new() } else { app.journal.read(&info.id, from..info.end).await? };
        let began = since.iter().any(|entry| begins(run, &entry.record));
        Ok(Self { thread: info.id.clone(), from, since, began })
    }

    fn has_changed(&self, run: &LiveRun) -> bool {
        self.since.iter().any(|entry| entry.record.is_change_for(&run.id))
    }

    fn went_back(&self, to: LogPosition) -> bool {
        self.since.iter().any(|entry| matches!(entry.record, Record::Rewind { to: at, .. } if at == to))
    }

    /// Changes the state for the run's request, unless an earlier attempt has.
    pub(super) async fn change(&self, threads: &ThreadAccess, run: &LiveRun, update: Update) -> Result<()> {
        if !update.is_empty() && !self.began {
            threads.update_state_once(&self.thread, &run.id, self.from, update).await?;
        }
        Ok(())
    }

    /// Makes the thread continue from an earlier position, unless an earlier attempt has.
    pub(super) async fn go_back(&self, threads: &ThreadAccess, to: LogPosition) -> Result<()> {
        if !self.began && !self.went_back(to) {
            threads.rewind(&self.thread, to).await?;
        }
        Ok(())
    }
}

/// Whether a record starts or resumes a run. A change of the state is logged as a run of its own.
fn begins(run: &LiveRun, record: &Record) -> bool {
    match record {
        Record::RunStarted { run: started, .. } => *started == run.id,
        Record::RunResumed { .. } => true,
        _ => false,
    }
}

/// Ends a thread in its current state. Pending calls get results that say they were not made.
async fn resolve(threads: &ThreadAccess, info: &ThreadInfo) -> Result<()> {
    let state = threads.state(&info.id).await?;
    let text = "This call was not made: a person marked the conversation as resolved.";
    let result = |call: Call<'_>| MessageOp::put(Message::Tool(ToolMessage::synthetic(call.id, call.name, text)));
    let results = open_calls(&state).map(|(_, open)| open.into_iter().map(result).collect()).unwrap_or_default();
    let update = Update::new::<MessagesChannel>(results).with::<ActionRequests>(vec![ActionRequestChange::Clear]);
    threads.update_state_as(&info.id, Node::End, update).await?;
    Ok(())
}
