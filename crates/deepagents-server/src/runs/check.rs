//! Checks a request for a run before anything is done.

use std::collections::HashMap;

use deepagents_core::interrupt::{ActionRequest, ActionRequests, Decision};
use deepagents_core::journal::{LogPosition, ThreadInfo};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::state::{MessagesChannel, Schema, State, Update};
use serde_json::Value;

use super::breakpoints::Breakpoints;
use super::config::mirror_context;
use super::create::RunCreate;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::threads::{ThreadRecord, earlier_position, has_next};
use crate::wire::{open_calls, open_interrupts, read_resume, read_update, take};

impl RunCreate {
    /// Rejects a run that cannot be carried out, such as one with an unreadable input or with decisions that do not fit
    /// the pending interrupts. Returns the position of the checkpoint that the request addresses, if it is an earlier
    /// one.
    pub(crate) async fn check(&self, app: &App, graph: &str, thread: Option<&str>) -> Result<Option<LogPosition>> {
        if let Some(url) = &self.webhook {
            app.webhooks.check(url)?;
        }
        let served = app.known_agent(graph)?;
        for input in self.input.iter().chain(self.update()) {
            read_update(served.threads.schema(), input)?;
        }
        if self.command.as_ref().is_some_and(|command| !command.has_no_goto() && !command.asks() && !command.ends()) {
            return Err(ApiError::invalid(
                "a command may go to `model`, or to `__end__`, which ends the thread where it stands, and nowhere else",
            ));
        }
        self.reject_orphan_results(app, served.threads.schema(), thread).await?;
        Breakpoints::new(self.interrupt_before.as_ref(), self.interrupt_after.as_ref(), true)?;
        mirror_context(&mut self.config.clone(), &mut self.context.clone())?;
        if self.resume().is_some() && thread.is_none() {
            return Err(ApiError::bad_request(
                "`command.resume` answers a thread's interrupts; a run without a thread has none",
            ));
        }
        let mut earlier = None;
        if let Some(checkpoint) = self.checkpoint() {
            let missing = || ApiError::not_found("Checkpoint", checkpoint);
            let info = app.thread(thread.ok_or_else(missing)?).await?;
            earlier = earlier_position(app, &info, checkpoint).await?;
        }
        if let (Some(resume), Some(thread)) = (self.resume(), thread) {
            let info = app.thread(thread).await?;
            let state = state_at(app, &info, earlier).await?;
            for (id, decision) in answers_in(&info, &state, resume)? {
                let asked = state.get::<ActionRequests>().and_then(|asked| asked.get(&id));
                let checked = asked.map(|asked| served.agent.check_decision(&asked.request, &decision));
                checked.transpose().map_err(|error| ApiError::invalid(error.to_string()))?;
            }
        }
        if let (Some(update), Some(position), Some(thread)) =
            (self.update().filter(|_| self.is_about_state() && !self.ends()), earlier, thread)
        {
            let info = app.thread(thread).await?;
            let threads = app.threads_of(&info)?;
            let update = read_update(threads.schema(), update)?;
            // Where work is left, messages wait for it, but results are added at once.
            if has_next(app, &info, earlier).await? {
                check_results(&threads.state_at(thread, position).await?, results_of_thread(&update)?)?;
            } else if self.only_updates() {
                threads.check_update(thread, position, None, update).await?;
            }
        }
        Ok(earlier)
    }

    /// Removes the checkpoint from the request, in all three places where clients may give it.
    pub(super) fn remove_checkpoint(&mut self) {
        (self.checkpoint, self.checkpoint_id) = (None, None);
        let configurable = self.config.as_mut().and_then(|config| config.get_mut("configurable"));
        if let Some(configurable) = configurable.and_then(Value::as_object_mut) {
            configurable.remove("checkpoint_id");
        }
    }

    /// Whether the request contains a result of a call.
    pub(crate) fn sends_result(&self, call: &str) -> bool {
        let given = self.input.iter().chain(self.update()).filter_map(|channels| channels.get("messages"));
        let mut messages = given.flat_map(|all| all.as_array().map_or(std::slice::from_ref(all), Vec::as_slice));
        messages.any(|message| {
            let fields = message.get("kwargs").or_else(|| message.get("data")).unwrap_or(message);
            fields.get("tool_call_id").is_some_and(|id| id == call)
        })
    }

