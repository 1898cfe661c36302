//! Cache of encoded requests. Each request sends the whole conversation again, with the same tools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use deepagents_core::message::{HistoryVersion, Message, Messages};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest, ProviderTool, SystemBlock, ToolSpec};
use serde::Serialize;

use super::SharedField;
use super::digest::{BodyHash, PrefixHash};

/// Maximum number of bytes cached of one conversation, from its start.
const MAX_CONVERSATION_BYTES: usize = 8 << 20;
/// Maximum number of bytes cached in total. Above it, conversations that have ended are dropped, and all others too if
/// that is not enough.
const MAX_TOTAL_BYTES: usize = 32 << 20;

/// Encoded conversations, by their first message.
#[derive(Debug, Default)]
pub(crate) struct Written {
    kept: Mutex<CachedPrefix>,
    tools: SharedField<ToolsKey>,
    system: SharedField<Vec<SystemBlock>>,
    pub(super) hashes: bool,
}

/// Inputs of a request's encoded tools.
type ToolsKey = (Vec<Arc<ToolSpec>>, Vec<Arc<ProviderTool>>, Option<CacheTtl>);

#[derive(Debug, Default)]
struct CachedPrefix {
    by_first: HashMap<usize, EncodedStart>,
    bytes: usize,
}

/// The encoded start of a conversation. Messages never change once shared, so it is valid for every conversation that
/// starts with the same ones.
#[derive(Debug, Default)]
pub(crate) struct EncodedStart {
    /// Weak references prevent reuse of the addresses without keeping the messages alive.
    messages: Vec<Weak<Message>>,
    /// Version of the conversation it was last encoded for, to recognise one that only adds messages without comparing
    /// them.
    version: Option<HistoryVersion>,
    /// Where it may be cut: message count and byte offset.
    cuts: Vec<(usize, usize)>,
    /// The encoded turns, separated by commas. Each piece is more than twice as long as the next, so there are few of
    /// them and each byte is copied only a few times, however long the conversation grows.
    pub(super) pieces: Vec<Bytes>,
    /// Total length of the pieces.
    len: usize,
    /// Hash of the body up to its end, for signed requests.
    hash: Option<PrefixHash>,
}

impl EncodedStart {
    /// Returns the number of messages in it.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends newly encoded turns up to the last cut. Each cut has a message count from the start of the conversation
    /// and a byte offset in `added`.
    pub(crate) fn extend(&mut self, messages: &Messages, added: &Bytes, cuts: impl Iterator<Item = (usize, usize)>) {
        let before = self.len;
        let cuts = cuts.map(|(upto, bytes)| (upto, before + bytes));
        self.cuts.extend(cuts.take_while(|(_, bytes)| *bytes <= MAX_CONVERSATION_BYTES));
        let Some((upto, bytes)) = self.cuts.last().copied() else { return };
        let known = self.messages.len();
        self.messages.extend(messages.tail(known).take(upto.saturating_sub(known)).map(Arc::downgrade));
        self.version = Some(messages.mark());
        let settled = bytes.saturating_sub(before).min(added.len());
        if settled > 0 {
            self.len = bytes;
            // A slice keeps the memory of the whole alive.
            let shares = settled >= added.len() / 2;
            let settled = added.slice(..settled);
            if let Some(hash) = &mut self.hash {
                hash.add(&settled);
            }
            self.push(if shares { settled } else { Bytes::copy_from_slice(&settled) });
        }
    }

    /// Makes the hash that of a body with these pieces before the conversation.
    pub(super) fn hash_behind(&mut self, head: &[Bytes]) {
        if self.hash.as_ref().is_none_or(|hash| !hash.is_of(head, self.len)) {
            self.hash = Some(PrefixHash::new(head.to_vec(), &self.pieces));
        }
    }

    /// Returns the hash of a body that ends with `added`.
    pub(super) fn hash_with(&self, added: &[u8]) -> Option<BodyHash> {
        self.hash.as_ref().map(|hash| hash.with(added))
    }

