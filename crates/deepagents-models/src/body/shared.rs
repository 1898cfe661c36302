//! Fields that many requests have in common, encoded once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use deepagents_core::model::ModelError;
use serde::Serialize;

use super::write_value;

/// Number of cached values per field: agents that share a client have different tools and prompts.
const MAX_CACHED_VALUES: usize = 16;
/// Values with more bytes are not cached.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Recently encoded values of a field, each with its inputs.
#[derive(Debug)]
pub(crate) struct SharedField<K>(Mutex<VecDeque<(K, Bytes)>>);

impl<K> Default for SharedField<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq> SharedField<K> {
    /// Returns the JSON value for `key`; `None` if there is no value.
    pub(crate) fn get<T: Serialize>(
        &self,
        key: K,
        value: impl FnOnce() -> Option<T>,
    ) -> Result<Option<Bytes>, ModelError> {
        if let Some(kept) = self.kept(&key) {
            return Ok(Some(kept));
        }
        let Some(text) = write_value(value())? else { return Ok(None) };
        if text.len() <= MAX_VALUE_BYTES {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(MAX_CACHED_VALUES - 1);
            kept.push_front((key, text.clone()));
        }
        Ok(Some(text))
    }

    fn kept(&self, key: &K) -> Option<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(made_of, _)| made_of == key)?;
        // Keep recently used values, so that the least recently used is evicted.
        let entry = kept.remove(at)?;
        let text = entry.1.clone();
        kept.push_front(entry);
        Some(text)
    }
}
