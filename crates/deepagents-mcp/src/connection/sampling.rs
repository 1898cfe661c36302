//! Sampling: servers that use the agent's model.
#![allow(deprecated, reason = "sampling is on its way out of the protocol, and servers of today use it")]

use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, Messages, UserMessage};
use deepagents_core::model::{ModelRequest, StopReason, SystemBlock};
use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorData, Role, SamplingMessage, SamplingMessageContentBlock,
};

use crate::config::Sampling;
use crate::options::SamplingModel;
use crate::text;

/// Maximum length of a question to a person, in characters. A longer request is refused, as nobody would review it.
const MAX_QUESTION_CHARS: usize = 20_000;
/// Maximum size of a request's text and image data, in bytes.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Error code of a request that a person has rejected, from the MCP specification.
const USER_REJECTED: i32 = -1;

/// Why a sampling request has no response.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// A person must be asked first.
    Interrupted(ToolError),
    /// The error for the server.
    Refused(ErrorData),
}

impl From<ErrorData> for NoAnswer {
    fn from(error: ErrorData) -> Self {
        Self::Refused(error)
    }
}

/// Calls the model for a server, after a person has approved it if [`Sampling::Ask`] is configured. The call belongs to
/// the tool call in flight: its tokens count towards the run's usage and budget.
pub(crate) async fn answer(
    server: &str,
    allowed: Sampling,
    model: &SamplingModel,
    params: &CreateMessageRequestParams,
    cx: &ToolContext,
) -> Result<CreateMessageResult, NoAnswer> {
    let request = request(model, params)?;
    if allowed == Sampling::Ask {
        let question = question(server, &request);
        if question.chars().count() > MAX_QUESTION_CHARS {
            let words =
                format!("a person decides about the request, and is shown at most {MAX_QUESTION_CHARS} characters");
            return Err(ErrorData::invalid_params(words, None).into());
        }
        let decision =
            cx.interrupt(question, [DecisionKind::Approve, DecisionKind::Reject]).map_err(NoAnswer::Interrupted)?;
        if !matches!(decision, Decision::Approve) {
            let words = "the person does not let you use the model";
            return Err(ErrorData::new(rmcp::model::ErrorCode(USER_REJECTED), words, None).into());
        }
    }
    let output = cx.invoke_model(&model.model, request).await.map_err(|error| {
        let words = format!("the model gave no answer: {}", text::line(&error.to_string(), 300));
        ErrorData::internal_error(words, None)
    })?;
    let stop = match output.stop {
        StopReason::MaxTokens => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        StopReason::StopSequence => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        _ => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let said = SamplingMessage::assistant_text(Message::Assistant(output.message).text());
    Ok(CreateMessageResult::new(said, model.model.name().to_owned()).with_stop_reason(stop))
}

fn request(model: &SamplingModel, params: &CreateMessageRequestParams) -> Result<ModelRequest, ErrorData> {
    let invalid = |words: &str| ErrorData::invalid_params(words.to_owned(), None);
    if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err(invalid("the model is not given tools here; the capability sampling.tools was not declared"));
    }
    let mut size = params.system_prompt.as_ref().map_or(0, String::len);
    let mut messages = Vec::new();
    for message in &params.messages {
        let mut blocks = Vec::new();
        for content in message.content.clone().into_vec() {
            blocks.push(match content {
                SamplingMessageContentBlock::Text(said) => {
                    size += said.text.len();
                    Block::text(said.text)
                }
                SamplingMessageContentBlock::Image(image) => {
                    size += image.data.len();
                    let source = MediaSource::Base64(image.data);
                    Block::Media(Media { kind: MediaKind::Image, mime: image.mime_type, source, name: None })
                }
                _ => return Err(invalid("only texts and pictures are accepted here")),
            });
        }
        messages.push(match message.role {
            Role::Assistant => {
                let text: Vec<String> = blocks.iter().filter_map(|block| block.as_text().map(str::to_owned)).collect();
                Message::assistant(text.join("\n"))
            }
            Role::User => Message::User(UserMessage { content: blocks, ..UserMessage::default() }),
        });
    }
    if messages.is_empty() {
        return Err(invalid("there is no message"));
    }
    if size > MAX_REQUEST_BYTES {
        return Err(invalid("the messages are too long"));
    }
    let mut request = ModelRequest::new(messages.into_iter().collect::<Messages>());
    request.system = params.system_prompt.iter().map(|text| SystemBlock::new(text.as_str())).collect();
    request.settings.max_tokens = Some(u64::from(params.max_tokens).min(model.max_tokens).max(1));
    request.settings.temperature = params.temperature.map(f64::from);
    request.settings.stop = params.stop_sequences.clone().unwrap_or_default();
    Ok(request)
}

/// The question for a person: everything that the model would be sent, except that pictures are only counted.
fn question(server: &str, request: &ModelRequest) -> String {
    let system = request.system.iter().map(|block| format!("system: {}", block.text));
    let said = request.messages.iter().map(|message| {
        let pictures = message.content().iter().filter(|block| matches!(block, Block::Media(_))).count();
        let pictures = (pictures > 0).then(|| format!("[and {pictures} pictures]"));
        Some(message.text()).into_iter().chain(pictures).collect::<Vec<_>>().join("\n")
    });
    let words: Vec<String> = system.chain(said).collect();
    let shown = text::exact(&words.join("\n"));
    let most = request.settings.max_tokens.unwrap_or_default();
    format!("MCP server {server} wants to ask your model, for an answer of at most {most} tokens:\n{shown}")
}
