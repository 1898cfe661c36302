//! A store that runs a hook when it is accessed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents_core::store::{Item, MemoryStore, Namespace, Query, Store, StoreError, Write};
use futures_core::future::BoxFuture;
use serde_json::Value;

/// Whether the hook applies to a namespace.
type Fits = dyn Fn(&[String]) -> bool + Send;

/// A hook, and where it applies.
struct Hook {
    fits: Box<Fits>,
    happens: BoxFuture<'static, ()>,
}

/// A store that runs a hook at the first access to a matching namespace.
#[derive(Default)]
pub(crate) struct HookedStore {
    inner: MemoryStore,
    hook: Mutex<Option<Hook>>,
    pub(crate) sweeps: AtomicUsize,
    /// How often removing a run should fail.
    pub(crate) stuck: AtomicUsize,
}

impl HookedStore {
    /// Sets the hook for the first access to a matching namespace.
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

impl Store for HookedStore {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        Box::pin(async move {
            self.asked(namespace).await;
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
        Box::pin(async move {
            self.asked(namespace).await;
            self.inner.write(namespace, key, value, write).await
        })
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let is_run = namespace.get(1).is_some_and(|kind| kind == "runs");
        let one_less = |stuck: usize| stuck.checked_sub(1);
        if is_run && self.stuck.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Box::pin(async { Err(StoreError::Storage("it is away".into())) });
        }
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
