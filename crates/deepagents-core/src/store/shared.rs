//! Stores behind an `Arc`.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{Item, KeyInfo, KeyQuery, Namespace, NamespaceQuery, Query, Store, StoreError, Write};

/// Lets a builder accept both a store and a shared one.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>> {
        (**self).get(namespace, key)
    }

    fn get_many<'a>(
        &'a self,
        namespace: &'a [String],
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        (**self).get_many(namespace, keys)
    }

    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        (**self).write(namespace, key, value, write)
    }

    fn put<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        (**self).put(namespace, key, value)
    }

    fn put_if<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        (**self).put_if(namespace, key, value, version)
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        (**self).delete(namespace, key)
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        (**self).search(prefix, query)
    }

    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        (**self).list_keys(namespace, query)
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        (**self).namespaces(prefix)
    }

    fn list_namespaces<'a>(&'a self, query: &'a NamespaceQuery) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        (**self).list_namespaces(query)
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        (**self).sweep()
    }
}
