//! A database as a journal and a store. Each call is a unit of work on a connection.

use std::future::ready;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, Loaded, LogEntry, LogPosition, Record, Snapshot, ThreadInfo,
    ThreadQuery, Threads,
};
use deepagents_core::store::{Item, KeyInfo, KeyQuery, Namespace, Query, Store, StoreError, Write};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use crate::append::Batch;
use crate::blob::Hash;
use crate::error::DatabaseError;
use crate::executor::{Access, Engine};
use crate::log::PackedSnapshot;
use crate::namespace_key::encode;
use crate::{blobs, lease, listing, log, store, threads};

pub(crate) type JournalFuture<'a, T> = BoxFuture<'a, Result<T, JournalError>>;
type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Threads and long-term memory in a database: [`Sqlite`](crate::Sqlite) or [`Postgres`](crate::Postgres). Clones share
/// the database.
#[derive(Debug)]
pub struct Database<E> {
    pub(crate) engine: Arc<E>,
}

impl<E> Clone for Database<E> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone() }
    }
}

impl<E: Engine> Journal for Database<E> {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> JournalFuture<'a, Fence> {
        self.engine.claim(thread.to_owned(), claim)
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> JournalFuture<'a, ()> {
        let thread = thread.to_owned();
        self.engine.run(Access::Statement, move |db| Box::pin(lease::renew(db, thread, fence, lease)))
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> JournalFuture<'a, ()> {
        self.engine.release(thread.to_owned(), fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> JournalFuture<'a, Appended> {
        match Batch::encode(thread, fence, expected, &records) {
            Ok(batch) => self.engine.append(batch),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> JournalFuture<'a, Loaded> {
        let thread = thread.to_owned();
        self.engine.run(Access::Snapshot, move |db| Box::pin(log::load(db, thread, at)))
    }

    fn read<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> JournalFuture<'a, Vec<LogEntry>> {
        let thread = thread.to_owned();
        self.engine.run(Access::Snapshot, move |db| Box::pin(log::read(db, thread, positions)))
    }

    fn put_snapshot<'a>(&'a self, thread: &'a str, fence: Fence, snapshot: Snapshot) -> JournalFuture<'a, u64> {
        match PackedSnapshot::pack(thread, fence, snapshot) {
            Ok(snapshot) => self.engine.put_snapshot(snapshot),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn threads(&self) -> &dyn Threads {
        self
    }

    fn storage(&self) -> JournalFuture<'_, Option<String>> {
        self.engine.run(Access::Query, move |db| Box::pin(threads::storage(db)))
    }
}

impl<E: Engine> Threads for Database<E> {
    fn get<'a>(&'a self, thread: &'a str) -> JournalFuture<'a, Option<ThreadInfo>> {
        let thread = thread.to_owned();
        self.engine.run(Access::Query, move |db| Box::pin(threads::get(db, thread)))
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> JournalFuture<'a, Vec<ThreadInfo>> {
        let query = query.clone();
        self.engine.run(Access::Snapshot, move |db| Box::pin(listing::list(db, query)))
    }

    fn set_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> JournalFuture<'a, ()> {
        let thread = thread.to_owned();
        self.engine.run(Access::Transaction, move |db| Box::pin(threads::set_metadata(db, thread, metadata)))
    }

