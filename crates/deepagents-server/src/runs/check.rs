//! Checks a request for a run before anything is done.

use std::collections::HashSet;
use std::sync::Arc;

use deepagents_core::interrupt::{ActionRequests, Decision};
use deepagents_core::journal::ThreadInfo;
use deepagents_core::message::{Message, MessageOp};
use deepagents_core::state::{MessagesChannel, Schema, State};
use serde_json::Value;

use super::breakpoints::Breakpoints;
use super::config::mirror_context;
use super::create::RunCreate;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::threads::ThreadRecord;
use crate::wire::{open_interrupts, read_resume, read_update};

impl RunCreate {
    /// Rejects a run that cannot be carried out, such as one with an unreadable input or with decisions that do not fit
    /// the pending interrupts.
    pub(crate) async fn check(&self, app: &App, graph: &str, thread: Option<&str>) -> Result<()> {
        if let Some(url) = &self.webhook {
            app.webhooks.check(url)?;
        }
        let served = app.agent(graph).ok_or_else(|| ApiError::not_found("Graph", graph))?;
        for input in [self.input.as_ref(), self.command.as_ref().and_then(|command| command.update.as_ref())]
            .into_iter()
            .flatten()
        {
            read_update(served.threads.schema(), input).map_err(|error| ApiError::invalid(error.to_string()))?;
        }
        if self.command.as_ref().is_some_and(|command| !command.has_no_goto() && !command.asks() && !command.ends()) {
            return Err(ApiError::invalid(
                "a command may go to `model`, or to `__end__`, which ends the thread where it stands, and nowhere else",
            ));
        }
        if let Some(input) = &self.input {
            reject_orphan_result(app, served.threads.schema(), input, thread).await?;
        }
        Breakpoints::new(self.interrupt_before.as_ref(), self.interrupt_after.as_ref(), true)?;
        mirror_context(&mut self.config.clone(), &mut self.context.clone())?;
        if self.resume().is_some() && thread.is_none() {
            return Err(ApiError::bad_request(
                "`command.resume` answers a thread's interrupts; a run without a thread has none",
            ));
        }
        if let (Some(resume), Some(thread)) = (self.resume(), thread) {
            let (info, state) = thread_state(app, thread).await?;
            for (id, decision) in answers_in(&info, &state, resume)? {
                let asked = state.get::<ActionRequests>().and_then(|asked| asked.get(&id));
                let checked = asked.map(|asked| served.agent.check_decision(&asked.request, &decision));
                checked.transpose().map_err(|error| ApiError::invalid(error.to_string()))?;
            }
        }
        if let Some(checkpoint) = self.checkpoint() {
            let missing = || ApiError::not_found("Checkpoint", checkpoint);
            let info = app.thread(thread.ok_or_else(missing)?).await?;
            app.checkpoints.entries(&app.threads_of(&info)?, &info).await?.find(checkpoint)?;
        }
        Ok(())
    }
}

/// Parses the decisions on a thread's pending interrupts. A stopped thread has none, and the run just resumes it.
pub(crate) async fn parse_decisions(app: &App, thread: &str, resume: &Value) -> Result<Vec<(String, Decision)>> {
    let (info, state) = thread_state(app, thread).await?;
    answers_in(&info, &state, resume)
}

async fn thread_state(app: &App, thread: &str) -> Result<(ThreadInfo, State)> {
    let info = app.thread(thread).await?;
    let state = app.threads_of(&info)?.state(thread).await?;
    Ok((info, state))
}

fn answers_in(info: &ThreadInfo, state: &State, resume: &Value) -> Result<Vec<(String, Decision)>> {
    let open = open_interrupts(&info.id, state);
    if open.is_empty() && ThreadRecord::read(info).is_stopped() {
        return Ok(Vec::new());
    }
    read_resume(&open, resume).map_err(ApiError::invalid)
}

/// Rejects a tool result without a call. Models refuse such a result, so it must not enter the conversation.
async fn reject_orphan_result(app: &App, schema: &Arc<Schema>, input: &Value, thread: Option<&str>) -> Result<()> {
    let given = read_update(schema, input).map_err(|error| ApiError::invalid(error.to_string()))?;
    let mut calls: HashSet<String> = HashSet::new();
    let mut lone = None;
    for (at, op) in given.get::<MessagesChannel>().flatten().enumerate() {
        let MessageOp::Put(message) = op else { continue };
        match &**message {
            Message::Assistant(answer) => calls.extend(answer.call_ids().map(str::to_owned)),
            Message::Tool(result) if !calls.contains(&result.call_id) => {
                lone = lone.or(Some((at, result.call_id.clone())));
            }
            _ => {}
        }
    }
    let Some((at, call)) = lone else { return Ok(()) };
    if let Some(thread) = thread {
        let (info, state) = thread_state(app, thread).await?;
        let has =
            |message: &Message| message.as_assistant().is_some_and(|answer| answer.call_ids().any(|id| id == call));
        // A run in flight may still make the call.
        if app.runs.is_busy(thread) || info.owner.is_some() || state.messages().iter().any(|each| has(each)) {
            return Ok(());
        }
    }
    Err(ApiError::invalid(format!("messages[{at}] is the result of `{call}`, but no earlier call has this id")))
}
