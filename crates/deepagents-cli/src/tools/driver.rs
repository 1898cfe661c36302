//! A model that replays tool calls made by hand.

use std::sync::Arc;

use deepagents::core::message::{AssistantMessage, ToolCall};
use deepagents::core::model::{ModelEvent, ModelOutput, StopReason};
use deepagents::{Block, ChatModel, Message, ModelError, ModelRequest};
use futures_util::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use super::line::{Answer, Call};

/// A model that answers each request with the next call, and finishes when the session is dropped.
pub(super) struct ToolDriver(Arc<Channels>);

/// The driver's ends of the channels.
struct Channels {
    calls: Mutex<mpsc::Receiver<Call>>,
    answers: mpsc::Sender<Answer>,
}

/// The caller's side of a run whose tool calls are made by hand.
#[derive(Debug)]
pub(super) struct ToolSession {
    calls: mpsc::Sender<Call>,
    answers: mpsc::Receiver<Answer>,
}

/// Returns a model, and the session that supplies its calls.
pub(super) fn pair() -> (ToolDriver, ToolSession) {
    let (calls, to_make) = mpsc::channel(1);
    let (made, answers) = mpsc::channel(1);
    (ToolDriver(Arc::new(Channels { calls: Mutex::new(to_make), answers: made })), ToolSession { calls, answers })
}

impl ToolSession {
    /// Makes a call and waits for its result; `None` if the run has ended.
    pub(super) fn make(&mut self, call: Call) -> Option<Answer> {
        self.calls.blocking_send(call).ok()?;
        self.answers.blocking_recv()
    }
}

impl ChatModel for ToolDriver {
    fn name(&self) -> &str {
        "operator:lines"
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let channels = self.0.clone();
        Box::pin(stream::once(async move { Ok(ModelEvent::Finished(Box::new(channels.turn(&request).await))) }))
    }
}

impl Channels {
    async fn turn(&self, request: &ModelRequest) -> ModelOutput {
        if let Some(Message::Tool(result)) = request.messages.last().map(|message| &**message) {
            let text = result.content.iter().map(shown).collect::<Vec<_>>().join("\n");
            // The receiver is gone if the program is about to end.
            let _ = self.answers.send(Answer { text, error: result.is_error }).await;
        }
        let Some(Call { name, args }) = self.calls.lock().await.recv().await else {
            return ModelOutput::new(AssistantMessage::new(vec![Block::text("That was all.")]));
        };
        let id = format!("line_{}", request.messages.len());
        let call = ToolCall { id, name, args: Value::Object(args), native: None };
        let mut output = ModelOutput::new(AssistantMessage::new(vec![Block::ToolCall(call)]));
        output.stop = StopReason::ToolCalls;
        output
    }
}

/// Converts a block of a result to text.
fn shown(block: &Block) -> String {
    match block {
        Block::Text(text) => text.text.clone(),
        Block::Media(media) => format!("[{}]", media.mime),
        _ => "[not text]".to_owned(),
    }
}