    fn update_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> JournalFuture<'a, ()> {
        let thread = thread.to_owned();
        self.engine.run(Access::Transaction, move |db| Box::pin(threads::update_metadata(db, thread, metadata)))
    }

    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> JournalFuture<'a, ()> {
        let (thread, parent) = (thread.to_owned(), parent.map(str::to_owned));
        self.engine.run(Access::Transaction, move |db| Box::pin(threads::set_parent(db, thread, parent)))
    }

    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> JournalFuture<'a, ()> {
        let thread = thread.to_owned();
        self.engine.run(Access::Statement, move |db| Box::pin(threads::set_ttl(db, thread, ttl)))
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str, until: Option<LogPosition>) -> JournalFuture<'a, ()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.engine.run(Access::Transaction, move |db| Box::pin(threads::copy(db, from, to, until)))
    }

    fn delete<'a>(&'a self, thread: &'a str) -> JournalFuture<'a, bool> {
        let thread = thread.to_owned();
        let deleted = self.engine.run(Access::Transaction, move |db| Box::pin(threads::delete(db, thread)));
        Box::pin(async move {
            let Some(texts) = deleted.await? else { return Ok(false) };
            delete_unused(&*self.engine, texts).await;
            Ok(true)
        })
    }

    fn remove<'a>(&'a self, thread: &'a str, fence: Fence, positions: Range<LogPosition>) -> JournalFuture<'a, ()> {
        let thread = thread.to_owned();
        let removed =
            self.engine.run(Access::Transaction, move |db| Box::pin(threads::remove(db, thread, fence, positions)));
        Box::pin(async move {
            delete_unused(&*self.engine, removed.await?).await;
            Ok(())
        })
    }

    fn sweep(&self) -> JournalFuture<'_, u64> {
        let swept = self.engine.run(Access::Transaction, move |db| Box::pin(threads::sweep(db)));
        Box::pin(async move {
            let swept = swept.await?;
            let unused = self.engine.run(Access::Statement, move |db| Box::pin(blobs::delete_all_unused(db)));
            unused.await.map_err(JournalError::from)?;
            Ok(swept)
        })
    }
}

/// Deletes those of the given blobs that are no longer referenced. Best effort, since the caller's operation has
/// already succeeded: a later sweep deletes unused blobs that remain, for example because the database failed.
async fn delete_unused<E: Engine>(engine: &E, texts: Vec<Hash>) {
    if !texts.is_empty() {
        let deleting =
            engine.run(Access::Statement, move |db| Box::pin(async move { blobs::delete_unused(db, &texts).await }));
        let _: Result<(), DatabaseError> = deleting.await;
    }
}

impl<E: Engine> Store for Database<E> {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> StoreFuture<'a, Option<Item>> {
        let (namespace, key) = (encode(namespace), key.to_owned());
        self.engine.run(Access::Query, move |db| Box::pin(store::get(db, namespace, key)))
    }

    fn get_many<'a>(&'a self, namespace: &'a [String], keys: &'a [&'a str]) -> StoreFuture<'a, Vec<Item>> {
        let namespace = encode(namespace);
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.engine.run(Access::Query, move |db| Box::pin(store::get_many(db, namespace, keys)))
    }

    fn write<'a>(&'a self, namespace: &'a [String], key: &'a str, value: Value, write: Write) -> StoreFuture<'a, Item> {
        let (namespace, key) = (namespace.to_vec(), key.to_owned());
        self.engine.run(Access::Transaction, move |db| Box::pin(store::write(db, namespace, key, value, write)))
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> StoreFuture<'a, bool> {
        let (namespace, key) = (encode(namespace), key.to_owned());
        self.engine.run(Access::Statement, move |db| Box::pin(store::delete(db, namespace, key)))
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> StoreFuture<'a, Vec<Item>> {
        let (prefix, query) = (encode(prefix), query.clone());
        self.engine.run(Access::Snapshot, move |db| Box::pin(store::search(db, prefix, query)))
    }

    fn list_keys<'a>(&'a self, namespace: &'a [String], query: &'a KeyQuery) -> StoreFuture<'a, Vec<KeyInfo>> {
        let (namespace, query) = (encode(namespace), query.clone());
        self.engine.run(Access::Snapshot, move |db| Box::pin(store::list_keys(db, namespace, query)))
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> StoreFuture<'a, Vec<Namespace>> {
        let prefix = encode(prefix);
        self.engine.run(Access::Query, move |db| Box::pin(store::namespaces(db, prefix)))
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        self.engine.run(Access::Statement, move |db| Box::pin(store::sweep(db)))
    }
}
