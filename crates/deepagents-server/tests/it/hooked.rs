//! A store in which something happens when it is asked for something.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents_core::store::{Item, MemoryStore, Namespace, Query, Store, StoreError, Write};
use futures_core::future::BoxFuture;
use serde_json::Value;

type Hook = Box<dyn Fn(&[String]) -> bool + Send>;

/// Removes an item the first time that something in another place is looked for.
#[derive(Default)]
pub(crate) struct HookedStore {
    inner: MemoryStore,
    removed: Mutex<Option<(Hook, Vec<String>, String)>>,
    pub(crate) sweeps: AtomicUsize,
}

impl HookedStore {
    /// Removes this when something in a namespace that fits is looked for.
    pub(crate) fn remove_when(
        &self,
        fits: impl Fn(&[String]) -> bool + Send + 'static,
        namespace: &[String],
        key: &str,
    ) {
        *self.removed.lock().unwrap() = Some((Box::new(fits), namespace.to_vec(), key.to_owned()));
    }

    fn taken(&self, namespace: &[String]) -> Option<(Vec<String>, String)> {
        let mut removed = self.removed.lock().unwrap();
        let (_, place, key) = removed.take_if(|(fits, ..)| fits(namespace))?;
        Some((place, key))
    }
}

impl Store for HookedStore {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(async move {
            if let Some((place, key)) = self.taken(namespace) {
                self.inner.delete(&place, &key).await?;
            }
            self.inner.get(namespace, key).await
        })
    }

    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        self.inner.write(namespace, key, value, write)
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.delete(namespace, key)
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        self.inner.search(prefix, query)
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        self.inner.namespaces(prefix)
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        self.inner.sweep()
    }
}
