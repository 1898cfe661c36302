//! Listing of keys without values.

use super::Item;

/// A query for the keys of a namespace.
///
/// ```
/// use deepagents_core::store::{KeyQuery, MemoryStore, Store};
/// use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::default();
/// let cities = vec!["cities".to_owned()];
/// for city in ["rome", "oslo", "riga"] {
///     store.put(&cities, city, json!({})).await?;
/// }
/// let page = KeyQuery::default().prefix("r").limit(1);
/// let first = store.list_keys(&cities, &page).await?;
/// assert_eq!(first[0].key, "riga");
/// let second = store.list_keys(&cities, &page.after("riga")).await?;
/// assert_eq!(second[0].key, "rome");
/// # Ok::<(), deepagents_core::store::StoreError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyQuery {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only keys after this one. Passing the last key of a page returns the next page, whatever was written or deleted
    /// in between.
    pub after: Option<String>,
    /// Maximum number of keys.
    pub limit: usize,
}

impl Default for KeyQuery {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, limit: usize::MAX }
    }
}

impl KeyQuery {
    /// Selects keys with this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Selects keys after this one.
    #[must_use]
    pub fn after(mut self, key: impl Into<String>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// Sets the maximum number of keys.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns whether a key matches, apart from the limit.
    pub fn matches(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| key > after)
    }

    /// Returns a lower bound of the selected keys.
    pub fn start(&self) -> &str {
        self.after.as_deref().map_or(&*self.prefix, |after| after.max(&self.prefix))
    }
}

/// An item without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The item's key.
    pub key: String,
    /// The item's version.
    pub version: u64,
    /// The item's size in bytes; see [`Item::size`].
    pub size: u64,
    /// When it was last stored, as RFC 3339.
    pub updated_at: String,
}

impl From<&Item> for KeyInfo {
    fn from(item: &Item) -> Self {
        Self { key: item.key.clone(), version: item.version, size: item.size, updated_at: item.updated_at.clone() }
    }
}
