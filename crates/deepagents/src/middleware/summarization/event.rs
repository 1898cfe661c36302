//! Changes to the view of the conversation, as events.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::message::{Message, MessageId, Messages};
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use deepagents_fs::VPath;
use serde::{Deserialize, Serialize};

use super::sections::SummaryText;

/// The changes to the view of the conversation. The messages themselves are never changed.
#[derive(Debug)]
pub struct Compactions;

impl Channel for Compactions {
    const NAME: &'static str = "compactions";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = CompactionState;
    type Update = Vec<CompactionEvent>;

    fn reduce(value: &mut CompactionState, update: Vec<CompactionEvent>) -> Result<(), ChannelError> {
        for event in update {
            value.apply(event);
        }
        Ok(())
    }
}

/// A change to the view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionEvent {
    /// Replaces the beginning of the conversation with a summary.
    Compacted(Box<Compaction>),
    /// Truncates long arguments of calls before this position from now on.
    ArgsTruncated {
        /// The position from which arguments stay whole.
        before: CutPoint,
        /// Number of messages in the thread at that time.
        made_at: usize,
    },
    /// Truncates large results from now on.
    ResultsClipped {
        /// The text to show, by message id.
        shown: BTreeMap<MessageId, Arc<str>>,
        /// Number of messages in the thread at that time.
        made_at: usize,
    },
    /// Replaces the inline media of results with texts from now on.
    MediaReplaced {
        /// The texts to show, by message id; one per medium.
        shown: BTreeMap<MessageId, Vec<Arc<str>>>,
        /// Number of messages in the thread at that time.
        made_at: usize,
    },
    /// Records that no summary could be made.
    Failed {
        /// Number of messages in the thread at that time.
        at: usize,
    },
    /// Records that the provider rejected a request as too long.
    Refused {
        /// Approximate number of tokens of the request.
        tokens: u64,
        /// The name of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// A position between two messages of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    /// The index of the message after it.
    pub index: usize,
    /// The id of the message before it.
    pub before: MessageId,
    /// The id of the message after it.
    pub after: MessageId,
}

/// A summary that replaces the beginning of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// The start of the messages that are kept.
    pub cut: CutPoint,
    /// The text of the summary.
    pub summary: SummaryText,
    /// The message that replaces the evicted ones.
    pub message: Arc<Message>,
    /// The last message of a person, if it was evicted too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Arc<Message>>,
    /// The file with the evicted messages.
    pub file: VPath,
    /// The number of that file in the history, from 1.
    pub part: u32,
    /// Number of messages in the thread at that time.
    pub made_at: usize,
}

/// The state from which, together with the messages, the view is computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionState {
    /// Number of events.
    pub events: u64,
    /// Number of compactions.
    pub compactions: u64,
    /// The last compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Arc<Compaction>>,
    /// Calls before this position have their long arguments truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_before: Option<CutPoint>,
    /// Truncated results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clipped: BTreeMap<MessageId, Arc<str>>,
    /// Texts in place of the inline media of results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced_media: BTreeMap<MessageId, Vec<Arc<str>>>,
    /// Number of messages in the thread when the view last changed. Counts that providers reported earlier belong to
    /// another view.
    pub changed_at: usize,
    /// Number of messages in the thread when a summary last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<usize>,
    /// Number of tokens of the smallest request that was rejected as too long by the model that last rejected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// The name of that model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
}

impl CompactionState {
    pub(super) fn apply(&mut self, event: CompactionEvent) {
        self.events += 1;
        match event {
            CompactionEvent::Compacted(compaction) => {
                self.compactions += 1;
                self.changed_at = compaction.made_at;
                self.failed_at = None;
                self.last = Some(Arc::from(compaction));
            }
            CompactionEvent::ArgsTruncated { before, made_at } => {
                self.truncated_before = Some(before);
                self.changed_at = made_at;
            }
            CompactionEvent::ResultsClipped { shown, made_at } => {
                self.clipped.extend(shown);
                self.changed_at = made_at;
            }
            CompactionEvent::MediaReplaced { shown, made_at } => {
                self.replaced_media.extend(shown);
                self.changed_at = made_at;
            }
            CompactionEvent::Failed { at } => self.failed_at = Some(at),
            CompactionEvent::Refused { tokens, by } => {
                let known = self.refused.filter(|_| self.refused_by == by);
                self.refused = Some(known.map_or(tokens, |known| known.min(tokens)));
                self.refused_by = by;
            }
        }
    }

    /// Returns the tokens of the smallest request that this model has rejected as too long. Rejections by other models
    /// do not count.
    pub(super) fn refused_by(&self, model: &str) -> Option<u64> {
        self.refused.filter(|_| self.refused_by.as_deref() == Some(model))
    }

    /// Returns `true` if the view is the conversation itself.
    pub(super) fn is_plain(&self) -> bool {
        self.last.is_none() && self.truncated_before.is_none() && !self.shortens_results()
    }

    fn shortens_results(&self) -> bool {
        !self.clipped.is_empty() || !self.replaced_media.is_empty()
    }

    /// Returns `true` if a result is shown shortened.
    pub(super) fn shortens(&self, id: &str) -> bool {
        self.clipped.contains_key(id) || self.replaced_media.contains_key(id)
    }

    /// Returns `true` if a result is shown as in another state.
    pub(super) fn shows_as(&self, other: &Self, id: &str) -> bool {
        self.clipped.get(id) == other.clipped.get(id) && self.replaced_media.get(id) == other.replaced_media.get(id)
    }
}

impl CutPoint {
    /// Returns the position before the message at an index.
    pub(super) fn at(messages: &Messages, index: usize) -> Self {
        let id = |at: Option<usize>| at.and_then(|at| messages.get(at)).map(|m| m.id().to_owned()).unwrap_or_default();
        Self { index, before: id(index.checked_sub(1)), after: id(Some(index)) }
    }

    /// Returns the current index of the position, as a repair may have added or removed earlier messages. Returns
    /// `None` if neither neighbour exists any more.
    pub(super) fn find(&self, messages: &Messages) -> Option<usize> {
        let is = |index: usize, id: &str| !id.is_empty() && messages.get(index).is_some_and(|m| m.id() == id);
        if is(self.index, &self.after) || self.index.checked_sub(1).is_some_and(|before| is(before, &self.before)) {
            return Some(self.index);
        }
        let known = |id: &str| !id.is_empty() && messages.by_id(id).is_some();
        let position = |id: &str| known(id).then(|| messages.iter().position(|m| m.id() == id)).flatten();
        position(&self.after).or_else(|| position(&self.before).map(|before| before + 1))
    }
}

/// The part of a thread that the model is shown, for code that measures conversations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownPart {
    /// The index of its first message; earlier ones are summarized.
    pub(crate) from: usize,
    /// Provider counts for answers before this index belong to another view.
    pub(crate) counted_from: usize,
}

impl ShownPart {
    pub(crate) fn of(cx: &Context) -> Self {
        let Some(state) = cx.state().get::<Compactions>() else { return Self { from: 0, counted_from: 0 } };
        let from = state.last.as_ref().and_then(|last| last.cut.find(cx.messages())).unwrap_or(0);
        Self { from, counted_from: state.changed_at }
    }
}
