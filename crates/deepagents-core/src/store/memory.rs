//! A store in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{Item, Namespace, Query, Store, StoreError, check_namespace};
use crate::env::{Clock, SystemClock};

/// Keeps items in memory, for tests and for programs whose memory need not outlive them.
pub struct MemoryStore {
    items: Mutex<BTreeMap<(Namespace, String), Item>>,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl MemoryStore {
    /// An empty store that takes its times from a clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { items: Mutex::default(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Namespace, String), Item>> {
        // Every change is a single insert or remove, so a panic elsewhere leaves nothing half done.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(
        &self,
        namespace: &[String],
        key: &str,
        value: Value,
        expected: Option<Option<u64>>,
    ) -> Result<Item, StoreError> {
        check_namespace(namespace)?;
        let now = self.clock.now().to_string();
        let mut items = self.lock();
        let at = (namespace.to_vec(), key.to_owned());
        let old = items.get(&at);
        if expected.is_some_and(|version| version != old.map(|item| item.version)) {
            return Err(StoreError::Conflict { namespace: at.0, key: at.1 });
        }
        let item = Item {
            namespace: at.0.clone(),
            key: at.1.clone(),
            value,
            version: old.map_or(1, |item| item.version + 1),
            created_at: old.map_or_else(|| now.clone(), |item| item.created_at.clone()),
            updated_at: now,
        };
        items.insert(at, item.clone());
        Ok(item)
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(ready(Ok(self.lock().get(&(namespace.to_vec(), key.to_owned())).cloned())))
    }

    fn put<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        Box::pin(ready(self.store(namespace, key, value, None)))
    }

    fn put_if<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        Box::pin(ready(self.store(namespace, key, value, Some(version))))
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(ready(Ok(self.lock().remove(&(namespace.to_vec(), key.to_owned())).is_some())))
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        let items = self.lock();
        let found = items
            .range((prefix.to_vec(), String::new())..)
            .take_while(|((namespace, _), _)| namespace.starts_with(prefix))
            .map(|(_, item)| item)
            .filter(|item| item.key.starts_with(&query.key_prefix))
            .filter(|item| query.fields.iter().all(|(field, value)| item.value.get(field) == Some(value)))
            .skip(query.offset)
            .take(query.limit)
            .cloned()
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        let items = self.lock();
        let mut found: Vec<Namespace> = items
            .range((prefix.to_vec(), String::new())..)
            .map(|((namespace, _), _)| namespace)
            .take_while(|namespace| namespace.starts_with(prefix))
            .cloned()
            .collect();
        found.dedup();
        Box::pin(ready(Ok(found)))
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("items", &self.lock().len()).finish_non_exhaustive()
    }
}
