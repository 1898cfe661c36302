//! The messages of a thread: a persistent vector with an index by id.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use rpds::{HashTrieMapSync, VectorSync};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::{Block, Message, MessageId, MessageOp, ToolMessage};

/// The messages of a thread.
///
/// Cloning is cheap, and appending costs the same at message ten and at message ten thousand, because versions share
/// structure. Ids are unique. Messages without an id are never replaced.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    items: VectorSync<Arc<Message>>,
    at: HashTrieMapSync<String, usize>,
    /// Shared by versions that differ only by appended messages.
    lineage: Arc<()>,
    /// Number of messages with media.
    with_media: usize,
}

/// Identifies a version of a history, to tell whether another version only appends to it.
#[derive(Clone, Debug)]
pub struct HistoryVersion {
    lineage: Arc<()>,
    len: usize,
    /// Keeps the address from being reused without keeping the message alive.
    last: Option<Weak<Message>>,
}

impl Messages {
    /// Creates an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the message at a position.
    pub fn get(&self, index: usize) -> Option<&Arc<Message>> {
        self.items.get(index)
    }

    /// Returns the message with an id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Message>> {
        self.at.get(id).and_then(|&index| self.items.get(index))
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.items.last()
    }

    /// Iterates over the messages from first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.items.iter()
    }

    /// Returns whether any message contains media, without iterating over them.
    pub fn has_media(&self) -> bool {
        self.with_media > 0
    }

    /// Iterates from a position to the end, without walking the earlier messages.
    pub fn tail(&self, from: usize) -> impl Iterator<Item = &Arc<Message>> {
        (from..self.len()).filter_map(|index| self.items.get(index))
    }

    /// Returns the position of the last assistant message, searching from the end.
    pub fn last_assistant(&self) -> Option<usize> {
        (0..self.len()).rev().find(|&index| matches!(self.items.get(index).map(|m| &**m), Some(Message::Assistant(_))))
    }

    /// Iterates over the tool results that belong to the answer at a position: those before the next answer. Some
    /// providers reuse call ids in later turns, so an id alone does not identify a result.
    ///
    /// ```
    /// use deepagents_core::message::{AssistantMessage, Block, Message, Messages, ToolCall};
    /// let call = ToolCall::new("call_0", "ls", serde_json::json!({}));
    /// let answer = || Message::Assistant(AssistantMessage::new(vec![Block::ToolCall(call.clone())]));
    /// let said = [answer(), Message::tool(&call, "one"), answer(), Message::tool(&call, "two")];
    /// let history: Messages = said.into_iter().collect();
    /// let first: Vec<String> = history.results_of(0).map(|result| result.call_id.clone()).collect();
    /// assert_eq!(first, ["call_0"]);
    /// ```
    pub fn results_of(&self, answer: usize) -> impl Iterator<Item = &ToolMessage> {
        let turn = self.tail(answer.saturating_add(1)).take_while(|message| message.as_assistant().is_none());
        turn.filter_map(|message| message.as_tool())
    }

    /// Returns an identifier of this version.
    pub fn mark(&self) -> HistoryVersion {
        HistoryVersion { lineage: self.lineage.clone(), len: self.len(), last: self.last().map(Arc::downgrade) }
    }

    /// Returns how many messages of an earlier version are known to be a prefix of this one: all of them, or none.
    pub fn shared_with(&self, mark: &HistoryVersion) -> usize {
        let last = mark.len.checked_sub(1).and_then(|index| self.get(index));
        // Both versions may have been appended to independently: the last message tells them apart.
        let same_end = match (&mark.last, last) {
            (Some(marked), Some(mine)) => std::ptr::eq(marked.as_ptr(), Arc::as_ptr(mine)),
            _ => false,
        };
        if same_end && Arc::ptr_eq(&mark.lineage, &self.lineage) { mark.len } else { 0 }
    }

    /// Appends a message, or replaces in place the one with the same id.
    pub fn put(&mut self, message: Arc<Message>) {
        let id = message.id();
        self.with_media += usize::from(holds_media(&message));
        if !id.is_empty() {
            if let Some(&index) = self.at.get(id) {
                self.with_media -= self.items.get(index).map_or(0, |old| usize::from(holds_media(old)));
                self.items.set_mut(index, message);
                self.lineage = Arc::new(());
                return;
            }
            self.at.insert_mut(id.to_owned(), self.items.len());
        }
        self.items.push_back_mut(message);
    }

    /// Applies changes in order. Removing is linear in the length of the history; appending and replacing are not.
    pub fn apply(&mut self, ops: Vec<MessageOp>) {
        // Changes before the last `RemoveAll` have no effect.
        let start = ops.iter().rposition(|op| matches!(op, MessageOp::RemoveAll));
        if start.is_some() {
            *self = Self::new();
        }
        // Consecutive removals are applied together, because each pass walks the whole history.
        let mut gone: HashSet<MessageId> = HashSet::new();
        for op in ops.into_iter().skip(start.map_or(0, |at| at + 1)) {
            match op {
                MessageOp::Put(message) => {
                    self.leave_out(&mut gone);
                    self.put(message);
                }
                MessageOp::Remove(id) if self.at.contains_key(&id) => {
                    gone.insert(id);
                }
                MessageOp::Remove(_) | MessageOp::RemoveAll => {}
            }
        }
        self.leave_out(&mut gone);
    }

    fn leave_out(&mut self, gone: &mut HashSet<MessageId>) {
        if !gone.is_empty() {
            *self = self.iter().filter(|message| !gone.contains(message.id())).cloned().collect();
            gone.clear();
        }
    }
}

fn holds_media(message: &Message) -> bool {
    message.content().iter().any(|block| matches!(block, Block::Media(_)))
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        let mut out = Self::new();
        for message in messages {
            out.put(message);
        }
        out
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().map(Arc::new).collect()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Arc<Message>>::deserialize(deserializer).map(|list| list.into_iter().collect())
    }
}
