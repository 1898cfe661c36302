//! Fields that many requests have in common, written once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use deepagents_core::model::ModelError;
use serde::Serialize;

use super::write_value;

/// How many values of a field are kept: agents that share a client have tools and prompts of their own.
const KEPT: usize = 16;
/// A value of more bytes is written anew each time.
const LONGEST: usize = 1 << 20;

/// A field's values as they were written last, each with what it was made of.
#[derive(Debug)]
pub(crate) struct SharedField<K>(Mutex<VecDeque<(K, Bytes)>>);

impl<K> Default for SharedField<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq> SharedField<K> {
    /// The value that is made of `key`, as JSON. Nothing where there is no value.
    pub(crate) fn get<T: Serialize>(
        &self,
        key: K,
        value: impl FnOnce() -> Option<T>,
    ) -> Result<Option<Bytes>, ModelError> {
        if let Some(kept) = self.kept(&key) {
            return Ok(Some(kept));
        }
        let Some(text) = write_value(value())? else { return Ok(None) };
        if text.len() <= LONGEST {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(KEPT - 1);
            kept.push_front((key, text.clone()));
        }
        Ok(Some(text))
    }

    fn kept(&self, key: &K) -> Option<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(made_of, _)| made_of == key)?;
        // The one that is not asked for is the one that goes.
        if at > 0
            && let Some(entry) = kept.remove(at)
        {
            kept.push_front(entry);
        }
        kept.front().map(|(_, text)| text.clone())
    }
}