    fn push(&mut self, mut piece: Bytes) {
        while let Some(before) = self.pieces.pop_if(|before| before.len() <= piece.len().saturating_mul(2)) {
            piece = [before, piece].concat().into();
        }
        self.pieces.push(piece);
    }

    /// Cuts it to what `messages` starts with as well, at most `most` messages.
    fn cut(&mut self, messages: &Messages, most: usize) {
        let known = self.messages.len();
        let shared = match &self.version {
            Some(version) if messages.shared_with(version) >= known.max(1) => known.min(most),
            _ => self.shared(messages, most),
        };
        self.cuts.truncate(self.cuts.partition_point(|(upto, _)| *upto <= shared));
        let (upto, bytes) = self.cuts.last().copied().unwrap_or_default();
        self.messages.truncate(upto);
        while self.len > bytes
            && let Some(mut piece) = self.pieces.pop()
        {
            let start = self.len.saturating_sub(piece.len());
            piece.truncate(bytes.saturating_sub(start));
            self.len = start + piece.len();
            if !piece.is_empty() {
                self.pieces.push(piece);
            }
        }
    }

    /// Returns how many of its messages `messages` starts with, at most `most`.
    fn shared(&self, messages: &Messages, most: usize) -> usize {
        let same = |(mine, theirs): &(&Weak<Message>, &Arc<Message>)| std::ptr::eq(mine.as_ptr(), Arc::as_ptr(theirs));
        self.messages.iter().zip(messages.iter()).take(most).take_while(same).count()
    }

    /// Returns whether nobody holds the conversation any more.
    fn has_ended(&self) -> bool {
        self.messages.first().is_none_or(|first| first.strong_count() == 0)
    }
}

impl Written {
    /// Creates a cache; `hashes` says that bodies are signed, which needs their hash.
    pub(crate) fn new(hashes: bool) -> Self {
        Self { hashes, ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, CachedPrefix> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a request's encoded tools, encoding them once for all requests with the same ones.
    pub(crate) fn tools<T: Serialize>(
        &self,
        request: &ModelRequest,
        tools: impl FnOnce() -> Option<T>,
    ) -> Result<Option<Bytes>, ModelError> {
        let key = (request.tools.clone(), request.provider_tools.clone(), request.cache.tools);
        self.tools.get(key, tools)
    }

    /// Returns a request's encoded system prompt, encoding it once for all requests with the same one.
    pub(crate) fn system<T: Serialize>(
        &self,
        request: &ModelRequest,
        system: impl FnOnce() -> Option<T>,
    ) -> Result<Option<Bytes>, ModelError> {
        self.system.get(request.system.clone(), system)
    }

    /// Takes the cached start of a conversation, at most `most` messages, to be returned with [`keep`](Self::keep). A
    /// concurrent request for the same one encodes it anew.
    pub(crate) fn take(&self, messages: &Messages, most: usize) -> EncodedStart {
        let Some(first) = messages.get(0) else { return EncodedStart::default() };
        let mut kept = self.kept();
        let mut beginning = kept.by_first.remove(&Arc::as_ptr(first).addr()).unwrap_or_default();
        kept.bytes = kept.bytes.saturating_sub(beginning.len);
        drop(kept);
        beginning.cut(messages, most);
        beginning
    }

    /// Stores a start for the next request.
    pub(crate) fn keep(&self, beginning: EncodedStart) {
        let Some(first) = beginning.messages.first() else { return };
        let mut kept = self.kept();
        let bytes = beginning.len;
        if kept.bytes + bytes > MAX_TOTAL_BYTES {
            kept.by_first.retain(|_, other| !other.has_ended());
            kept.bytes = kept.by_first.values().map(|other| other.len).sum();
        }
        if kept.bytes + bytes > MAX_TOTAL_BYTES {
            *kept = CachedPrefix::default();
        }
        let replaced = kept.by_first.insert(first.as_ptr().addr(), beginning);
        kept.bytes = (kept.bytes + bytes).saturating_sub(replaced.map_or(0, |other| other.len));
    }
}
