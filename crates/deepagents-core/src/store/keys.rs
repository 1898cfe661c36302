//! Keys of a namespace, without the values.

use super::Item;

/// Which keys of a namespace to list.
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
    /// Only keys that begin so.
    pub prefix: String,
    /// Only keys that come after this one. The last key of a page leads to the next page, whatever was written or
    /// deleted in between.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl Default for KeyQuery {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, limit: usize::MAX }
    }
}

impl KeyQuery {
    /// Only keys that begin so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only keys that come after this one.
    #[must_use]
    pub fn after(mut self, key: impl Into<String>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether a key is one of those, the limit aside.
    pub fn matches(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| key > after)
    }

    /// No key that is asked for comes before this text.
    pub fn start(&self) -> &str {
        self.after.as_deref().map_or(&*self.prefix, |after| after.max(&self.prefix))
    }
}

/// What is known of an item without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// Its size in bytes, see [`Item::size`].
    pub size: u64,
    /// When it was last stored, RFC 3339.
    pub updated_at: String,
}

impl From<&Item> for KeyInfo {
    fn from(item: &Item) -> Self {
        Self { key: item.key.clone(), version: item.version, size: item.size, updated_at: item.updated_at.clone() }
    }
}
