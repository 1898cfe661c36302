//! The in-memory implementations pass the suites too.

mod journal {
    use std::sync::Arc;

    use deepagents_core::journal::{Journal, MemoryJournal};

    deepagents_testing::journal_suite!(async |clock| Some(
        Arc::new(MemoryJournal::with_clock(clock)) as Arc<dyn Journal>
    ));
}

mod store {
    use std::sync::Arc;

    use deepagents_core::store::{MemoryStore, Store};

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(MemoryStore::new(clock)) as Arc<dyn Store>));
}

/// A store may derive all versions from one counter, because versions only have to grow.
mod one_counter {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use deepagents_core::forward_store;
    use deepagents_core::store::{Expected, Item, MemoryStore, Namespace, Query, Store, StoreError, Write};
    use futures_util::future::BoxFuture;
    use serde_json::Value;
    use tokio::sync::Mutex;

    /// Renumbers the versions of the inner store in the order of all writes.
    struct OneCounter {
        store: MemoryStore,
        writes: AtomicU64,
        numbers: Mutex<std::collections::HashMap<(Namespace, String, u64), u64>>,
    }

    type Done<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

    impl OneCounter {
        async fn numbered(&self, mut item: Item) -> Item {
            let place = (item.namespace.clone(), item.key.clone(), item.version);
            item.version = self.numbers.lock().await.get(&place).copied().unwrap_or_default();
            item
        }
    }

    impl Store for OneCounter {
        forward_store!([.store]; delete, namespaces, sweep);

        fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
            Box::pin(async move {
                match self.store.get(namespace, key).await? {
                    Some(item) => Ok(Some(self.numbered(item).await)),
                    None => Ok(None),
                }
            })
        }

        fn write<'a>(
            &'a self,
            namespace: &'a [String],
            key: &'a str,
            value: Value,
            mut write: Write,
        ) -> Done<'a, Item> {
            Box::pin(async move {
                let mut numbers = self.numbers.lock().await;
                if let Expected::Version(Some(number)) = write.expected {
                    let known =
                        numbers.iter().find(|((space, at, _), of)| space == namespace && at == key && **of == number);
                    write.expected = Expected::Version(Some(known.map_or(u64::MAX, |((_, _, version), _)| *version)));
                }
                let mut item = self.store.write(namespace, key, value, write).await?;
                let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
                numbers.insert((namespace.to_vec(), key.to_owned(), item.version), number);
                item.version = number;
                Ok(item)
            })
        }

        fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> Done<'a, Vec<Item>> {
            Box::pin(async move {
                let mut found = Vec::new();
                for item in self.store.search(prefix, query).await? {
                    found.push(self.numbered(item).await);
                }
                Ok(found)
            })
        }
    }

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(OneCounter {
        store: MemoryStore::new(clock),
        writes: AtomicU64::default(),
        numbers: Mutex::default(),
    }) as Arc<dyn Store>));
}

/// A custom store with only the required methods.
mod least {
    use std::sync::Arc;

    use deepagents_core::forward_store;
    use deepagents_core::store::{MemoryStore, Store};

    struct Least(MemoryStore);

    impl Store for Least {
        forward_store!([.0]; get, write, delete, search, namespaces, sweep);
    }

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(Least(MemoryStore::new(clock))) as Arc<dyn Store>));
}
