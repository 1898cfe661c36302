//! Long-term memory: JSON values under namespaces and keys, shared by threads.

mod memory;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use memory::MemoryStore;

/// A path of labels that groups keys, such as `["users", "ada", "notes"]`.
pub type Namespace = Vec<String>;

/// Keeps values beyond a thread.
///
/// ```
/// use deepagents_core::store::{MemoryStore, Query, Store};
/// use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::default();
/// let notes = vec!["ada".to_owned(), "notes".to_owned()];
/// store.put(&notes, "city", json!({"name": "Turin"})).await?;
/// assert_eq!(store.search(&["ada".to_owned()], &Query::default()).await?.len(), 1);
/// # Ok::<(), deepagents_core::store::StoreError>(()) }).unwrap();
/// ```
pub trait Store: Send + Sync + 'static {
    /// The item under a key.
    ///
    /// # Errors
    /// When the storage fails.
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>>;

    /// Stores a value, replacing what is there; the time of creation stays.
    ///
    /// # Errors
    /// When the namespace is not legal or the storage fails.
    fn put<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
    ) -> BoxFuture<'a, Result<Item, StoreError>>;

    /// Stores a value only if the item is at this version, `None` meaning that there is none.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when it is not.
    fn put_if<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<Item, StoreError>>;

    /// Removes an item; returns whether there was one.
    ///
    /// # Errors
    /// When the storage fails.
    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Items in a namespace and all below it, by namespace and key.
    ///
    /// # Errors
    /// When the storage fails.
    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>>;

    /// The namespaces below a prefix, sorted, each once.
    ///
    /// # Errors
    /// When the storage fails.
    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>>;
}

/// A stored value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Where it is.
    pub namespace: Namespace,
    /// Its key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Grows with every write of the item.
    pub version: u64,
    /// When it was first stored, RFC 3339.
    pub created_at: String,
    /// When it was last stored, RFC 3339.
    pub updated_at: String,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only keys that begin so.
    pub key_prefix: String,
    /// Only values with these fields, compared as JSON.
    pub fields: serde_json::Map<String, Value>,
    /// At most so many.
    pub limit: usize,
    /// Leaving out so many first.
    pub offset: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self { key_prefix: String::new(), fields: serde_json::Map::new(), limit: usize::MAX, offset: 0 }
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace cannot be used.
    #[error("the namespace {namespace:?} cannot be used: {reason}")]
    Namespace {
        /// The namespace.
        namespace: Namespace,
        /// Why.
        reason: &'static str,
    },
    /// The item is not at the version that was expected.
    #[error("`{key}` in {namespace:?} was changed by somebody else; read it again")]
    Conflict {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
    },
    /// The storage failed.
    #[error("the store's storage failed: {0}")]
    Storage(#[source] crate::error::BoxError),
}

/// Checks a namespace to be written to: not empty, labels not empty and without NUL.
///
/// # Errors
/// When it is not so.
pub fn check_namespace(namespace: &[String]) -> Result<(), StoreError> {
    let reason = if namespace.is_empty() {
        "it is empty"
    } else if namespace.iter().any(String::is_empty) {
        "a label is empty"
    } else if namespace.iter().any(|label| label.contains('\0')) {
        "a label contains NUL"
    } else {
        return Ok(());
    };
    Err(StoreError::Namespace { namespace: namespace.to_vec(), reason })
}
