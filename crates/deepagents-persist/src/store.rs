//! Operations of a store on items of long-term memory.

use std::ops::ControlFlow;

use deepagents_core::store::{Item, KeyInfo, KeyQuery, Namespace, Query, StoreError, Write, check_place, check_value};
use serde_json::Value;

use crate::convert::{Page, millis, signed, time};
use crate::error::DatabaseError;
use crate::executor::{Executor, ItemTime, Param};
use crate::namespace_key;
use crate::row::Row;
use crate::statement::Statement;

static FIND: Statement = Statement::new("SELECT {item} FROM item WHERE {this item} AND {live}");
static FIND_MANY: Statement = Statement::new(
    "SELECT {item} FROM {wanted} JOIN item ON namespace = $2 AND {wanted item} WHERE {live} ORDER BY wanted.key",
);
/// Serialises writers of one item, even if it has no row to lock yet. Returns the time.
static LOCK: Statement = Statement::per_database(
    "SELECT {now}",
    "SELECT {now} FROM (SELECT pg_advisory_xact_lock(hashtextextended($3, hashtextextended(encode($2, 'hex'), 0)))
     OFFSET 0) AS locked",
);
/// Finds an item even if it has expired, and waits for a concurrent deletion.
static FIND_VERSION: Statement = Statement::new(
    "SELECT version, CAST(CASE WHEN {live} THEN 1 ELSE 0 END AS bigint) FROM item WHERE {this item} {for update}",
);
/// A new item's version follows the greatest version of any deleted item, so that versions of a key are never reused.
/// `$7` is 1 if the existing item has expired.
static WRITE: Statement = Statement::new(
    "INSERT INTO item (namespace, name, value, version, created_at, updated_at, expires_at, size)
     VALUES ($1, $2, $3, (SELECT last FROM deleted_version) + 1, $4, $4, $5, $6)
     ON CONFLICT {item key} DO UPDATE SET value = excluded.value, version = item.version + 1,
        created_at = CASE WHEN CAST($7 AS bigint) = 1 THEN excluded.created_at ELSE item.created_at END,
        updated_at = excluded.updated_at, expires_at = excluded.expires_at, size = excluded.size
     RETURNING version, created_at",
);
static DELETE: Statement = Statement::new("DELETE FROM item WHERE {this item} AND {live}");
static SEARCH: Statement = Statement::new(
    "SELECT {item} FROM item WHERE namespace >= $2 AND (CAST($3 AS bytea) IS NULL OR namespace < $3) AND {live}
        AND name >= $4 AND substr(name, 1, length(CAST($4 AS text))) = $4 ORDER BY namespace, name",
);
/// SQLite's index covers the query. Postgres indexes only the beginning of each key, so the database sorts the rest.
static KEYS: Statement = Statement::per_database(
    "SELECT name, version, size, updated_at FROM item WHERE namespace = $2 AND name >= $3 AND {live} ORDER BY name",
    "SELECT name, version, size, updated_at FROM item
     WHERE namespace = $2 AND left(name, 64) BETWEEN left($3, 64) AND left($4, 64) AND name >= $3
        AND starts_with(name, $5) AND {live} ORDER BY left(name, 64), name LIMIT $6",
);
static NAMESPACES: Statement = Statement::new(
    "SELECT DISTINCT namespace FROM item WHERE namespace >= $2
        AND (CAST($3 AS bytea) IS NULL OR namespace < $3) AND {live} ORDER BY namespace",
);
static DELETE_EXPIRED: Statement = Statement::new("DELETE FROM item WHERE expires_at <= {now}");

pub(crate) async fn get(db: &dyn Executor, namespace: Vec<u8>, key: String) -> Result<Option<Item>, StoreError> {
    if key.contains('\0') {
        return Ok(None);
    }
    let row = db.query(&FIND, &[&db.now(), &namespace, &key]).await?.pop();
    Ok(row.map(|row| item(db, row)).transpose()?)
}

pub(crate) async fn get_many(
    db: &dyn Executor,
    namespace: Vec<u8>,
    keys: Vec<String>,
) -> Result<Vec<Item>, StoreError> {
    let keys: Value = keys.into_iter().filter(|key| !key.contains('\0')).collect();
    let rows = db.query(&FIND_MANY, &[&db.now(), &namespace, &keys.to_string()]).await?;
    Ok(rows.into_iter().filter_map(|row| undamaged(item(db, row)).transpose()).collect::<Result<_, _>>()?)
}

