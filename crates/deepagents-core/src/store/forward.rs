//! Method forwarding for stores around an inner store.

/// Generates methods of [`Store`](crate::store::Store) that call the same method on an inner store: on the expression
/// `self` followed by what is in the brackets.
///
/// A wrapper lists the methods that it forwards. A method in neither the list nor the wrapper has its default. Forward
/// `get_many`, `list_keys` and `list_namespaces` too, unless the wrapper must see what they return: a database answers
/// them at once, while the defaults call other methods, often. If the inner value also has threads, as a database does,
/// do not import [`Threads`](crate::journal::Threads) in the same module: both have `get`, `delete` and `sweep`.
///
/// ```
/// use deepagents_core::forward_store;
/// use deepagents_core::futures_core::future::BoxFuture;
/// use deepagents_core::store::{Item, Store, StoreError, Write};
/// use serde_json::Value;
///
/// /// Refuses values that are no objects.
/// struct Objects<S>(S);
///
/// impl<S: Store> Store for Objects<S> {
///     forward_store!([.0]; get, get_many, delete, search, list_keys, namespaces, list_namespaces, sweep);
///
///     // `put` and `put_if` call this by default.
///     fn write<'a>(
///         &'a self,
///         namespace: &'a [String],
///         key: &'a str,
///         value: Value,
///         write: Write,
///     ) -> BoxFuture<'a, Result<Item, StoreError>> {
///         if value.is_object() {
///             return self.0.write(namespace, key, value, write);
///         }
///         Box::pin(async { Err(StoreError::Storage("only objects are stored here".into())) })
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_store {
    ($inner:tt; $($method:ident),* $(,)?) => { $( $crate::forward_store!(@ $inner $method); )* };
    (@ $i:tt get) => {
        $crate::forward_store!(@future $i get(namespace: &'a [String], key: &'a str) -> Option<$crate::store::Item>);
    };
    (@ $i:tt get_many) => {
        $crate::forward_store!(
            @future $i get_many(namespace: &'a [String], keys: &'a [&'a str]) -> Vec<$crate::store::Item>
        );
    };
    (@ $i:tt write) => {
        $crate::forward_store!(@future $i write(
            namespace: &'a [String], key: &'a str, value: $crate::serde_json::Value, write: $crate::store::Write
        ) -> $crate::store::Item);
    };
    (@ $i:tt put) => {
        $crate::forward_store!(@future $i put(
            namespace: &'a [String], key: &'a str, value: $crate::serde_json::Value
        ) -> $crate::store::Item);
    };
    (@ $i:tt put_if) => {
        $crate::forward_store!(@future $i put_if(
            namespace: &'a [String], key: &'a str, value: $crate::serde_json::Value, version: Option<u64>
        ) -> $crate::store::Item);
    };
    (@ $i:tt delete) => {
        $crate::forward_store!(@future $i delete(namespace: &'a [String], key: &'a str) -> bool);
    };
    (@ $i:tt search) => {
        $crate::forward_store!(
            @future $i search(prefix: &'a [String], query: &'a $crate::store::Query) -> Vec<$crate::store::Item>
        );
    };
    (@ $i:tt list_keys) => {
        $crate::forward_store!(@future $i list_keys(
            namespace: &'a [String], query: &'a $crate::store::KeyQuery
        ) -> Vec<$crate::store::KeyInfo>);
    };
    (@ $i:tt namespaces) => {
        $crate::forward_store!(@future $i namespaces(prefix: &'a [String]) -> Vec<$crate::store::Namespace>);
    };
    (@ $i:tt list_namespaces) => {
        $crate::forward_store!(@future $i list_namespaces(
            query: &'a $crate::store::NamespaceQuery
        ) -> Vec<$crate::store::Namespace>);
    };
    (@ $i:tt sweep) => { $crate::forward_store!(@future $i sweep() -> u64); };
    (@future [$($i:tt)*] $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        fn $name<'a>(
            &'a self,
            $($arg: $type),*
        ) -> $crate::futures_core::future::BoxFuture<'a, ::std::result::Result<$out, $crate::store::StoreError>> {
            self $($i)* .$name($($arg),*)
        }
    };
}