    /// Rejects a tool result for which no call waits. Models refuse such a result, so it must not enter the
    /// conversation. A result belongs to the answer that precedes it, because providers reuse ids in later answers.
    async fn reject_orphan_results(&self, app: &App, schema: &Schema, thread: Option<&str>) -> Result<()> {
        let Some(input) = &self.input else { return Ok(()) };
        let given = read_update(schema, input)?;
        let of_thread = results_of_thread(&given)?;
        let (Some((first, result)), Some(thread)) = (of_thread.first(), thread) else {
            return of_thread.first().map_or(Ok(()), |(at, result)| Err(orphan(*at, result)));
        };
        let (info, state) = app.thread_state(thread).await?;
        // A run in flight may still make the call.
        if app.runs.is_busy(thread) || info.owner.is_some() {
            return Ok(());
        }
        let state = match self.checkpoint() {
            None => state,
            Some(id) => match app.entries(&info).await?.find(id)?.1.state {
                Some(position) => app.threads_of(&info)?.state_at(thread, position).await?,
                None => return Err(orphan(*first, result)),
            },
        };
        check_results(&state, of_thread)
    }
}

/// Returns the results in an update that must belong to calls of the thread, each with its place. Rejects one that
/// follows an answer of the update without such a call.
fn results_of_thread(given: &Update) -> Result<Vec<(usize, &ToolMessage)>> {
    let mut waiting: Option<Vec<&str>> = None;
    let mut of_thread = Vec::new();
    for (at, op) in given.get::<MessagesChannel>().flatten().enumerate() {
        let message = match op {
            MessageOp::Put(message) => message,
            // Nothing of the thread is left that a result could belong to.
            MessageOp::RemoveAll => {
                (waiting, of_thread) = (Some(Vec::new()), Vec::new());
                continue;
            }
            _ => continue,
        };
        match (&**message, &mut waiting) {
            (Message::Assistant(answer), waiting) => *waiting = Some(answer.call_ids().collect()),
            (Message::Tool(result), None) => of_thread.push((at, result)),
            (Message::Tool(result), Some(calls)) => {
                take(calls, &result.call_id).ok_or_else(|| orphan(at, result))?;
            }
            _ => {}
        }
    }
    Ok(of_thread)
}

/// Rejects results for which no call of a state waits.
fn check_results(state: &State, results: Vec<(usize, &ToolMessage)>) -> Result<()> {
    let open = open_calls(state).map(|(_, open)| open).unwrap_or_default();
    let mut waiting: Vec<&str> = open.iter().map(|call| call.id).collect();
    for (at, result) in results {
        let replaces = state.messages().by_id(&result.id).is_some();
        if !replaces && take(&mut waiting, &result.call_id).is_none() {
            return Err(orphan(at, result));
        }
    }
    Ok(())
}

fn orphan(at: usize, result: &ToolMessage) -> ApiError {
    let call = &result.call_id;
    ApiError::invalid(format!("messages[{at}] is the result of `{call}`, but no earlier call of this id waits for one"))
}

/// Returns the state of a thread at an earlier position, or where it stands.
async fn state_at(app: &App, info: &ThreadInfo, earlier: Option<LogPosition>) -> Result<State> {
    let threads = app.threads_of(info)?;
    Ok(match earlier {
        Some(position) => threads.state_at(&info.id, position).await?,
        None => threads.state(&info.id).await?,
    })
}

/// Parses the decisions on the interrupts of a thread, which has gone back to an earlier position if one is given. A
/// stopped thread has none, and the run just resumes it.
pub(super) async fn parse_decisions(
    app: &App,
    info: &ThreadInfo,
    earlier: Option<LogPosition>,
    resume: &Value,
) -> Result<Vec<(String, Decision)>> {
    let asked = state_at(app, info, earlier).await?;
    let mut answers = answers_in(info, &asked, resume)?;
    if earlier.is_some() {
        // The thread asks the same questions anew after it has gone back, with other ids.
        let now = state_at(app, info, None).await?.action_requests();
        let same = |then: &ActionRequest, now: &ActionRequest| {
            let of = |one: &ActionRequest| (one.call.path.clone(), one.call.index);
            of(then) == of(now) && (&then.tool, &then.asked_at) == (&now.tool, &now.asked_at)
        };
        let asked_anew = asked.action_requests().into_iter().filter_map(|then| {
            let now = now.iter().find(|now| same(&then, now))?;
            Some((then.id, now.id.clone()))
        });
        let ids: HashMap<String, String> = asked_anew.collect();
        for (id, _) in &mut answers {
            let now = ids.get(id).ok_or_else(|| {
                ApiError::invalid("the thread has changed since the checkpoint was addressed: its question is gone")
            })?;
            id.clone_from(now);
        }
    }
    Ok(answers)
}

fn answers_in(info: &ThreadInfo, state: &State, resume: &Value) -> Result<Vec<(String, Decision)>> {
    let open = open_interrupts(&info.id, state);
    if open.is_empty() && ThreadRecord::read(info).is_stopped() {
        return Ok(Vec::new());
    }
    read_resume(&open, resume).map_err(ApiError::invalid)
}
