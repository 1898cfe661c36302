//! What keeps everything in memory passes the suites too.

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

/// A store of one's own has the methods that are required.
mod least {
    use std::sync::Arc;

    use deepagents_core::store::{Item, MemoryStore, Namespace, Query, Store, StoreError, Write};
    use futures_util::future::BoxFuture;
    use serde_json::Value;

    struct Least(MemoryStore);

    type Done<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

    impl Store for Least {
        fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
            self.0.get(namespace, key)
        }

        fn write<'a>(&'a self, namespace: &'a [String], key: &'a str, value: Value, write: Write) -> Done<'a, Item> {
            self.0.write(namespace, key, value, write)
        }

        fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, bool> {
            self.0.delete(namespace, key)
        }

        fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> Done<'a, Vec<Item>> {
            self.0.search(prefix, query)
        }

        fn namespaces<'a>(&'a self, prefix: &'a [String]) -> Done<'a, Vec<Namespace>> {
            self.0.namespaces(prefix)
        }

        fn sweep(&self) -> Done<'_, u64> {
            self.0.sweep()
        }
    }

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(Least(MemoryStore::new(clock))) as Arc<dyn Store>));
}
