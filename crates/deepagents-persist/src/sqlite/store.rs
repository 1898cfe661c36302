//! Long-term memory.

use deepagents_core::env::Timestamp;
use deepagents_core::store::{Item, KeyInfo, KeyQuery, Namespace, Query, Store, StoreError, Write, check_place};
use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::{Sqlite, Work};
use crate::convert::{millis, signed, time, unsigned};
use crate::place;

type Done<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

const ITEM: &str = "namespace, name, value, version, created_at, updated_at, expires_at, size";

impl Store for Sqlite {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
        let (namespace, key) = (place::encode(namespace), key.to_owned());
        self.read_items(move |db, now| Ok(find(db, &namespace, &key, now)?))
    }

    fn get_many<'a>(&'a self, namespace: &'a [String], keys: &'a [&'a str]) -> Done<'a, Vec<Item>> {
        let namespace = place::encode(namespace);
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.read_items(move |db, now| {
            let found = keys.iter().filter_map(|key| find(db, &namespace, key, now).transpose());
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn write<'a>(&'a self, namespace: &'a [String], key: &'a str, value: Value, write: Write) -> Done<'a, Item> {
        let (namespace, key) = (namespace.to_vec(), key.to_owned());
        self.write_items(move |db, now| {
            check_place(&namespace, &key)?;
            let at = place::encode(&namespace);
            let old = find(db, &at, &key, now)?;
            if !write.expected.allows(old.as_ref().map(|item| item.version)) {
                return Err(StoreError::Conflict { namespace, key }.into());
            }
            let expires = write.ttl.map(|ttl| now + millis(ttl));
            let updated_at = time(now).to_string();
            let text = value.to_string();
            let item = Item {
                namespace,
                key,
                value,
                size: write.size.unwrap_or(text.len() as u64),
                version: old.as_ref().map_or(1, |item| item.version + 1),
                created_at: old.map_or_else(|| updated_at.clone(), |item| item.created_at),
                updated_at,
                expires_at: expires.map(|at| time(at).to_string()),
            };
            let sql = format!("INSERT OR REPLACE INTO item ({ITEM}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
            db.prepare_cached(&sql)?.execute(params![
                at,
                item.key,
                text,
                signed(item.version),
                item.created_at,
                item.updated_at,
                expires,
                signed(item.size)
            ])?;
            Ok(item)
        })
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, bool> {
        let (namespace, key) = (place::encode(namespace), key.to_owned());
        self.write_items(move |db, now| {
            let there = find(db, &namespace, &key, now)?.is_some();
            db.prepare_cached("DELETE FROM item WHERE namespace = ?1 AND name = ?2")?
                .execute(params![namespace, key])?;
            Ok(there)
        })
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> Done<'a, Vec<Item>> {
        let (prefix, query) = (place::encode(prefix), query.clone());
        self.read_items(move |db, now| search(db, now, &prefix, &query))
    }

    fn list_keys<'a>(&'a self, namespace: &'a [String], query: &'a KeyQuery) -> Done<'a, Vec<KeyInfo>> {
        let (namespace, query) = (place::encode(namespace), query.clone());
        self.read_items(move |db, now| Ok(keys(db, now, &namespace, &query)?))
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> Done<'a, Vec<Namespace>> {
        let prefix = place::encode(prefix);
        self.read_items(move |db, now| {
            let sql = "SELECT DISTINCT namespace FROM item WHERE namespace >= ?1 AND (?2 IS NULL OR namespace < ?2)
                AND (expires_at IS NULL OR expires_at > ?3) ORDER BY namespace";
            let mut found = db.prepare_cached(sql)?;
            let found = found.query_map(params![prefix, place::after(&prefix), now], |row| row.get::<_, Vec<u8>>(0))?;
            Ok(found.map(|bytes| Ok(place::decode(&bytes?))).collect::<rusqlite::Result<_>>()?)
        })
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.write_items(|db, now| {
            Ok(db.prepare_cached("DELETE FROM item WHERE expires_at <= ?1")?.execute([now])? as u64)
        })
    }
}

fn find(db: &Connection, namespace: &[u8], key: &str, now: i64) -> rusqlite::Result<Option<Item>> {
    let sql = format!(
        "SELECT {ITEM} FROM item WHERE namespace = ?1 AND name = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
    );
    db.prepare_cached(&sql)?.query_row(params![namespace, key, now], item).optional()
}

fn search(db: &Connection, now: i64, prefix: &[u8], query: &Query) -> Work<Vec<Item>> {
    let sql = format!(
        "SELECT {ITEM} FROM item WHERE namespace >= ?1 AND (?2 IS NULL OR namespace < ?2)
         AND (expires_at IS NULL OR expires_at > ?3) AND name >= ?4 AND substr(name, 1, length(?4)) = ?4
         ORDER BY namespace, name"
    );
    let mut found = db.prepare_cached(&sql)?;
    let rows = found.query_map(params![prefix, place::after(prefix), now, query.key_prefix], item)?;
    let (mut items, mut skip) = (Vec::new(), query.offset);
    for item in rows {
        if items.len() >= query.limit {
            break;
        }
        let item = item?;
        if !query.matches(&item.key, &item.value) {
            continue;
        }
        if skip > 0 {
            skip -= 1;
        } else {
            items.push(item);
        }
    }
    Ok(items)
}

fn keys(db: &Connection, now: i64, namespace: &[u8], query: &KeyQuery) -> rusqlite::Result<Vec<KeyInfo>> {
    let sql = "SELECT name, version, size, updated_at FROM item
        WHERE namespace = ?1 AND name >= ?2 AND (expires_at IS NULL OR expires_at > ?3) ORDER BY name";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(params![namespace, query.start(), now])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()?.filter(|_| keys.len() < query.limit) {
        let key: String = row.get(0)?;
        if !key.starts_with(&query.prefix) {
            break;
        }
        if query.matches(&key) {
            let (version, size) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
            keys.push(KeyInfo { key, version, size, updated_at: row.get(3)? });
        }
    }
    Ok(keys)
}

fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let text: String = row.get(2)?;
    let value = serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error)))?;
    Ok(Item {
        namespace: place::decode(&row.get::<_, Vec<u8>>(0)?),
        key: row.get(1)?,
        value,
        version: unsigned(row.get(3)?),
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
        expires_at: row
            .get::<_, Option<i64>>(6)?
            .map(|at| Timestamp::from_millisecond(at).unwrap_or(Timestamp::MAX).to_string()),
        size: unsigned(row.get(7)?),
    })
}
