//! Moves long messages of a person to files.

use std::collections::BTreeMap;

use deepagents_core::error::BoxError;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Block, Message, MessageId, UserMessage};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Sharing, Update};
use deepagents_fs::{VPath, WriteMode};

use super::evict::preview;
use crate::artifacts::Readers;
use crate::digest::sha256_hex;
use crate::tokens;
use crate::workspace::Workspace;

/// The files of long messages, by message id. The conversation keeps the whole message; what the model sees is derived
/// from it for every request, always with the same result.
#[derive(Debug)]
pub(super) struct LongMessages;

impl Channel for LongMessages {
    const NAME: &'static str = "long_messages";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = BTreeMap<MessageId, VPath>;
    type Update = Vec<(MessageId, VPath)>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

/// Which messages to check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Those up to the last answer, once per run, because the caller may provide any history.
    Start,
    /// Those after the last answer.
    LastAnswer,
}

/// Stores the messages of a person that weigh more than `limit` quarters of a token. A message that cannot be stored is
/// sent whole, and the application is notified.
pub(super) async fn store(limit: usize, since: Since, workspace: &Workspace, cx: &Context) -> Update {
    let known = cx.get::<LongMessages>();
    let messages = cx.messages();
    let answered = messages.last_assistant().map_or(0, |at| at + 1);
    let range = if since == Since::Start { 0..answered } else { answered..messages.len() };
    let looked_at = range.filter_map(|at| messages.get(at));
    let long = looked_at.filter(|message| is_long(message, limit) && !known.contains_key(message.id()));
    let (mut update, mut stored) = (Update::none(), Vec::new());
    for message in long {
        match put(message, &update, workspace, cx).await {
            Ok((path, written)) => {
                update = update.and(written);
                stored.push((message.id().to_owned(), path));
            }
            Err(error) => {
                let (message, reason) = (message.id().to_owned(), error.to_string());
                cx.report(MiddlewareEvent::LongMessageKept { message, reason });
            }
        }
    }
    if stored.is_empty() { update } else { update.with::<LongMessages>(stored) }
}

/// Returns `true` if a message is a person's and exceeds the limit.
fn is_long(message: &Message, limit: usize) -> bool {
    let is_persons = message.as_user().is_some_and(|user| user.author == Author::Human);
    // No text weighs more than four quarters of a token per three bytes.
    let bytes = || message.content().iter().filter_map(Block::as_text).map(str::len).sum::<usize>();
    is_persons && bytes() > limit / 4 * 3 && tokens::quarters(&message.text()) > limit
}

async fn put(
    message: &Message,
    before: &Update,
    workspace: &Workspace,
    cx: &Context,
) -> Result<(VPath, Update), BoxError> {
    // For files in the state, include what was just stored.
    let mut state = cx.state().clone();
    let applied = state.apply(before);
    let state = if applied.is_ok() { &state } else { cx.state() };
    let text = message.text();
    // Named by its content, because several threads may share the backend and have messages with the same id.
    let (artifacts, backend) = (workspace.artifacts(), workspace.kept_for(cx));
    let path = artifacts.history().join(&format!("messages/{}.md", sha256_hex(&text, 16)))?;
    let written = artifacts.store(&*backend, state, &path, text.into(), WriteMode::Overwrite).await?;
    Ok((path, written.update))
}

/// Replaces stored messages with their beginnings and ends.
pub(super) fn shorten(mut request: ModelRequest, readers: Readers, cx: &Context) -> ModelRequest {
    let (stored, advice) = (cx.get::<LongMessages>(), readers.advice());
    for (id, path) in &stored {
        let Some(message) = request.messages.by_id(id).cloned() else { continue };
        let Some(user) = message.as_user() else { continue };
        let text = message.text();
        let head = format!(
            "This message is long and was put into {path}; {advice}. Its beginning and end:\n\n{}",
            preview(&text)
        );
        let rest = user.content.iter().filter(|block| block.as_text().is_none()).cloned();
        let content = std::iter::once(Block::text(head)).chain(rest).collect();
        request.messages.put(Message::User(UserMessage { content, as_sent: None, ..user.clone() }).into());
    }
    request
}
