//! Threads with work left: stopped part way, or changed to such a state.

use deepagents_core::interrupt::ActionRequests;
use deepagents_core::journal::{LogPosition, RunStatus, ThreadInfo, load};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::state::{MessagesChannel, State, Update};
use serde_json::Value;

use super::record::{ThreadRecord, set_own};
use crate::app::App;
use crate::error::Result;
use crate::wire::{Call, calls, next_nodes, open_calls, without_answered};

/// Returns the state that clients see. If the last run was stopped, this is the state it had reached.
pub(crate) async fn present_state(app: &App, info: &ThreadInfo) -> Result<State> {
    let threads = app.threads_of(info)?;
    Ok(match ThreadRecord::read(info).stopped_at {
        Some(at) => threads.state_at(&info.id, at).await?,
        None => threads.state(&info.id).await?,
    })
}

/// Whether the state at a position of a thread's log, or at its end, has work left.
pub(crate) async fn has_next(app: &App, info: &ThreadInfo, at: Option<LogPosition>) -> Result<bool> {
    let schema = app.threads_of(info)?.schema().clone();
    let loaded = load(&*app.journal, &info.id, schema, at).await?;
    Ok(!next_nodes(&loaded.state, loaded.machine.as_ref()).is_empty())
}

/// Makes the end of a thread's log visible again, before the next run. If the thread is to resume from the state
/// clients see, this first rewinds the records that cancelling added.
pub(crate) async fn unhide_log_end(app: &App, info: ThreadInfo, resumes: bool) -> Result<ThreadInfo> {
    let held = ThreadRecord::read(&info);
    let Some(at) = held.stopped_at else { return Ok(info) };
    // A suspended run has added nothing, and its calls are still in flight.
    if resumes && info.status != RunStatus::Open && at < info.end {
        app.threads_of(&info)?.rewind(&info.id, at).await?;
    }
    set_own(app, &info.id, &ThreadRecord { stopped_at: None, unfinished: true, ..held }).await?;
    app.thread(&info.id).await
}

/// Creates results for the calls that a manual answer supersedes, because most models reject a call without a result.
pub(super) fn calls_left_behind(state: &State, update: &Update) -> Update {
    let Some((answer, open)) = open_calls(state) else { return Update::none() };
    let put = update.get::<MessagesChannel>().flatten().filter_map(|op| match op {
        MessageOp::Put(message) => Some(&**message),
        _ => None,
    });
    let put: Vec<&Message> = put.collect();
    let is_replaced = |message: &&Message| message.as_assistant().is_some_and(|new| new.id == answer.id);
    if put.iter().any(is_replaced) {
        return Update::none();
    }
    let text = "This call was not made: a person answered in its place.";
    let result = |call: Call<'_>| MessageOp::put(Message::Tool(ToolMessage::synthetic(call.id, call.name, text)));
    Update::new::<MessagesChannel>(without_answered(open, &put).into_iter().map(result).collect())
}

/// Whether an update changes calls that are under review.
pub(super) fn changes_what_is_asked(before: &State, after: &State) -> bool {
    // A review shows coerced arguments; compare what the model wrote.
    let all = |state: &State| -> Vec<(String, Option<Value>)> {
        let last = state.messages().iter().rev().find_map(|message| message.as_assistant().cloned());
        let all = last.iter().flat_map(calls).map(|call| (call.name.to_owned(), call.args.cloned()));
        all.collect()
    };
    let (was, is) = (all(before), all(after));
    let asked = before.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values()).map(|asked| &asked.request);
    // Sub-agents' interrupts concern calls of their own.
    let mut own = asked.filter(|asked| asked.is_gate() && asked.call.path.is_empty());
    own.any(|asked| usize::try_from(asked.call.index).map_or(true, |at| was.get(at) != is.get(at)))
}
