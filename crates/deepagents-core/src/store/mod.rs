//! Long-term memory: JSON values under namespaces and keys, shared by threads.

mod keys;
mod memory;
mod namespaces;

use std::cmp::Ordering;
use std::time::Duration;

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{DEEPEST, is_deeper};

pub use keys::{KeyInfo, KeyQuery};
pub use memory::MemoryStore;
pub use namespaces::NamespaceQuery;

/// A path of labels that groups keys, such as `["users", "ada", "notes"]`.
pub type Namespace = Vec<String>;

/// Keeps values beyond a thread.
///
/// Six methods are required. The rest have defaults built on them, which a database answers better by itself:
/// [`list_keys`](Self::list_keys) without reading values, [`get_many`](Self::get_many) at once. `store_suite!` of
/// `deepagents-testing` says of any store whether it keeps the rules.
///
/// ```
/// use deepagents_core::store::{MemoryStore, Query, Store};
/// use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::default();
/// let notes = vec!["ada".to_owned(), "notes".to_owned()];
/// store.put(&notes, "city", json!({"name": "Turin"})).await?;
/// assert_eq!(store.search(&["ada".to_owned()], &Query::default()).await?.len(), 1);
/// # Ok::<(), deepagents_core::store::StoreError>(()) }).unwrap();
/// ```
pub trait Store: Send + Sync + 'static {
    /// The item under a key.
    ///
    /// # Errors
    /// When the storage fails.
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<Option<Item>, StoreError>>;

    /// The items under some keys, in the order of the keys; what is not there is left out. The default gets one after
    /// the other.
    ///
    /// # Errors
    /// When the storage fails.
    fn get_many<'a>(
        &'a self,
        namespace: &'a [String],
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.extend(self.get(namespace, key).await?);
            }
            Ok(found)
        })
    }

    /// Stores a value under conditions; the time of creation of what is there stays.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the item is not at the version that is expected, [`StoreError::Namespace`] and
    /// [`StoreError::Key`] when its place cannot be used, [`StoreError::Value`] when the value cannot be stored.
    fn write<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        write: Write,
    ) -> BoxFuture<'a, Result<Item, StoreError>>;

    /// Stores a value for good, replacing what is there.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    fn put<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        self.write(namespace, key, value, Write::default())
    }

    /// Stores a value only if the item is at this version, `None` meaning that there is none.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    fn put_if<'a>(
        &'a self,
        namespace: &'a [String],
        key: &'a str,
        value: Value,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<Item, StoreError>> {
        self.write(namespace, key, value, Write { expected: Expected::Version(version), ..Write::default() })
    }

    /// Removes an item; returns whether there was one.
    ///
    /// # Errors
    /// When the storage fails.
    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Items in a namespace and all below it, by namespace and key.
    ///
    /// # Errors
    /// When the storage fails.
    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> BoxFuture<'a, Result<Vec<Item>, StoreError>>;

    /// The keys of one namespace, in the order of their bytes, with what is known of the items but their values. What
    /// is in namespaces below is not among them. The default searches, so it reads the values.
    ///
    /// # Errors
    /// When the storage fails.
    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        Box::pin(async move {
            // The namespace's own come first.
            let limit = if query.after.is_none() { query.limit } else { usize::MAX };
            let all = Query { key_prefix: query.prefix.clone(), limit, ..Query::default() };
            let items = self.search(namespace, &all).await?;
            let mine = items.iter().take_while(|item| item.namespace == namespace);
            Ok(mine.filter(|item| query.matches(&item.key)).take(query.limit).map(KeyInfo::from).collect())
        })
    }

    /// The namespaces below a prefix, sorted, each once.
    ///
    /// # Errors
    /// When the storage fails.
    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>>;

    /// The namespaces a query asks for, sorted, each once.
    ///
    /// # Errors
    /// When the storage fails.
    fn list_namespaces<'a>(&'a self, query: &'a NamespaceQuery) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        Box::pin(async move { Ok(query.select(self.namespaces(query.fixed()).await?)) })
    }

    /// Deletes the items whose time is over, and returns how many there were. They are gone for every other method
    /// before that.
    ///
    /// # Errors
    /// When the storage fails.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// So that a builder takes a store and a shared one alike.
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

/// Under what conditions a value is stored, for how long, and as what size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// What must be there.
    pub expected: Expected,
    /// How long the item lives from now on, whether or not it is read; for ever if not said.
    pub ttl: Option<Duration>,
    /// The size to tell of the item, in bytes, where the value stands for something that has one; that of the value as
    /// JSON if not said.
    pub size: Option<u64>,
}

impl Write {
    /// The size of the item that stores a value.
    pub fn size_of(&self, value: &Value) -> u64 {
        self.size.unwrap_or_else(|| value.to_string().len() as u64)
    }
}

/// What must be there for a value to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever there is.
    #[default]
    Any,
    /// An item at this version, or none.
    Version(Option<u64>),
}

impl Expected {
    /// Whether an item at this version, or none, will do.
    pub fn allows(self, version: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Version(expected) => expected == version,
        }
    }
}

