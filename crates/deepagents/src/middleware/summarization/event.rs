//! What has been done to the view of the conversation, as events.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::message::{Message, MessageId, Messages};
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use deepagents_fs::VPath;
use serde::{Deserialize, Serialize};

use super::sections::SummaryText;

/// What has been done to the view of the conversation. The messages themselves are never changed.
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

/// One change of the view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionEvent {
    /// The beginning of the conversation was replaced by a summary.
    Compacted(Box<Compaction>),
    /// Long arguments of calls before this place are cut from now on.
    ArgsTruncated {
        /// Where they stay whole.
        before: CutPoint,
        /// Messages in the thread at that time.
        made_at: usize,
    },
    /// Large results are shown in part from now on.
    ResultsClipped {
        /// What is shown, by id of the message.
        shown: BTreeMap<MessageId, Arc<str>>,
        /// Messages in the thread at that time.
        made_at: usize,
    },
    /// No summary could be made.
    Failed {
        /// Messages in the thread at that time.
        at: usize,
    },
    /// The provider refused a request of about so many tokens as too long.
    Refused {
        /// Tokens of the request.
        tokens: u64,
        /// The name of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// A place between two messages of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    /// Position of the message after it.
    pub index: usize,
    /// Id of the message before it.
    pub before: MessageId,
    /// Id of the message after it.
    pub after: MessageId,
}

/// The beginning of the conversation, replaced by a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// Where the messages that stay begin.
    pub cut: CutPoint,
    /// What the summary says.
    pub summary: SummaryText,
    /// The message that stands for what was evicted.
    pub message: Arc<Message>,
    /// The last words of a person, if they were evicted too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Arc<Message>>,
    /// Where the evicted messages are.
    pub file: VPath,
    /// Which part of the history the file is, from 1.
    pub part: u32,
    /// Messages in the thread at that time.
    pub made_at: usize,
}

/// What the view is computed from, beside the messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionState {
    /// Counts the events.
    pub events: u64,
    /// Counts the compactions.
    pub compactions: u64,
    /// The last compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Arc<Compaction>>,
    /// Calls before this have their long arguments cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_before: Option<CutPoint>,
    /// Results shown in part.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clipped: BTreeMap<MessageId, Arc<str>>,
    /// Messages in the thread when the view last changed: counts that providers reported before are of another view.
    pub changed_at: usize,
    /// Messages in the thread when a summary last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<usize>,
    /// Tokens of the smallest request that was refused as too long by the model that last refused one.
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
            CompactionEvent::Failed { at } => self.failed_at = Some(at),
            CompactionEvent::Refused { tokens, by } => {
                let known = self.refused.filter(|_| self.refused_by == by);
                self.refused = Some(known.map_or(tokens, |known| known.min(tokens)));
                self.refused_by = by;
            }
        }
    }

    /// Tokens of the smallest request that this model has refused as too long. What another model has refused says nothing
    /// of it.
    pub(super) fn refused_by(&self, model: &str) -> Option<u64> {
        self.refused.filter(|_| self.refused_by.as_deref() == Some(model))
    }

    /// Whether the view is the conversation itself.
    pub(super) fn is_plain(&self) -> bool {
        self.last.is_none() && self.truncated_before.is_none() && self.clipped.is_empty()
    }
}

impl CutPoint {
    /// The place before the message at a position.
    pub(super) fn at(messages: &Messages, index: usize) -> Self {
        let id = |at: Option<usize>| at.and_then(|at| messages.get(at)).map(|m| m.id().to_owned()).unwrap_or_default();
        Self { index, before: id(index.checked_sub(1)), after: id(Some(index)) }
    }

    /// Where the place is now: messages before it may have been added or removed since by a repair. Nothing if neither
    /// of its neighbours is there any more.
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

/// The part of a thread that the model is shown, for what looks at the sizes of conversations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownPart {
    /// Position of its first message: what comes before stands in a summary.
    pub(crate) from: usize,
    /// Counts of providers for answers before this position are of another view.
    pub(crate) counted_from: usize,
}

impl ShownPart {
    pub(crate) fn of(cx: &Context) -> Self {
        let Some(state) = cx.state().get::<Compactions>() else { return Self { from: 0, counted_from: 0 } };
        let from = state.last.as_ref().and_then(|last| last.cut.find(cx.messages())).unwrap_or(0);
        Self { from, counted_from: state.changed_at }
    }
}
