//! What a person says at great length goes to a file too.

use std::collections::BTreeMap;

use deepagents_core::error::{Error, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Block, Message, MessageId, UserMessage};
use deepagents_core::middleware::HookOutput;
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Update};
use deepagents_fs::{Backend, VPath, WriteMode};

use super::evict::{name_of, preview};

/// Where long messages go, beside what summaries leave out.
pub(super) const FOLDER: &str = "/conversation_history";

/// Where each long message is, by its id. The conversation keeps the message whole; what the model is shown is made from
/// it again for every request, the same each time.
#[derive(Debug)]
pub(super) struct LongMessages;

impl Channel for LongMessages {
    const NAME: &'static str = "long_messages";
    const PRIVATE: bool = true;
    type Value = BTreeMap<MessageId, VPath>;
    type Update = Vec<(MessageId, VPath)>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

/// Stores the last message if a person wrote it and it has more than `limit` characters. Where it cannot be stored it is
/// sent whole, and the application is told.
pub(super) async fn store(limit: usize, backend: &dyn Backend, cx: &Context) -> Result<HookOutput> {
    let Some(last) = cx.messages().last() else { return Ok(HookOutput::next()) };
    let Some(UserMessage { id, author: Author::Human, .. }) = last.as_user() else { return Ok(HookOutput::next()) };
    let text = last.text();
    let known = cx.state().get::<LongMessages>().is_some_and(|known| known.contains_key(id));
    if known || text.chars().count() <= limit {
        return Ok(HookOutput::next());
    }
    // Apart from what summaries leave out: an id may be what a thread is called.
    let path = VPath::parse(&format!("{FOLDER}/messages/{}.md", name_of(id))).map_err(Error::other)?;
    match backend.write(cx.state(), &path, text.into(), WriteMode::Overwrite).await {
        Ok(written) => {
            Ok(HookOutput::update(written.update.and(Update::new::<LongMessages>(vec![(id.clone(), path)]))))
        }
        Err(error) => {
            cx.report(MiddlewareEvent::LongMessageKept { message: id.clone(), reason: error.to_string() });
            Ok(HookOutput::next())
        }
    }
}

/// Shows the stored messages by their beginnings and ends.
pub(super) fn shorten(mut request: ModelRequest, cx: &Context) -> ModelRequest {
    let stored = cx.get::<LongMessages>();
    for (id, path) in &stored {
        let Some(message) = request.messages.by_id(id).cloned() else { continue };
        let Some(user) = message.as_user() else { continue };
        let text = message.text();
        let head = format!(
            "This message is long and was put into {path}; read it in parts with read_file. Its beginning and end:\n\n{}",
            preview(&text)
        );
        let rest = user.content.iter().filter(|block| block.as_text().is_none()).cloned();
        let content = std::iter::once(Block::text(head)).chain(rest).collect();
        request.messages.put(Message::User(UserMessage { content, ..user.clone() }).into());
    }
    request
}
