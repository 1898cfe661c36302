//! Tool calls, with the input that the server requests meanwhile.

use std::time::Duration;

use deepagents_core::tool::ToolContext;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorCode, ErrorData, InputRequest, InputRequiredResult, InputResponses, JsonObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::sleep;

use super::pending::Wanted;
use super::sampling::NoAnswer;
use super::{CallFailure, Connection, PendingCalls, Protocol, elicit};
use crate::text;

/// Total time limit of a call, whatever progress it reports.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(3_600);
/// How many times a call is sent, counting the repeats with requested input.
const MAX_ROUNDS: u32 = 10;
/// Error code of a server that requires a person to open a URL first.
const URL_REQUIRED: ErrorCode = ErrorCode(-32042);

impl Connection {
    /// Calls a tool and answers the server's requests for input. A call that was interrupted for a person resumes where
    /// it was, if this process still has its state.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: JsonObject,
        limit: Duration,
        pending: &PendingCalls,
        cx: &ToolContext,
    ) -> Result<Value, CallFailure> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let mut wanted = pending.take(&cx.key());
        // A page that was opened once is not requested again.
        let mut opened = false;
        for round in 0..MAX_ROUNDS {
            if let Some(wanted) = wanted.take() {
                let given = match &wanted {
                    Wanted::Input(input) => self.add_input(input, &mut params, round, cx).await,
                    Wanted::Pages(pages) => self.open_pages(pages, cx),
                };
                opened |= matches!(wanted, Wanted::Pages(_));
                if let Err(failure) = given {
                    if matches!(failure, CallFailure::Interrupted(_)) {
                        pending.put(cx.key(), wanted);
                    }
                    return Err(failure);
                }
            }
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self.call_once(request, limit, cx).await? {
                Ok(ServerResult::InputRequiredResult(more)) => wanted = Some(Wanted::Input(more)),
                Ok(ServerResult::CreateTaskResult(_)) => {
                    return Err(self.unreadable("it turned the call into a task, which was not offered").into());
                }
                Ok(result) => {
                    let result = serde_json::to_value(result).map_err(|error| self.unreadable(&error.to_string()))?;
                    return match incomplete_error(&result).filter(|_| self.protocol == Protocol::Stateless) {
                        Some(why) => Err(self.unreadable(&why).into()),
                        None => Ok(result),
                    };
                }
                Err(refusal) => match pages(&refusal).filter(|_| !opened && self.handler.elicitation) {
                    Some(pages) => wanted = Some(Wanted::Pages(pages)),
                    None => return Err(self.failure(ServiceError::McpError(refusal)).await.into()),
                },
            }
        }
        Err(self.unreadable("it keeps asking for more input").into())
    }

    /// Adds the requested input to the parameters of a call.
    async fn add_input(
        &self,
        wanted: &InputRequiredResult,
        params: &mut CallToolRequestParams,
        round: u32,
        cx: &ToolContext,
    ) -> Result<(), CallFailure> {
        let answers = self.collect_responses(wanted, cx).await?;
        if answers.is_empty() && wanted.request_state.is_none() {
            return Err(self.unreadable("it asks for input without saying which").into());
        }
        if answers.is_empty() {
            // The server only asks for a retry later.
            sleep(Duration::from_millis(100 << round)).await;
        }
        params.input_responses = (!answers.is_empty()).then_some(answers);
        params.request_state.clone_from(&wanted.request_state);
        Ok(())
    }

    /// Has a person open the pages that the server requires.
    fn open_pages(&self, pages: &[ElicitRequestParams], cx: &ToolContext) -> Result<(), CallFailure> {
        for page in pages {
            let answer = elicit::ask(&self.handler.server, page, cx).map_err(CallFailure::Interrupted)?;
            if answer.action != ElicitationAction::Accept {
                return Err(self.unreadable("it wants a page opened first, but the person declined").into());
            }
        }
        Ok(())
    }

    /// Sends one call. Returns its result or the server's error.
    async fn call_once(
        &self,
        request: ClientRequest,
        limit: Duration,
        cx: &ToolContext,
    ) -> Result<Result<ServerResult, ErrorData>, CallFailure> {
        let options =
            PeerRequestOptions::with_timeout(limit).reset_timeout_on_progress().with_max_total_timeout(TOTAL_TIMEOUT);
        let handle = self.send(request, options).await?;
        let mut abandoned = self.abandoned(handle.id.clone());
        let mut registered = self.calls.register(handle.id.clone(), handle.progress_token.clone(), cx);
        tokio::select! {
            biased;
            Some(interrupt) = registered.interrupt.recv() => {
                abandoned.reason = "a person is asked first";
                Err(CallFailure::Interrupted(interrupt))
            }
            answer = handle.await_response() => {
                abandoned.id = None;
                match answer {
                    Ok(result) => Ok(Ok(result)),
                    Err(ServiceError::McpError(refusal)) => Ok(Err(refusal)),
                    Err(error) => Err(self.failure(error).await.into()),
                }
            }
        }
    }

    /// Collects the responses to the server's requests for input.
    async fn collect_responses(
        &self,
        wanted: &InputRequiredResult,
        cx: &ToolContext,
    ) -> Result<InputResponses, CallFailure> {
        let mut answers = InputResponses::new();
        for (key, request) in wanted.input_requests.iter().flatten() {
            let answer = match request {
                InputRequest::Elicitation(request) if self.handler.elicitation => {
                    let answer = elicit::ask(&self.handler.server, &request.params, cx);
                    serde_json::to_value(answer.map_err(CallFailure::Interrupted)?)
                }
                InputRequest::Elicitation(_) => serde_json::to_value(ElicitResult::new(ElicitationAction::Decline)),
                InputRequest::ListRoots(_) => serde_json::to_value(&self.handler.roots),
                InputRequest::CreateMessage(request) => match self.handler.sampled(&request.params, cx).await {
                    Ok(answer) => serde_json::to_value(answer),
                    Err(NoAnswer::Interrupted(interrupt)) => return Err(CallFailure::Interrupted(interrupt)),
                    Err(NoAnswer::Refused(error)) => {
                        return Err(self.unreadable(&format!("it wants to use the model: {}", error.message)).into());
                    }
                },
                _ => return Err(self.unreadable("it wants something that was not offered").into()),
            };
            answers.insert(key.clone(), answer.map_err(|error| self.unreadable(&error.to_string()))?);
        }
        Ok(answers)
    }
}

/// Returns an error message if a result says that it is incomplete or of an unknown type.
fn incomplete_error(result: &Value) -> Option<String> {
    let kind = result.get("resultType").filter(|kind| kind.as_str() != Some("complete") && !kind.is_null())?;
    let kind = text::line(&kind.to_string(), 40);
    Some(format!(
        "its answer is not a complete result but {kind}, which is not known; whether the call had an effect is not \
         known"
    ))
}

/// Returns the pages that the server requires to be opened, if the error says so.
fn pages(refusal: &ErrorData) -> Option<Vec<ElicitRequestParams>> {
    let asked = refusal.data.as_ref().filter(|_| refusal.code == URL_REQUIRED)?.get("elicitations")?;
    let asked: Vec<ElicitRequestParams> = serde_json::from_value(asked.clone()).ok()?;
    let are_pages = asked.iter().all(|page| match page {
        ElicitRequestParams::UrlElicitationParams { url, .. } => crate::http::is_page(url),
        _ => false,
    });
    Some(asked).filter(|asked| are_pages && !asked.is_empty())
}
