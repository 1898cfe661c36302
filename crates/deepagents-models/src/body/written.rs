//! Conversations as they were sent last, kept for the next request: each request sends the whole conversation again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use deepagents_core::message::{Message, Messages};

/// Bytes that are kept of one conversation, from its beginning.
const MOST_OF_ONE: usize = 8 << 20;
/// Bytes that are kept of all; beyond, those that have ended are forgotten, and the rest too if that is not enough.
const MOST_OF_ALL: usize = 32 << 20;

/// What conversations look like in a request, by their first message.
#[derive(Debug, Default)]
pub(crate) struct Written {
    kept: Mutex<CachedPrefix>,
}

#[derive(Debug, Default)]
struct CachedPrefix {
    by_first: HashMap<usize, RunStart>,
    bytes: usize,
}

/// The beginning of a conversation, written. Messages never change once they are shared, so it stays right for every
/// conversation that begins with the same ones.
#[derive(Debug, Default)]
pub(crate) struct RunStart {
    /// The references keep the addresses from being used again, not the messages alive.
    messages: Vec<Weak<Message>>,
    /// Where it may be cut: after so many messages, at so many bytes.
    cuts: Vec<(usize, usize)>,
    /// The turns, with commas between them.
    text: Vec<u8>,
}

impl RunStart {
    /// Messages that are written in it.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// The turns of those messages, with commas between them.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Adds turns that were written after it, up to the last cut: messages and bytes of `text`, each from the
    /// conversation's start.
    pub(crate) fn extend(&mut self, messages: &Messages, text: &[u8], cuts: impl Iterator<Item = (usize, usize)>) {
        self.cuts.extend(cuts.take_while(|(_, bytes)| *bytes <= MOST_OF_ONE));
        let Some((upto, bytes)) = self.cuts.last().copied() else { return };
        let known = self.messages.len();
        self.messages.extend(messages.tail(known).take(upto.saturating_sub(known)).map(Arc::downgrade));
        self.text.extend_from_slice(text.get(self.text.len()..bytes).unwrap_or_default());
    }

    /// Leaves what `messages` begins with too, `most` of them at most.
    fn cut(&mut self, messages: &Messages, most: usize) {
        let same = |(mine, theirs): &(&Weak<Message>, &Arc<Message>)| std::ptr::eq(mine.as_ptr(), Arc::as_ptr(theirs));
        let shared = self.messages.iter().zip(messages.iter()).take(most).take_while(same).count();
        self.cuts.truncate(self.cuts.partition_point(|(upto, _)| *upto <= shared));
        let (upto, bytes) = self.cuts.last().copied().unwrap_or_default();
        self.messages.truncate(upto);
        self.text.truncate(bytes);
    }

    /// Whether nobody holds the conversation any more.
    fn has_ended(&self) -> bool {
        self.messages.first().is_none_or(|first| first.strong_count() == 0)
    }
}

impl Written {
    /// What is known of how a conversation begins, `most` messages at most. It is handed out, to be given back with
    /// [`keep`](Self::keep): who asks for the same one meanwhile writes it anew.
    pub(crate) fn take(&self, messages: &Messages, most: usize) -> RunStart {
        let Some(first) = messages.get(0) else { return RunStart::default() };
        let taken = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = kept.by_first.remove(&Arc::as_ptr(first).addr()).unwrap_or_default();
            kept.bytes = kept.bytes.saturating_sub(taken.text.len());
            taken
        };
        let mut beginning = taken;
        beginning.cut(messages, most);
        beginning
    }

    /// Keeps a beginning for the next request.
    pub(crate) fn keep(&self, beginning: RunStart) {
        let Some(first) = beginning.messages.first() else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = beginning.text.len();
        if kept.bytes + bytes > MOST_OF_ALL {
            kept.by_first.retain(|_, other| !other.has_ended());
            kept.bytes = kept.by_first.values().map(|other| other.text.len()).sum();
        }
        if kept.bytes + bytes > MOST_OF_ALL {
            kept.by_first.clear();
            kept.bytes = 0;
        }
        let replaced = kept.by_first.insert(first.as_ptr().addr(), beginning);
        kept.bytes = (kept.bytes + bytes).saturating_sub(replaced.map_or(0, |other| other.text.len()));
    }
}
