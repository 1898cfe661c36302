//! Runs a task of a client, with progress notifications and approvals.

use deepagents_core::env::{Ids, RandomIds};
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{ActionRequest, Decision};
use deepagents_core::run::{FinishReason, Outcome, RunInput};
use futures_util::StreamExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InputRequiredResult,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::asking::Decisions;
use super::{AgentServer, approvals, failed, invalid};
use crate::text;

/// Maximum length of a progress message, in characters.
const MAX_PROGRESS_CHARS: usize = 200;

/// Maximum length of a thread's title, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// How a run has ended.
enum Ended {
    /// With a result.
    Done(CallToolResult),
    /// Interrupted, waiting for decisions.
    Waits(Vec<ActionRequest>),
}

impl AgentServer {
    /// Runs a task, or resumes one with the responses that it waited for.
    pub(super) async fn task(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let said = |value: &Value| value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let Some(task) = args.get("task").and_then(said) else {
            return Err(invalid("`task` must be a text that says what is to be done"));
        };
        let named = match args.get("thread").filter(|thread| !thread.is_null()) {
            Some(thread) => Some(said(thread).ok_or_else(|| {
                invalid("`thread` must be the thread of an earlier task, as a text; leave it out to begin a new one")
            })?),
            None => None,
        };
        let keeps = self.has_journal();
        let (thread, mut input) = match (&request.request_state, &named) {
            // The call is repeated with the requested input; its state names the thread.
            (Some(thread), _) if keeps => {
                let answers = request.input_responses.unwrap_or_default();
                let thread = checked(thread)?;
                self.check_thread(&thread).await?;
                let open = self.open(&thread).await?;
                let decisions = match self.elicits(&context) {
                    true => approvals::decisions(&open, &answers),
                    false => approvals::reject_all(&open, self.asks),
                };
                (thread.clone(), answered(&thread, decisions))
            }
            (_, Some(thread)) if !keeps => {
                return Err(invalid(format!("there is no thread `{thread}`: threads are not kept here")));
            }
            (_, Some(thread)) => {
                let thread = checked(thread)?;
                self.check_thread(&thread).await?;
                (thread.clone(), RunInput::new(task).thread(&thread))
            }
            (_, None) => {
                let thread = RandomIds.next("mcp");
                let title = text::line(&task, MAX_TITLE_CHARS);
                let input = RunInput::new(task);
                let title = [("title".to_owned(), json!(title))].into_iter().collect();
                (thread.clone(), if keeps { input.thread(&thread).note(title) } else { input })
            }
        };
        loop {
            let questions = match self.run(input, &thread, &context).await? {
                Ended::Done(result) => return Ok(result.into()),
                Ended::Waits(questions) => questions,
            };
            let decisions = match self.decided(&questions, &context).await? {
                Decisions::Made(decisions) => decisions,
                Decisions::Later => {
                    let wanted = InputRequiredResult::new(Some(approvals::requests(&questions)), Some(thread.clone()));
                    return Ok(CallToolResponse::InputRequired(wanted));
                }
            };
            input = answered(&thread, decisions);
        }
    }

    /// Whether the agent has a journal.
    fn has_journal(&self) -> bool {
        self.agent.threads().is_ok()
    }

    /// Returns an error if the thread does not exist, because a client would mistake a new one for it, or if the server's
    /// check refuses it.
    async fn check_thread(&self, thread: &str) -> Result<(), ErrorData> {
        let threads = self.agent.threads().map_err(|error| failed(&error))?;
        match threads.journal().threads().get(thread).await.map_err(|error| failed(&error))? {
            Some(info) => self.thread_check.as_ref().map_or(Ok(()), |check| check(&info)).map_err(invalid),
            None => Err(invalid(format!("there is no thread `{thread}`; leave it out to begin a new one"))),
        }
    }

    /// Returns the undecided action requests of a thread.
    async fn open(&self, thread: &str) -> Result<Vec<ActionRequest>, ErrorData> {
        let state = self.agent.state(thread).await.map_err(|error| invalid(error.to_string()))?;
        let asked = state.get::<deepagents_core::interrupt::ActionRequests>();
        let open = asked.into_iter().flat_map(|asked| asked.values()).filter(|asked| asked.decision.is_none());
        Ok(open.map(|asked| asked.request.clone()).collect())
    }

    /// Drives a run to its end. Cancelling the call cancels the run.
    async fn run(
        &self,
        input: RunInput,
        thread: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Ended, ErrorData> {
        let input = if self.has_journal() { input.note(self.note.clone()) } else { input };
        let mut run = self.agent.run(input);
        let mut steps = 0u32;
        loop {
            let event = tokio::select! {
                event = run.next() => event,
                () = context.ct.cancelled() => {
                    run.cancel();
                    // Waits until finished work is saved; nobody waits for the result.
                    let _ = run.outcome().await;
                    return Err(failed(&"the task was cancelled"));
                }
            };
            let Some(event) = event else { break };
            if let EventKind::ToolStarted { name, args, .. } = &event.kind
                && let Some(token) = context.meta.get_progress_token()
            {
                steps += 1;
                let said = text::line(&format!("{name} {args}"), MAX_PROGRESS_CHARS);
                let notice = ProgressNotificationParam::new(token, steps.into()).with_message(said);
                // The client may have disconnected.
                let _ = context.peer.notify_progress(notice).await;
            }
        }
        match run.outcome().await {
            Ok(outcome) if outcome.stop == FinishReason::Interrupted => Ok(Ended::Waits(outcome.action_requests())),
            Ok(outcome) => Ok(Ended::Done(answer(&outcome, self.has_journal().then_some(thread)))),
            Err(error) => {
                let result = CallToolResult::error(vec![ContentBlock::text(error.to_string())]);
                // A run that failed before its first write has no thread to continue.
                let kept = self.has_journal() && self.check_thread(thread).await.is_ok();
                Ok(Ended::Done(if kept { of_thread(result, thread, &"failed".into()) } else { result }))
            }
        }
    }
}

/// Returns the input that resumes a thread with decisions.
fn answered(thread: &str, decisions: Vec<(String, Decision)>) -> RunInput {
    decisions.into_iter().fold(RunInput::resume(thread), |input, (id, decision)| input.decide(id, decision))
}

/// Validates a thread ID. A client must not reach the child threads of other threads.
pub(super) fn checked(thread: &str) -> Result<String, ErrorData> {
    let fine = thread.len() <= 64 && thread.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match fine {
        true => Ok(thread.to_owned()),
        false => Err(invalid(format!("`{}` is not the name of a thread", text::line(thread, 80)))),
    }
}

fn answer(outcome: &Outcome, thread: Option<&str>) -> CallToolResult {
    let said = outcome.text();
    let done = outcome.stop.is_complete();
    let said = match done {
        true => said,
        false => format!("The task was not finished: {}. {said}", outcome.stop.reason()).trim_end().to_owned(),
    };
    let content = vec![ContentBlock::text(said)];
    let result = if done { CallToolResult::success(content) } else { CallToolResult::error(content) };
    match thread {
        Some(thread) => of_thread(result, thread, &json!(outcome.stop)),
        None => result,
    }
}

/// Adds the thread to a result, so that a client can continue it.
fn of_thread(mut result: CallToolResult, thread: &str, stop: &Value) -> CallToolResult {
    result.content.push(ContentBlock::text(format!("[thread {thread}]")));
    result.structured_content = Some(json!({"thread": thread, "stop": stop}));
    result
}
