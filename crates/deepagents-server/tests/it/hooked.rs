//! A store with a hook that runs during a request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deepagents_core::forward_store;
use deepagents_core::store::{Item, MemoryStore, Query, Store, StoreError, Write};
use futures_core::future::BoxFuture;
use serde_json::Value;

/// Selects the namespaces to which a hook applies.
type Fits = dyn Fn(&[String]) -> bool + Send;

/// A hook and its namespaces.
struct Hook {
    fits: Box<Fits>,
    happens: BoxFuture<'static, ()>,
}

/// A store that runs a hook at the first request to matching namespaces.
#[derive(Default)]
pub(crate) struct HookedStore {
    inner: MemoryStore,
    hook: Mutex<Option<Hook>>,
    pub(crate) sweeps: AtomicUsize,
    /// How many times deleting a run should fail.
    pub(crate) stuck: AtomicUsize,
    /// How many times reading a run should fail.
    pub(crate) unread: AtomicUsize,
    /// How many runs that are stored as ended should be answered with an error, although they are stored.
    pub(crate) unanswered: AtomicUsize,
}

impl HookedStore {
    /// Sets a future to run once, when a matching namespace is read or written.
    pub(crate) fn once(
        &self,
        fits: impl Fn(&[String]) -> bool + Send + 'static,
        happens: impl Future<Output = ()> + Send + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Hook { fits: Box::new(fits), happens: Box::pin(happens) });
    }

    async fn asked(&self, namespace: &[String]) {
        let hook = self.hook.lock().unwrap().take_if(|hook| (hook.fits)(namespace));
        if let Some(hook) = hook {
            hook.happens.await;
        }
    }
}

pub(crate) fn is_run(namespace: &[String]) -> bool {
    namespace.get(1).is_some_and(|kind| kind == "runs")
}

/// Takes one from a count, if there is one.
fn counted_down(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

fn away() -> StoreError {
    StoreError::Storage("it is away".into())
}

impl Store for HookedStore {
    forward_store!([.inner]; search, namespaces);

    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(async move {
            self.asked(namespace).await;
            if is_run(namespace) && counted_down(&self.unread) {
                Err(away())
            } else {
                self.inner.get(namespace, key).await
            }
        })
    }

    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        Box::pin(async move {
            self.asked(namespace).await;
            let is_end = is_run(namespace) && value["status"] == "interrupted";
            let item = self.inner.write(namespace, key, value, write).await?;
            if is_end && counted_down(&self.unanswered) { Err(away()) } else { Ok(item) }
        })
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        if is_run(namespace) && counted_down(&self.stuck) {
            return Box::pin(async { Err(away()) });
        }
        self.inner.delete(namespace, key)
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        self.inner.sweep()
    }
}

/// A store in which the result of a run is never stored, and no run is deleted: such requests do not end.
pub(crate) struct WithoutResults(pub(crate) Arc<dyn Store>);

impl Store for WithoutResults {
    forward_store!([.0]; get, search, namespaces, sweep);

    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        let is_open = value["status"] == "pending" || value["status"] == "running";
        if is_run(namespace) && !is_open {
            return Box::pin(std::future::pending());
        }
        self.0.write(namespace, key, value, write)
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        if is_run(namespace) {
            return Box::pin(std::future::pending());
        }
        self.0.delete(namespace, key)
    }
}

/// A store that remembers the kinds and keys of the server's records that were read from it.
#[derive(Default)]
pub(crate) struct WatchedStore {
    inner: MemoryStore,
    read: Mutex<Vec<(String, String)>>,
}

impl WatchedStore {
    /// Returns what was read since the last call.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.read.lock().unwrap())
    }

    fn remember<'a>(&self, items: impl IntoIterator<Item = &'a Item>) {
        let kind = |item: &Item| item.namespace.get(1).cloned().unwrap_or_default();
        self.read.lock().unwrap().extend(items.into_iter().map(|item| (kind(item), item.key.clone())));
    }
}

impl Store for WatchedStore {
    forward_store!([.inner]; write, delete, namespaces, sweep);

    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(async move {
            let item = self.inner.get(namespace, key).await?;
            self.remember(&item);
            Ok(item)
        })
    }

    fn search<'a>(&'a self, namespace: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        Box::pin(async move {
            let items = self.inner.search(namespace, query).await?;
            self.remember(&items);
            Ok(items)
        })
    }
}
