//! The server's own records in the store, as JSON.

use std::time::Duration;

use deepagents_core::store::{Item, Query, Store, StoreError, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Result};

/// A namespace of the store with records of one kind.
pub(crate) struct Records<'a> {
    store: &'a dyn Store,
    namespace: Vec<String>,
}

/// Returns a namespace of the server's own records.
pub(crate) fn namespace(path: &[&str]) -> Vec<String> {
    ["deepagents-server"].iter().chain(path).map(|&label| label.to_owned()).collect()
}

/// Reads a record, or returns `None` if it is damaged or of a version that this one cannot read.
pub(crate) fn read<T: DeserializeOwned>(item: Item) -> Option<T> {
    serde_json::from_value(item.value).ok()
}

impl App {
    /// Returns the records in a namespace of the server.
    pub(crate) fn records(&self, path: &[&str]) -> Records<'_> {
        Records { store: &*self.store, namespace: namespace(path) }
    }
}

impl Records<'_> {
    pub(crate) async fn item(&self, key: &str) -> Result<Option<Item>, StoreError> {
        self.store.get(&self.namespace, key).await
    }

    /// Returns a record with its version. `what` names it if it is damaged.
    pub(crate) async fn get<T: DeserializeOwned>(&self, what: &str, key: &str) -> Result<Option<(T, u64)>> {
        let Some(item) = self.item(key).await? else { return Ok(None) };
        let damaged = |error| ApiError::bad_request(format!("{what} {key} is damaged: {error}"));
        Ok(Some((serde_json::from_value(item.value).map_err(damaged)?, item.version)))
    }

    /// Returns the items in this namespace and those below it, in the order of their keys.
    pub(crate) async fn search(&self, query: &Query) -> Result<Vec<Item>, StoreError> {
        self.store.search(&self.namespace, query).await
    }

    /// Returns all readable records, in the order of their keys.
    pub(crate) async fn all<T: DeserializeOwned>(&self) -> Result<Vec<T>, StoreError> {
        Ok(self.search(&Query::default()).await?.into_iter().filter_map(read).collect())
    }

    pub(crate) async fn put(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        self.store.put(&self.namespace, key, json!(record)).await.map(drop)
    }

    /// Stores a record that expires.
    pub(crate) async fn put_for(&self, ttl: Duration, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let write = Write { ttl: Some(ttl), ..Write::default() };
        self.store.write(&self.namespace, key, json!(record), write).await.map(drop)
    }

    /// Stores a record if the stored item is still at the version `known`, which is `None` for a new record. Returns
    /// the new version, or `None` on a conflict, and then stores nothing.
    pub(crate) async fn replace(
        &self,
        key: &str,
        record: &impl Serialize,
        known: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        match self.store.put_if(&self.namespace, key, json!(record), known).await {
            Ok(item) => Ok(Some(item.version)),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete(&self.namespace, key).await.map(drop)
    }
}
