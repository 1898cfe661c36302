//! Media that a model does not support.

use std::future::Future;
use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, Messages};
use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ModelProfile, ModelRequest};

const PDF: &str = "application/pdf";

/// Replaces pictures, sound, video and documents that the model is known not to support with a short text, so that a
/// conversation with media can continue with any model. Only the request changes: the thread keeps them.
///
/// Media for which the model's [`profile`](deepagents_core::model::ChatModel::profile) does not say anything count as
/// supported, but inline documents other than PDF are sent only if the profile lists their type. Place it at the inner
/// end of the stack, where the model of the call is final.
///
/// ```
/// use deepagents::core::agent::Agent;
/// use deepagents::middleware::UnsupportedContent;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// // A deep agent has it anyway.
/// let model = ScriptedModel::new([Turn::text("I cannot see it.")]);
/// let agent = Agent::builder(model).middleware(UnsupportedContent::default()).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsupportedContent {
    _private: (),
}

impl Middleware for UnsupportedContent {
    fn name(&self) -> &str {
        "UnsupportedContent"
    }

    // The future of an `async fn` would hold the request until the model has answered.
    fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        let profile = next.model().profile();
        if let Some(messages) = readable(&request.messages, &profile) {
            request.messages = messages;
        }
        for block in &mut request.system {
            if let Some(media) = block.media.take_if(|media| kind_rejected(media, &profile).is_some()) {
                let kind = kind_rejected(&media, &profile).unwrap_or_default();
                block.text = note(&media, kind, None).into();
            }
        }
        next.run(request)
    }
}

/// Returns the messages without unsupported media, or `None` if there are none.
fn readable(messages: &Messages, profile: &ModelProfile) -> Option<Messages> {
    if !messages.has_media() {
        return None;
    }
    let rejects = |block: &Block| matches!(block, Block::Media(media) if kind_rejected(media, profile).is_some());
    let affected =
        |message: &Message| !matches!(message, Message::Assistant(_)) && message.content().iter().any(rejects);
    if !messages.iter().any(|message| affected(message)) {
        return None;
    }
    let change = |message: &Arc<Message>| {
        if !affected(message) {
            return message.clone();
        }
        let mut message = Message::clone(message);
        let (content, tool) = match &mut message {
            Message::User(m) => (&mut m.content, None),
            Message::Tool(m) => (&mut m.content, Some(m.name.clone())),
            _ => return Arc::new(message),
        };
        for block in content {
            if let Block::Media(media) = block
                && let Some(kind) = kind_rejected(media, profile)
            {
                *block = Block::text(note(media, kind, tool.as_deref()));
            }
        }
        Arc::new(message)
    };
    Some(messages.iter().map(change).collect())
}

/// Returns the kind of a medium if the model does not support it.
fn kind_rejected(media: &Media, profile: &ModelProfile) -> Option<&'static str> {
    let is_inline = match &media.source {
        MediaSource::Base64(_) => true,
        MediaSource::Url(url) => url.starts_with("data:"),
        _ => false,
    };
    let (supported, kind) = match media.kind {
        MediaKind::Image => (profile.images != Some(false), "image"),
        MediaKind::Audio => (profile.audio != Some(false), "audio"),
        MediaKind::Video => (profile.video != Some(false), "video"),
        MediaKind::File if !is_inline => (true, "file"),
        MediaKind::File if media.mime == PDF => (profile.pdf != Some(false), "PDF"),
        // Most providers accept other documents by reference at most.
        MediaKind::File => (profile.documents.contains(&media.mime), "file"),
        _ => (false, "file"),
    };
    (!supported).then_some(kind)
}

fn note(media: &Media, kind: &str, tool: Option<&str>) -> String {
    let name = media.name.as_deref().unwrap_or("content");
    let by = tool.filter(|tool| !tool.is_empty()).map(|tool| format!("{tool}: ")).unwrap_or_default();
    format!("[{by}{name} was not attached because this model does not support {kind} content ({}).]", media.mime)
}