pub(crate) async fn write(
    db: &dyn Executor,
    namespace: Namespace,
    key: String,
    value: Value,
    write: Write,
) -> Result<Item, StoreError> {
    check_place(&namespace, &key)?;
    check_value(&key, &value)?;
    let place = namespace_key::encode(&namespace);
    let now: i64 = db.query_one(&LOCK, &[&db.now(), &place, &key]).await?.take(0)?;
    // The value is not read, so a damaged one can be overwritten.
    let found = db.query(&FIND_VERSION, &[&db.now(), &place, &key]).await?.pop();
    let found = found.map(|mut row| Ok::<(u64, i64), DatabaseError>((row.take(0)?, row.take(1)?))).transpose()?;
    let old = found.filter(|(_, live)| *live == 1).map(|(version, _)| version);
    if !write.expected.allows(old) {
        return Err(StoreError::Conflict { namespace, key });
    }
    let expires = write.ttl.map(|ttl| now + millis(ttl));
    let text = value.to_string();
    let size = write.size.unwrap_or(text.len() as u64);
    let (over, stored_size) = (i64::from(old.is_none()), signed(size));
    let values: [&dyn Param; 7] = [&place, &key, &text, &ItemTime(now), &expires, &stored_size, &over];
    let mut written = db.query_one(&WRITE, &values).await?;
    Ok(Item {
        namespace,
        key,
        value,
        size,
        version: written.take(0)?,
        created_at: written.take_item_time(1)?,
        updated_at: time(now).to_string(),
        expires_at: expires.map(|ms| time(ms).to_string()),
    })
}

pub(crate) async fn delete(db: &dyn Executor, namespace: Vec<u8>, key: String) -> Result<bool, StoreError> {
    Ok(!key.contains('\0') && db.execute(&DELETE, &[&db.now(), &namespace, &key]).await? > 0)
}

pub(crate) async fn search(db: &dyn Executor, prefix: Vec<u8>, query: Query) -> Result<Vec<Item>, StoreError> {
    let mut page = Page::new(query.offset, query.limit);
    if query.key_prefix.contains('\0') {
        return Ok(page.items);
    }
    let mut visit = |row| -> Result<_, DatabaseError> {
        let Some(item) = undamaged(item(db, row))? else { return Ok(ControlFlow::Continue(())) };
        Ok(if query.matches(&item.key, &item.value) { page.push(item) } else { ControlFlow::Continue(()) })
    };
    let values: [&dyn Param; 4] = [&db.now(), &prefix, &namespace_key::after(&prefix), &query.key_prefix];
    db.scan(&SEARCH, &values, &mut visit).await?;
    Ok(page.items)
}

pub(crate) async fn list_keys(
    db: &dyn Executor,
    namespace: Vec<u8>,
    query: KeyQuery,
) -> Result<Vec<KeyInfo>, StoreError> {
    let mut page = Page::new(0, query.limit);
    if query.prefix.contains('\0') {
        return Ok(page.items);
    }
    // Keys contain no NUL, so the part of `start` before one is an equivalent bound.
    let start = query.start().split('\0').next().unwrap_or_default();
    // An upper bound of all keys with this prefix: `left(name, 64)` is at most the prefix followed by the greatest
    // characters.
    let last = format!("{}{}", query.prefix, char::MAX.to_string().repeat(64));
    // One more, because the first row may be the key after which the page begins.
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut visit = |mut row: Row| -> Result<_, DatabaseError> {
        let (key, version, size): (String, _, _) = (row.take(0)?, row.take(1)?, row.take(2)?);
        if !key.starts_with(&query.prefix) {
            return Ok(ControlFlow::Break(()));
        }
        if !query.matches(&key) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(page.push(KeyInfo { key, version, size, updated_at: row.take_item_time(3)? }))
    };
    let values: [&dyn Param; 6] = [&db.now(), &namespace, &start, &last, &query.prefix, &limit];
    db.scan(&KEYS, &values, &mut visit).await?;
    Ok(page.items)
}

pub(crate) async fn namespaces(db: &dyn Executor, prefix: Vec<u8>) -> Result<Vec<Namespace>, StoreError> {
    let rows = db.query(&NAMESPACES, &[&db.now(), &prefix, &namespace_key::after(&prefix)]).await?;
    let decode = |mut row: Row| Ok(namespace_key::decode(&row.take::<Vec<u8>>(0)?));
    rows.into_iter().map(decode).collect()
}

pub(crate) async fn sweep(db: &dyn Executor) -> Result<u64, StoreError> {
    Ok(db.execute(&DELETE_EXPIRED, &[&db.now()]).await?)
}

/// Returns `None` for a damaged item, so that it does not hide the others. Reading it on its own reports the damage.
fn undamaged(item: Result<Item, DatabaseError>) -> Result<Option<Item>, DatabaseError> {
    match item {
        Err(DatabaseError::Damaged { .. }) => Ok(None),
        item => item.map(Some),
    }
}

/// Reads the columns `{item}`.
pub(crate) fn item(db: &dyn Executor, mut row: Row) -> Result<Item, DatabaseError> {
    let (namespace, key) = (namespace_key::decode(&row.take::<Vec<u8>>(0)?), row.take::<String>(1)?);
    let value = serde_json::from_str(&row.take::<String>(2)?)
        .map_err(|error| db.damaged(format!("`{key}` in {namespace:?} has a value that is not JSON: {error}")))?;
    Ok(Item {
        namespace,
        key,
        value,
        version: row.take(3)?,
        created_at: row.take_item_time(4)?,
        updated_at: row.take_item_time(5)?,
        expires_at: row.take::<Option<i64>>(6)?.map(|ms| time(ms).to_string()),
        size: row.take(7)?,
    })
}
