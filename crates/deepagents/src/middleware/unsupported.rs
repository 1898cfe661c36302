//! Media that a model does not support or that a provider refuses.

mod notes;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, MessageId, Messages};
use deepagents_core::middleware::{HookOutput, Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ModelError, ModelProfile, ModelRequest};
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing, Update};

use crate::shared::agent_key;
use notes::{NoteCache, Reasons, with_notes};

const PDF: &str = "application/pdf";

/// Replaces pictures, sound, video and documents that the model is known not to support with a short text, so that a
/// conversation with media can continue with any model. Only the request changes: the thread keeps them.
///
/// If a provider refuses a request as invalid and there are media in the tool results after the last answer, the
/// request is made once more without them. If that succeeds, later requests leave them out too: the conversation would
/// be refused for as long as it contains them.
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
#[derive(Clone, Debug, Default)]
pub struct UnsupportedContent {
    notes: NoteCache,
}

impl Middleware for UnsupportedContent {
    fn name(&self) -> &str {
        "UnsupportedContent"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<RefusedMedia>()]
    }

    // The future of an `async fn` would hold the request until the model has answered.
    fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        let profile = next.model().profile();
        let refused = next.cx().state().get::<RefusedMedia>();
        let is_refused = |message: &Message| refused.is_some_and(|ids| ids.contains(message.id()));
        let note_on = |message: &Message, media: &Media| {
            if is_refused(message) {
                return Some(refusal(media, tool_of(message)));
            }
            kind_rejected(media, &profile).map(|kind| note(media, kind, tool_of(message)))
        };
        let reasons = Reasons::new(&profile, refused.map_or(0, BTreeSet::len));
        let key = agent_key(next.cx().run_id(), next.cx());
        if let Some(messages) = self.notes.with_notes(key, &request.messages, reasons, note_on) {
            request.messages = messages;
        }
        for block in &mut request.system {
            if let Some(media) = block.media.take_if(|media| kind_rejected(media, &profile).is_some()) {
                let kind = kind_rejected(&media, &profile).unwrap_or_default();
                block.text = note(&media, kind, None).into();
            }
        }
        let new = new_media(&request.messages);
        let again = (!new.is_empty()).then(|| Box::new((request.clone(), next.clone(), new)));
        let answer = next.run(request);
        async move {
            match (answer.await, again) {
                (Err(error), Some(again)) if is_invalid(&error) => without_media(*again, error).await,
                (answer, _) => answer,
            }
        }
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        self.notes.forget(&agent_key(cx.run_id(), cx));
        Ok(HookOutput::next())
    }
}

/// The tool results whose media a provider has refused, by message id.
#[derive(Debug)]
struct RefusedMedia;

impl Channel for RefusedMedia {
    const NAME: &'static str = "refused_media";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = BTreeSet<MessageId>;
    type Update = Vec<MessageId>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> std::result::Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

fn is_invalid(error: &Error) -> bool {
    matches!(error.as_model(), Some(ModelError::Invalid(_)))
}

/// Returns the ids of the tool results with media that no answer has followed yet.
fn new_media(messages: &Messages) -> Vec<MessageId> {
    if !messages.has_media() {
        return Vec::new();
    }
    let has_media = |message: &&Arc<Message>| {
        message.as_tool().is_some() && message.content().iter().any(|block| matches!(block, Block::Media(_)))
    };
    let from = messages.last_assistant().map_or(0, |at| at + 1);
    messages.tail(from).filter(has_media).map(|message| message.id().to_owned()).collect()
}

/// Makes a refused request again without its new media. If they were not the reason, returns the first error.
async fn without_media(
    (mut request, next, new): (ModelRequest, ModelNext, Vec<MessageId>),
    first: Error,
) -> Result<ModelResponse> {
    let is_new = |message: &Message| new.iter().any(|id| id == message.id());
    let note_on = |message: &Message, media: &Media| is_new(message).then(|| refusal(media, tool_of(message)));
    if let Some(messages) = with_notes(&request.messages, note_on) {
        request.messages = messages;
    }
    match next.run(request).await {
        Ok(response) => Ok(response.with_update(Update::new::<RefusedMedia>(new))),
        Err(error) if is_invalid(&error) => Err(first),
        Err(error) => Err(error),
    }
}

/// Returns the name of the tool whose result a message is.
fn tool_of(message: &Message) -> Option<&str> {
    message.as_tool().map(|result| result.name.as_str())
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
    let why = format!("this model does not support {kind} content");
    unattached(media, &why, tool)
}

fn refusal(media: &Media, tool: Option<&str>) -> String {
    unattached(media, "the provider refused the request with it", tool)
}

fn unattached(media: &Media, why: &str, tool: Option<&str>) -> String {
    let name = media.name.as_deref().unwrap_or("content");
    let by = tool.filter(|tool| !tool.is_empty()).map(|tool| format!("{tool}: ")).unwrap_or_default();
    format!("[{by}{name} was not attached because {why} ({}).]", media.mime)
}
