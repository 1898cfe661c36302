//! Long-term memory: JSON values under namespaces and keys, shared by threads.

mod error;
mod item;
mod keys;
mod memory;
mod namespaces;
mod query;
mod shared;

use futures_core::future::BoxFuture;
use serde_json::Value;

pub use error::{StoreError, check_namespace, check_place, check_value};
pub use item::{Expected, Item, Write};
pub use keys::{KeyInfo, KeyQuery};
pub use memory::MemoryStore;
pub use namespaces::NamespaceQuery;
pub use query::{Comparison, Filter, Query};

/// A path of labels that groups keys, such as `["users", "ada", "notes"]`.
pub type Namespace = Vec<String>;

/// Keeps values beyond a thread.
///
/// Six methods are required. The rest have defaults built on them, which a database answers better by itself:
/// [`list_keys`](Self::list_keys) without reading values, [`get_many`](Self::get_many) at once. `store_suite!` of
/// `deepagents-testing` says of any store whether it keeps the rules.
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

    /// The items under some keys, in the order of the keys; what is not there is left out. The default gets one after
    /// the other.
    ///
    /// # Errors
    /// When the storage fails.
    fn get_many<'a>(
        &'a self,
        namespace: &'a [String],
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.extend(self.get(namespace, key).await?);
            }
            Ok(found)
        })
    }

    /// Stores a value under conditions; the time of creation of what is there stays.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the item is not at the version that is expected, [`StoreError::Namespace`] and
    /// [`StoreError::Key`] when its place cannot be used, [`StoreError::Value`] when the value cannot be stored.
    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>>;

    /// Stores a value for good, replacing what is there.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    fn put<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        self.write(namespace, key, value, Write::default())
    }

    /// Stores a value only if the item is at this version, `None` meaning that there is none.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    fn put_if<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        self.write(namespace, key, value, Write { expected: Expected::Version(version), ..Write::default() })
    }

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

    /// The keys of one namespace, in the order of their bytes, with what is known of the items but their values. What
    /// is in namespaces below is not among them. The default searches, so it reads the values.
    ///
    /// # Errors
    /// When the storage fails.
    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        Box::pin(async move {
            // The namespace's own come first.
            let limit = if query.after.is_none() { query.limit } else { usize::MAX };
            let all = Query { key_prefix: query.prefix.clone(), limit, ..Query::default() };
            let items = self.search(namespace, &all).await?;
            let mine = items.iter().take_while(|item| item.namespace == namespace);
            Ok(mine.filter(|item| query.matches(&item.key)).take(query.limit).map(KeyInfo::from).collect())
        })
    }

    /// The namespaces below a prefix, sorted, each once.
    ///
    /// # Errors
    /// When the storage fails.
    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>>;

    /// The namespaces a query asks for, sorted, each once.
    ///
    /// # Errors
    /// When the storage fails.
    fn list_namespaces<'a>(&'a self, query: &'a NamespaceQuery) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        Box::pin(async move { Ok(query.select(self.namespaces(query.fixed()).await?)) })
    }

    /// Deletes the items whose time is over, and returns how many there were. They are gone for every other method
    /// before that.
    ///
    /// # Errors
    /// When the storage fails.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>>;
}
