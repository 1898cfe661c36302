//! Long-term memory: JSON values under namespaces and keys, shared by threads.

mod error;
mod forward;
mod item;
mod keys;
mod memory;
mod namespaces;
mod query;

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

pub use error::{StoreError, check_namespace, check_place, check_value};
pub use item::{Expected, Item, Write};
pub use keys::{KeyInfo, KeyQuery};
pub use memory::MemoryStore;
pub use namespaces::NamespaceQuery;
pub use query::{Comparison, Filter, Query};

use crate::forward_store;

/// A path of labels that groups keys, such as `["users", "ada", "notes"]`.
pub type Namespace = Vec<String>;

/// Stores values that outlive a thread.
///
/// Six methods are required. The others have defaults built on them, which a database can replace with better ones:
/// [`list_keys`](Self::list_keys) without reading values, [`get_many`](Self::get_many) in one query. `store_suite!` of
/// `deepagents-testing` tests whether a store follows the rules. A store that wraps another one
/// forwards the methods that it does not change with [`forward_store!`](crate::forward_store).
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "`MemoryStore::default()` is one, and so is `Sqlite::open(path).await?` of `deepagents-persist`"
)]
pub trait Store: Send + Sync + 'static {
    /// Returns the item with this key.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>>;

    /// Returns the items with these keys, in the order of the keys. Missing items are left out. The default gets one
    /// item after the other.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
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

    /// Stores a value with options. An existing item keeps its creation time.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the item does not have the expected version, [`StoreError::Namespace`] or
    /// [`StoreError::Key`] if its place is not valid, and [`StoreError::Value`] if the value cannot be stored.
    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>>;

    /// Stores a value without expiry, replacing any existing one.
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

    /// Stores a value only if the item has this version; `None` means that there must be no item.
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

    /// Removes an item. Returns whether it existed.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Returns the items in a namespace and all below it, sorted by namespace and key.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>>;

    /// Lists the keys of one namespace in byte order, with everything about the items except their values. Excludes
    /// namespaces below it. The default searches, so it reads the values.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        Box::pin(async move {
            // The namespace's own items come first.
            let limit = if query.after.is_none() { query.limit } else { usize::MAX };
            let all = Query { key_prefix: query.prefix.clone(), limit, ..Query::default() };
            let items = self.search(namespace, &all).await?;
            let mine = items.iter().take_while(|item| item.namespace == namespace);
            Ok(mine.filter(|item| query.matches(&item.key)).take(query.limit).map(KeyInfo::from).collect())
        })
    }

    /// Lists the namespaces that start with a prefix, sorted and without duplicates.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>>;

    /// Lists the namespaces that match a query, sorted and without duplicates.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn list_namespaces<'a>(&'a self, query: &'a NamespaceQuery) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        Box::pin(async move { Ok(query.select(self.namespaces(query.fixed()).await?)) })
    }

    /// Deletes expired items and returns their number. Expired items are invisible to all other methods even before
    /// that.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// Lets a builder accept both a store and a shared one.
impl<S: Store + ?Sized> Store for Arc<S> {
    forward_store!([.as_ref()]; get, get_many, write, put, put_if, delete, search, list_keys, namespaces);
    forward_store!([.as_ref()]; list_namespaces, sweep);
}
