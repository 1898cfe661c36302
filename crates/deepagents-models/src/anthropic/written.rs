//! Messages written before, kept for the next request: a conversation is sent again with every turn.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use deepagents_core::message::Message;
use serde_json::value::RawValue;

/// Bytes that are kept; beyond, all is forgotten and written anew.
const MOST_BYTES: usize = 32 << 20;

/// What single messages look like in a request, by the message. Messages never change once they are shared, so what was
/// written stays right for as long as the message lives.
#[derive(Debug, Default)]
pub(super) struct Written {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_address: HashMap<usize, (Weak<Message>, Arc<RawValue>), BuildHasherDefault<Spread>>,
    bytes: usize,
}

/// Spreads addresses, which nobody outside chooses, over a table.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Written {
    /// The messages as they were written before, or as they are written now.
    pub(super) fn of<'a>(
        &self,
        messages: impl Iterator<Item = Option<&'a Arc<Message>>>,
        mut write: impl FnMut(usize) -> serde_json::Result<Box<RawValue>>,
    ) -> serde_json::Result<Vec<Option<Arc<RawValue>>>> {
        // Nothing is awaited and little is done while the lock is held.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::with_capacity(messages.size_hint().0);
        for (at, message) in messages.enumerate() {
            let Some(message) = message else {
                out.push(None);
                continue;
            };
            let address = Arc::as_ptr(message).addr();
            // An address is used again when a message is gone; the weak reference knows whose it was.
            if let Some((of, raw)) = kept.by_address.get(&address)
                && of.strong_count() > 0
            {
                out.push(Some(raw.clone()));
                continue;
            }
            let raw: Arc<RawValue> = write(at)?.into();
            kept.bytes += raw.get().len();
            if kept.bytes > MOST_BYTES {
                kept.by_address.clear();
                kept.bytes = raw.get().len();
            }
            kept.by_address.insert(address, (Arc::downgrade(message), raw.clone()));
            out.push(Some(raw));
        }
        Ok(out)
    }
}
