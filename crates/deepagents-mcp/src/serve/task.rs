//! A task for the agent: a run, followed by progress, through what a person is asked.

use deepagents_core::env::{Ids, RandomIds};
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{ActionRequest, Decision};
use deepagents_core::run::{FinishReason, Outcome, RunInput};
use futures_util::StreamExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitResult, ElicitationAction, ErrorData,
    InputRequiredResult, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{RequestContext, ServiceError};
use serde_json::{Value, json};

use super::{AgentServer, approvals, failed};
use crate::text;

/// Characters of a notice of progress.
const SHOWN: usize = 200;

/// How a run stands when it has ended.
enum Ended {
    /// With an answer.
    Done(CallToolResult),
    /// It waits for decisions.
    Waits(Vec<ActionRequest>),
}

impl AgentServer {
    /// Does a task, or goes on with one that has waited for what the call brings.
    pub(super) async fn task(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let field = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let Some(task) = field("task") else {
            return Err(ErrorData::invalid_params("`task` says what is to be done, as a text", None));
        };
        let keeps = self.keeps();
        let (thread, mut input) = match (&request.request_state, field("thread")) {
            // The call is made again with what was asked for; the thread is where it waits.
            (Some(thread), _) if keeps => {
                let answers = request.input_responses.unwrap_or_default();
                let thread = checked(thread)?;
                let open = self.open(&thread).await?;
                (thread.clone(), answered(&thread, approvals::decisions(&open, &answers)))
            }
            (_, Some(thread)) if !keeps => {
                return Err(ErrorData::invalid_params(
                    format!("there is no thread `{thread}`: nothing is kept here"),
                    None,
                ));
            }
            (_, Some(thread)) => {
                let thread = checked(thread)?;
                self.there(&thread).await?;
                (thread.clone(), RunInput::new(task).thread(&thread))
            }
            (_, None) => {
                let thread = RandomIds.next("mcp");
                let input = RunInput::new(task);
                (thread.clone(), if keeps { input.thread(&thread) } else { input })
            }
        };
        let stateless = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let elicits = self.asks && context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
        loop {
            let questions = match self.run(input, &thread, &context).await? {
                Ended::Done(result) => return Ok(result.into()),
                Ended::Waits(questions) => questions,
            };
            let decisions = match (elicits, stateless) {
                (false, _) => approvals::nobody(&questions),
                (true, true) => {
                    let wanted = InputRequiredResult::new(Some(approvals::requests(&questions)), Some(thread.clone()));
                    return Ok(CallToolResponse::InputRequired(wanted));
                }
                (true, false) => asked(&questions, &context).await?,
            };
            input = answered(&thread, decisions);
        }
    }

    /// Whether threads are kept.
    fn keeps(&self) -> bool {
        self.agent.threads().is_ok()
    }

    /// Refuses a thread that there is not: a client would take a new one for the earlier one.
    async fn there(&self, thread: &str) -> Result<(), ErrorData> {
        let failed =
            |error: &dyn std::fmt::Display| ErrorData::internal_error(text::line(&error.to_string(), 300), None);
        let threads = self.agent.threads().map_err(|error| failed(&error))?;
        match threads.journal().threads().get(thread).await.map_err(|error| failed(&error))? {
            Some(_) => Ok(()),
            None => Err(ErrorData::invalid_params(
                format!("there is no thread `{thread}`; leave it out to begin a new one"),
                None,
            )),
        }
    }

    /// What waits for a decision in a thread.
    async fn open(&self, thread: &str) -> Result<Vec<ActionRequest>, ErrorData> {
        let state =
            self.agent.state(thread).await.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let asked = state.get::<deepagents_core::interrupt::ActionRequests>();
        let open = asked.into_iter().flat_map(|asked| asked.values()).filter(|asked| asked.decision.is_none());
        Ok(open.map(|asked| asked.request.clone()).collect())
    }

    /// Runs until the run ends; a call that is cancelled cancels it.
    async fn run(
        &self,
        input: RunInput,
        thread: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Ended, ErrorData> {
        let mut run = self.agent.run(input);
        let mut steps = 0u32;
        loop {
            let event = tokio::select! {
                event = run.next() => event,
                () = context.ct.cancelled() => {
                    run.cancel();
                    // What it has finished is kept; nobody waits for the answer.
                    let _ = run.outcome().await;
                    return Err(ErrorData::internal_error("the task was cancelled", None));
                }
            };
            let Some(event) = event else { break };
            if let EventKind::ToolStarted { name, args, .. } = &event.kind
                && let Some(token) = context.meta.get_progress_token()
            {
                steps += 1;
                let said = text::line(&format!("{name} {args}"), SHOWN);
                let notice = ProgressNotificationParam::new(token, steps.into()).with_message(said);
                // Who does not listen is told nothing.
                let _ = context.peer.notify_progress(notice).await;
            }
        }
        match run.outcome().await {
            Ok(outcome) if outcome.stop == FinishReason::Interrupted => Ok(Ended::Waits(outcome.action_requests())),
            Ok(outcome) => Ok(Ended::Done(answer(&outcome, self.keeps().then_some(thread)))),
            Err(error) => Ok(Ended::Done(CallToolResult::error(vec![ContentBlock::text(error.to_string())]))),
        }
    }
}

/// A run that goes on with what was decided.
fn answered(thread: &str, decisions: Vec<(String, Decision)>) -> RunInput {
    decisions.into_iter().fold(RunInput::resume(thread), |input, (id, decision)| input.decide(id, decision))
}

/// Asks one question after the other.
async fn asked(
    questions: &[ActionRequest],
    context: &RequestContext<RoleServer>,
) -> Result<Vec<(String, Decision)>, ErrorData> {
    let mut decisions = Vec::new();
    for question in questions {
        let answer = tokio::select! {
            answer = context.peer.create_elicitation(approvals::form(question)) => match answer {
                Ok(answer) => answer,
                // A client that cannot ask after all has nobody who agrees.
                Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => {
                    ElicitResult::new(ElicitationAction::Cancel)
                }
                Err(error) => return Err(failed(&error)),
            },
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the task was cancelled", None)),
        };
        decisions.push((question.id.clone(), approvals::decision(question, &answer)));
    }
    Ok(decisions)
}

/// A name that a thread may have: what a client says must not reach the threads below others.
fn checked(thread: &str) -> Result<String, ErrorData> {
    let fine = thread.len() <= 64 && thread.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match fine {
        true => Ok(thread.to_owned()),
        false => Err(ErrorData::invalid_params(format!("`{}` names no thread", text::line(thread, 80)), None)),
    }
}

fn answer(outcome: &Outcome, thread: Option<&str>) -> CallToolResult {
    let said = outcome.text();
    let done = matches!(outcome.stop, FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended);
    let said = match done {
        true => said,
        false => format!("The task was not finished: {}. {said}", outcome.stop.reason()),
    };
    let content = vec![ContentBlock::text(said)];
    let mut result = if done { CallToolResult::success(content) } else { CallToolResult::error(content) };
    if let Some(thread) = thread {
        result.content.push(ContentBlock::text(format!("[thread {thread}]")));
        result.structured_content = Some(json!({"thread": thread, "stop": outcome.stop}));
    }
    result
}
