//! A store in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{Item, KeyInfo, KeyQuery, Namespace, Query, Store, StoreError, Write, check_place, check_value};
use crate::env::{Clock, SystemClock, Timestamp};
use crate::panics::lock;

/// Items by namespace and key.
#[derive(Default)]
struct Items {
    live: BTreeMap<(Namespace, String), Item>,
    /// The greatest version of a removed item. New items start after it, so that no version of a key is reused.
    last_removed: u64,
}

impl Items {
    fn remove(&mut self, at: &(Namespace, String)) -> bool {
        let removed = self.live.remove(at);
        self.last_removed = self.last_removed.max(removed.as_ref().map_or(0, |item| item.version));
        removed.is_some()
    }

    /// Removes expired items. Returns the number removed.
    fn sweep(&mut self, now: Timestamp) -> u64 {
        let over = self.live.iter().filter(|(_, item)| is_over(item, now)).map(|(at, _)| at.clone());
        let over: Vec<_> = over.collect();
        over.iter().filter(|at| self.remove(at)).count() as u64
    }
}

/// Stores items in memory, for tests and for programs whose memory need not outlive them.
pub struct MemoryStore {
    items: Mutex<Items>,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl MemoryStore {
    /// Creates an empty store that takes its times from a clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { items: Mutex::default(), clock }
    }

    /// Locks the items, after removing expired ones. Also returns the time.
    fn live(&self) -> (MutexGuard<'_, Items>, Timestamp) {
        let now = self.clock.now();
        let mut items = lock(&self.items);
        items.sweep(now);
        (items, now)
    }

    fn store(&self, namespace: &[String], key: &str, value: Value, write: Write) -> Result<Item, StoreError> {
        check_place(namespace, key)?;
        check_value(key, &value)?;
        let (mut items, now) = self.live();
        let at = (namespace.to_vec(), key.to_owned());
        let old = items.live.get(&at);
        if !write.expected.allows(old.map(|item| item.version)) {
            return Err(StoreError::Conflict { namespace: at.0, key: at.1 });
        }
        let expires_at = write.ttl.map(|ttl| now.checked_add(ttl).unwrap_or(Timestamp::MAX).to_string());
        let now = now.to_string();
        let item = Item {
            namespace: at.0.clone(),
            key: at.1.clone(),
            size: write.size_of(&value),
            value,
            version: old.map_or(items.last_removed, |item| item.version) + 1,
            created_at: old.map_or_else(|| now.clone(), |item| item.created_at.clone()),
            updated_at: now,
            expires_at,
        };
        items.live.insert(at, item.clone());
        Ok(item)
    }
}

fn is_over(item: &Item, now: Timestamp) -> bool {
    item.expires_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at <= now)
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(ready(Ok(self.live().0.live.get(&(namespace.to_vec(), key.to_owned())).cloned())))
    }

    fn get_many<'a>(
        &'a self,
        namespace: &'a [String],
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        let items = self.live().0;
        let at = |key: &&str| items.live.get(&(namespace.to_vec(), (*key).to_owned())).cloned();
        Box::pin(ready(Ok(keys.iter().filter_map(at).collect())))
    }

    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        Box::pin(ready(self.store(namespace, key, value, write)))
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(ready(Ok(self.live().0.remove(&(namespace.to_vec(), key.to_owned())))))
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        let items = self.live().0;
        let found = items
            .live
            .range((prefix.to_vec(), String::new())..)
            .take_while(|((namespace, _), _)| namespace.starts_with(prefix))
            .map(|(_, item)| item)
            .filter(|item| query.matches(&item.key, &item.value))
            .skip(query.offset)
            .take(query.limit)
            .cloned()
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        let items = self.live().0;
        let found = items
            .live
            .range((namespace.to_vec(), query.start().to_owned())..)
            .take_while(|((place, key), _)| place == namespace && key.starts_with(&query.prefix))
            .filter(|((_, key), _)| query.matches(key))
            .take(query.limit)
            .map(|(_, item)| KeyInfo::from(item))
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        let items = self.live().0;
        let mut found: Vec<Namespace> = items
            .live
            .range((prefix.to_vec(), String::new())..)
            .map(|((namespace, _), _)| namespace)
            .take_while(|namespace| namespace.starts_with(prefix))
            .cloned()
            .collect();
        found.dedup();
        Box::pin(ready(Ok(found)))
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        let now = self.clock.now();
        Box::pin(ready(Ok(lock(&self.items).sweep(now))))
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("items", &lock(&self.items).live.len()).finish_non_exhaustive()
    }
}
