//! Messages with notes in place of media, kept between the requests of a run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use deepagents_core::message::{Block, HistoryVersion, Media, Message, Messages};
use deepagents_core::model::ModelProfile;

use crate::shared::lock;

/// Maximum number of agents whose messages are kept; those of others are written again.
const MAX_KEPT: usize = 256;

/// What decides which media have a note, besides the messages themselves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reasons {
    kinds: [Option<bool>; 4],
    documents: Vec<String>,
    /// Number of results whose media were refused, which only grows within a run.
    refused: usize,
}

impl Reasons {
    pub(super) fn new(profile: &ModelProfile, refused: usize) -> Self {
        let kinds = [profile.images, profile.audio, profile.video, profile.pdf];
        Self { kinds, documents: profile.documents.clone(), refused }
    }
}

/// The messages of an agent's latest request.
#[derive(Debug)]
struct Noted {
    reasons: Reasons,
    mark: HistoryVersion,
    /// The messages with notes, if there are any.
    messages: Option<Messages>,
}

/// Keeps the messages with notes by run and agent, the oldest first, so that a request costs only what it adds.
#[derive(Clone, Debug, Default)]
pub(super) struct NoteCache(Arc<Mutex<VecDeque<(String, Noted)>>>);

impl NoteCache {
    /// Returns the messages with notes, as [`with_notes`] does. They begin with those of the agent's previous request
    /// if that is a prefix of this one.
    pub(super) fn with_notes(
        &self,
        key: String,
        messages: &Messages,
        reasons: Reasons,
        note_on: impl Fn(&Message, &Media) -> Option<String>,
    ) -> Option<Messages> {
        if !messages.has_media() {
            return None;
        }
        let before = self.take(&key).filter(|noted| noted.reasons == reasons);
        let known = before.as_ref().map_or(0, |noted| messages.shared_with(&noted.mark));
        let noted = match before.and_then(|noted| noted.messages).filter(|_| known > 0) {
            Some(mut noted) => {
                messages.tail(known).for_each(|message| noted.put(with_note(message, &note_on)));
                Some(noted)
            }
            None if messages.tail(known).any(|message| needs_note(message, &note_on)) => {
                Some(messages.iter().map(|message| with_note(message, &note_on)).collect())
            }
            None => None,
        };
        self.put(key, Noted { reasons, mark: messages.mark(), messages: noted.clone() });
        noted
    }

    /// Drops the messages of an agent whose work is done.
    pub(super) fn forget(&self, key: &str) {
        drop(self.take(key));
    }

    fn take(&self, key: &str) -> Option<Noted> {
        let mut kept = lock(&self.0);
        let at = kept.iter().position(|(known, _)| known == key)?;
        kept.remove(at).map(|(_, noted)| noted)
    }

    fn put(&self, key: String, noted: Noted) {
        let mut kept = lock(&self.0);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((key, noted));
    }
}

/// Returns the messages with notes in place of the media for which there is one, or `None` if there are none.
pub(super) fn with_notes(
    messages: &Messages,
    note_on: impl Fn(&Message, &Media) -> Option<String>,
) -> Option<Messages> {
    let any = messages.has_media() && messages.iter().any(|message| needs_note(message, &note_on));
    any.then(|| messages.iter().map(|message| with_note(message, &note_on)).collect())
}

fn note_of(message: &Message, block: &Block, note_on: impl Fn(&Message, &Media) -> Option<String>) -> Option<String> {
    match block {
        Block::Media(media) => note_on(message, media),
        _ => None,
    }
}

fn needs_note(message: &Message, note_on: impl Fn(&Message, &Media) -> Option<String>) -> bool {
    !matches!(message, Message::Assistant(_))
        && message.content().iter().any(|block| note_of(message, block, &note_on).is_some())
}

fn with_note(message: &Arc<Message>, note_on: impl Fn(&Message, &Media) -> Option<String>) -> Arc<Message> {
    if !needs_note(message, &note_on) {
        return message.clone();
    }
    let mut changed = Message::clone(message);
    let content = match &mut changed {
        Message::User(m) => &mut m.content,
        Message::Tool(m) => &mut m.content,
        _ => return message.clone(),
    };
    for block in content {
        if let Some(note) = note_of(message, block, &note_on) {
            *block = Block::text(note);
        }
    }
    Arc::new(changed)
}
