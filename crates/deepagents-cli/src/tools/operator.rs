//! A model whose answers are the calls that somebody makes.

use std::sync::Arc;

use deepagents::core::message::{AssistantMessage, ToolCall};
use deepagents::core::model::{ModelEvent, ModelOutput, StopReason};
use deepagents::{Block, ChatModel, Message, ModelError, ModelRequest};
use futures_util::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use super::line::{Answer, Call};

/// A model that answers each request with the next call, and is done when no more can come.
pub(super) struct Operator(Arc<Ends>);

/// The operator's ends of the two ways.
struct Ends {
    calls: Mutex<mpsc::Receiver<Call>>,
    answers: mpsc::Sender<Answer>,
}

/// Where calls are handed in.
#[derive(Debug)]
pub(super) struct Desk {
    calls: mpsc::Sender<Call>,
    answers: mpsc::Receiver<Answer>,
}

/// A model, and where to hand in its calls.
pub(super) fn pair() -> (Operator, Desk) {
    let (calls, to_make) = mpsc::channel(1);
    let (made, answers) = mpsc::channel(1);
    (Operator(Arc::new(Ends { calls: Mutex::new(to_make), answers: made })), Desk { calls, answers })
}

impl Desk {
    /// Makes a call and waits for its result; nothing when the run has ended.
    pub(super) fn make(&mut self, call: Call) -> Option<Answer> {
        self.calls.blocking_send(call).ok()?;
        self.answers.blocking_recv()
    }
}

impl ChatModel for Operator {
    fn name(&self) -> &str {
        "operator:lines"
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let ends = self.0.clone();
        Box::pin(stream::once(async move { Ok(ModelEvent::Finished(Box::new(ends.turn(&request).await))) }))
    }
}

impl Ends {
    async fn turn(&self, request: &ModelRequest) -> ModelOutput {
        if let Some(Message::Tool(result)) = request.messages.last().map(|message| &**message) {
            let text = result.content.iter().map(shown).collect::<Vec<_>>().join("\n");
            // Nobody waits when the program is about to end.
            let _ = self.answers.send(Answer { text, error: result.is_error }).await;
        }
        let Some(Call { name, args }) = self.calls.lock().await.recv().await else {
            return ModelOutput::new(AssistantMessage::of(vec![Block::text("That was all.")]));
        };
        let id = format!("line_{}", request.messages.len());
        let call = ToolCall { id, name, args: Value::Object(args), native: None };
        let mut output = ModelOutput::new(AssistantMessage::of(vec![Block::ToolCall(call)]));
        output.stop = StopReason::ToolCalls;
        output
    }
}

/// A block of a result as text.
fn shown(block: &Block) -> String {
    match block {
        Block::Text(text) => text.text.clone(),
        Block::Media(media) => format!("[{}]", media.mime),
        _ => "[not text]".to_owned(),
    }
}
