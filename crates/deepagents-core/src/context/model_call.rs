//! A single model call: the innermost part of the stack around model calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_core::stream::BoxStream;
use futures_util::StreamExt;

use super::{Context, observer};
use crate::error::Result;
use crate::event::EventKind;
use crate::message::{self, Messages};
use crate::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
use crate::panics::lock;

/// Validates the messages added since the last call; a history changed in any other way is validated as a whole.
fn check_history(cx: &Context, messages: &Messages) -> Result<()> {
    let passed = lock(&cx.shared.passed).clone();
    message::check(messages, passed.map_or(0, |mark| messages.shared_with(&mark)))?;
    *lock(&cx.shared.passed) = Some(messages.mark());
    Ok(())
}

/// A model's streamed answer.
type Pieces = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// Starts a model call. Returns its stream and the number of the attempt.
fn begin(cx: &Context, model: &Arc<dyn ChatModel>, mut request: Box<ModelRequest>) -> Result<(Pieces, u32)> {
    check_history(cx, &request.messages)?;
    request.cache.fit(&request.messages);
    let request = if model.profile().system_media { *request } else { request.with_media_in_messages() };
    cx.shared.budget.begin_model_call(&**model)?;
    let (turn, attempt) = (cx.turn, cx.shared.attempt.fetch_add(1, Ordering::Relaxed));
    let message = cx.shared.set_answering(attempt);
    cx.emit(|| EventKind::ModelStarted { model: model.name().to_owned(), turn, attempt, message });
    Ok((observer::through(cx, model, false).stream(request), attempt))
}

/// Calls the model and emits its pieces as events. Returns the answer and its attempt.
pub(crate) async fn call_model(
    cx: &Context,
    model: &Arc<dyn ChatModel>,
    request: Box<ModelRequest>,
) -> Result<(ModelOutput, u32)> {
    let (mut events, mut attempt) = begin(cx, model, request)?;
    let turn = cx.turn;
    // Emitted text belongs to a valid answer until its attempt is discarded.
    let mut streamed = false;
    let failure = loop {
        let kind = match events.next().await {
            Some(Ok(ModelEvent::Finished(output))) => {
                cx.shared.budget.end_model_call(&cx.shared.agent.name, &**model, &output);
                return Ok((*output, attempt));
            }
            Some(Ok(ModelEvent::Text { delta, .. })) => {
                if !streamed && !delta.is_empty() {
                    streamed = lock(&cx.shared.streamed_attempts).insert(attempt);
                }
                EventKind::TextDelta { turn, attempt, text: delta }
            }
            Some(Ok(ModelEvent::Reasoning { delta, .. })) => EventKind::ReasoningDelta { turn, attempt, text: delta },
            Some(Ok(ModelEvent::ToolCall { block, id, name })) => {
                EventKind::ToolCallDelta { turn, attempt, block, id: Some(id), name: Some(name), args: String::new() }
            }
            Some(Ok(ModelEvent::ToolArgs { block, delta })) => {
                EventKind::ToolCallDelta { turn, attempt, block, id: None, name: None, args: delta }
            }
            Some(Ok(ModelEvent::Retry { error, after })) => {
                let retry_after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                lock(&cx.shared.streamed_attempts).remove(&attempt);
                streamed = false;
                let failed = std::mem::replace(&mut attempt, cx.shared.attempt.fetch_add(1, Ordering::Relaxed));
                EventKind::AttemptDiscarded {
                    turn,
                    attempt: failed,
                    reason: error.to_string(),
                    retry_after_ms,
                    requested: error.info().retry_after.is_some(),
                    again: true,
                    next: cx.shared.set_answering(attempt),
                }
            }
            Some(Err(error)) => break error,
            None => break ModelError::truncated("the stream ended before the answer was complete"),
        };
        cx.emit(|| kind);
        // Yield to the readers of the events, even if the model always has more output ready.
        tokio::task::coop::consume_budget().await;
    };
    lock(&cx.shared.streamed_attempts).remove(&attempt);
    let reason = failure.to_string();
    let next = cx.shared.set_answering(cx.shared.attempt.load(Ordering::Relaxed));
    cx.emit(|| EventKind::AttemptDiscarded {
        turn,
        attempt,
        reason,
        retry_after_ms: 0,
        requested: false,
        again: false,
        next,
    });
    Err(failure.into())
}

/// Calls a model outside the conversation. It counts like any call, but no piece of the answer is emitted as the
/// agent's.
pub(super) async fn invoke_aside(
    cx: &Context,
    model: &Arc<dyn ChatModel>,
    mut request: ModelRequest,
) -> Result<ModelOutput> {
    message::check(&request.messages, 0)?;
    request.cache.fit(&request.messages);
    // The conversation does not show this call, so its cost must be recorded with the run.
    cx.shared.budget.record();
    cx.shared.budget.begin_model_call(&**model)?;
    let output = observer::through(cx, model, true).invoke(request).await?;
    cx.shared.budget.end_model_call(&cx.shared.agent.name, &**model, &output);
    Ok(output)
}