/// A stored value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Where it is.
    pub namespace: Namespace,
    /// Its key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Grows with every write of the item; an item that is stored again after it was removed has a greater one too.
    pub version: u64,
    /// Bytes: what its writer said in [`Write::size`], otherwise those of the value as JSON.
    #[serde(default)]
    pub size: u64,
    /// When it was first stored, RFC 3339.
    pub created_at: String,
    /// When it was last stored, RFC 3339.
    pub updated_at: String,
    /// When it will be gone, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only keys that begin so.
    pub key_prefix: String,
    /// Only values with these fields, compared as JSON.
    pub fields: serde_json::Map<String, Value>,
    /// Only values that pass all of these.
    pub filters: Vec<Filter>,
    /// At most so many.
    pub limit: usize,
    /// Leaving out so many first.
    pub offset: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            key_prefix: String::new(),
            fields: serde_json::Map::new(),
            filters: Vec::new(),
            limit: usize::MAX,
            offset: 0,
        }
    }
}

impl Query {
    /// Whether an item is one of those, limit and offset aside.
    pub fn matches(&self, key: &str, value: &Value) -> bool {
        key.starts_with(&self.key_prefix)
            && self.fields.iter().all(|(field, wanted)| value.get(field) == Some(wanted))
            && self.filters.iter().all(|filter| filter.passes(value))
    }
}

/// A condition on a field of a value.
///
/// ```
/// use deepagents_core::store::{Comparison, Filter};
/// use serde_json::json;
/// let filter = Filter::new("size", Comparison::AtLeast(json!(10)));
/// assert!(filter.passes(&json!({"size": 12})));
/// assert!(!filter.passes(&json!({"size": "large"})));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The field; `a.b` is the field `b` of the field `a`.
    pub field: String,
    /// What it is compared with.
    pub is: Comparison,
}

/// What a field is compared with. Numbers are compared with numbers and texts with texts; nothing else has an order. A
/// field that is missing counts as null.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The same JSON.
    Equal(Value),
    /// Other JSON.
    NotEqual(Value),
    /// Before this.
    Below(Value),
    /// Before this, or the same.
    AtMost(Value),
    /// After this.
    Above(Value),
    /// After this, or the same.
    AtLeast(Value),
}

impl Filter {
    /// A condition on a field.
    pub fn new(field: impl Into<String>, is: Comparison) -> Self {
        Self { field: field.into(), is }
    }

    /// Whether a value passes.
    pub fn passes(&self, value: &Value) -> bool {
        let found = self.field.split('.').try_fold(value, |value, name| value.get(name)).unwrap_or(&Value::Null);
        match &self.is {
            Comparison::Equal(other) => found == other,
            Comparison::NotEqual(other) => found != other,
            Comparison::Below(other) => order(found, other).is_some_and(Ordering::is_lt),
            Comparison::AtMost(other) => order(found, other).is_some_and(Ordering::is_le),
            Comparison::Above(other) => order(found, other).is_some_and(Ordering::is_gt),
            Comparison::AtLeast(other) => order(found, other).is_some_and(Ordering::is_ge),
        }
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace cannot be used.
    #[error("the namespace {namespace:?} cannot be used: {reason}")]
    Namespace {
        /// The namespace.
        namespace: Namespace,
        /// Why.
        reason: &'static str,
    },
    /// The key cannot be used.
    #[error("the key {key:?} cannot be used: it contains NUL")]
    Key {
        /// The key.
        key: String,
    },
    /// The value cannot be stored.
    #[error("the value of {key:?} cannot be stored: {reason}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        reason: String,
    },
    /// The item is not at the version that was expected.
    #[error("`{key}` in {namespace:?} was changed by somebody else; read it again")]
    Conflict {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
    },
    /// The storage failed.
    #[error("the store's storage failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Checks where an item is to be written: the namespace as [`check_namespace`] does, the key for NUL.
///
/// # Errors
/// When either cannot be used.
pub fn check_place(namespace: &[String], key: &str) -> Result<(), StoreError> {
    check_namespace(namespace)?;
    if key.contains('\0') { Err(StoreError::Key { key: key.to_owned() }) } else { Ok(()) }
}

/// Checks a value to be written: readers of JSON have to take it, so it may be nested 96 levels deep.
///
/// # Errors
/// When it is nested deeper.
pub fn check_value(key: &str, value: &Value) -> Result<(), StoreError> {
    if is_deeper(value, DEEPEST) {
        let reason = format!("it is nested more than {DEEPEST} levels deep");
        return Err(StoreError::Value { key: key.to_owned(), reason });
    }
    Ok(())
}

/// Checks a namespace to be written to: not empty, labels not empty and without NUL.
///
/// # Errors
/// When it is not so.
pub fn check_namespace(namespace: &[String]) -> Result<(), StoreError> {
    let reason = if namespace.is_empty() {
        "it is empty"
    } else if namespace.iter().any(String::is_empty) {
        "a label is empty"
    } else if namespace.iter().any(|label| label.contains('\0')) {
        "a label contains NUL"
    } else {
        return Ok(());
    };
    Err(StoreError::Namespace { namespace: namespace.to_vec(), reason })
}
