//! Long-term memory.

use deadpool_postgres::GenericClient;
use deepagents_core::store::{Item, KeyInfo, KeyQuery, Namespace, Query, Store, StoreError, Write, check_place};
use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_postgres::Row;

use super::error::PgError;
use super::rows::NOW;
use super::{Postgres, Work};
use crate::convert::{millis, signed, time, unsigned};
use crate::place;

type Done<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

const ITEM: &str = "namespace, name, value, version, created_at, updated_at, expires_at, size";

/// So many items are read at once while a search goes on.
const PAGE: i32 = 200;

impl Store for Postgres {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
        self.found(async move {
            let found = find(&self.client().await?, self.now(), &place::encode(namespace), key, "").await?;
            found.as_ref().map(item).transpose()
        })
    }

    fn get_many<'a>(&'a self, namespace: &'a [String], keys: &'a [&'a str]) -> Done<'a, Vec<Item>> {
        self.found(self.get_items(namespace, keys))
    }

    fn write<'a>(&'a self, namespace: &'a [String], key: &'a str, value: Value, write: Write) -> Done<'a, Item> {
        self.found(self.write_item(namespace, key, value, write))
    }

    fn delete<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, bool> {
        self.found(async move {
            let mut client = self.client().await?;
            let db = client.transaction().await?;
            let namespace = place::encode(namespace);
            let there = find(&db, self.now(), &namespace, key, "FOR UPDATE").await?.is_some();
            if there {
                let sql = "DELETE FROM item WHERE namespace = $1 AND md5(name) = md5($2) AND name = $2";
                db.execute(&db.prepare_cached(sql).await?, &[&namespace, &key]).await?;
            }
            db.commit().await?;
            Ok(there)
        })
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> Done<'a, Vec<Item>> {
        self.found(self.search_items(prefix, query))
    }

    fn list_keys<'a>(&'a self, namespace: &'a [String], query: &'a KeyQuery) -> Done<'a, Vec<KeyInfo>> {
        self.found(self.keys(namespace, query))
    }

    fn namespaces<'a>(&'a self, prefix: &'a [String]) -> Done<'a, Vec<Namespace>> {
        self.found(async move {
            let client = self.client().await?;
            let sql = format!(
                "SELECT DISTINCT namespace FROM item WHERE namespace >= $2 AND ($3::bytea IS NULL OR namespace < $3)
                 AND (expires_at IS NULL OR expires_at > {NOW}) ORDER BY namespace"
            );
            let prefix = place::encode(prefix);
            let statement = client.prepare_cached(&sql).await?;
            let rows = client.query(&statement, &[&self.now(), &prefix, &place::after(&prefix)]).await?;
            Ok(rows.iter().map(|row| place::decode(row.get(0))).collect())
        })
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.found(async move {
            let client = self.client().await?;
            let sql = format!("DELETE FROM item WHERE expires_at <= {NOW}");
            Ok(client.execute(&client.prepare_cached(&sql).await?, &[&self.now()]).await?)
        })
    }
}

impl Postgres {
    fn found<'a, T>(&'a self, work: impl Future<Output = Work<T>> + Send + 'a) -> Done<'a, T> {
        Box::pin(async move { work.await.map_err(|failure| failure.store(|error| self.explain(&error))) })
    }

    async fn write_item(&self, namespace: &[String], key: &str, value: Value, write: Write) -> Work<Item> {
        check_place(namespace, key)?;
        let at = place::encode(namespace);
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        // Writers of one place take turns, also where there is no item yet that could be locked.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($2, hashtextextended(encode($1, 'hex'), 0)))";
        db.execute(&db.prepare_cached(lock).await?, &[&at, &key]).await?;
        let old = find(&db, self.now(), &at, key, "").await?;
        let old = old.as_ref().map(item).transpose()?;
        if !write.expected.allows(old.as_ref().map(|item| item.version)) {
            return Err(StoreError::Conflict { namespace: namespace.to_vec(), key: key.to_owned() }.into());
        }
        let version = signed(old.as_ref().map_or(1, |item| item.version + 1));
        let sql = format!(
            "INSERT INTO item ({ITEM}) VALUES ($2, $3, $4, $5, {NOW}, {NOW}, {NOW} + $6, $7)
             ON CONFLICT (namespace, md5(name)) DO UPDATE SET value = excluded.value, version = excluded.version,
                updated_at = excluded.updated_at, expires_at = excluded.expires_at,
                size = excluded.size,
                created_at = CASE WHEN $5 = 1 THEN excluded.created_at ELSE item.created_at END
             RETURNING {ITEM}"
        );
        let statement = db.prepare_cached(&sql).await?;
        let text = value.to_string();
        let size = signed(write.size.unwrap_or(text.len() as u64));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&self.now(), &at, &key, &text, &version, &write.ttl.map(millis), &size];
        let written = item(&db.query_one(&statement, &values).await?)?;
        db.commit().await?;
        Ok(written)
    }

    async fn get_items(&self, namespace: &[String], keys: &[&str]) -> Work<Vec<Item>> {
        let keys: Vec<&str> = keys.iter().copied().filter(|key| !key.contains('\0')).collect();
        let client = self.client().await?;
        let sql = format!(
            "SELECT {ITEM} FROM unnest($3::text[]) WITH ORDINALITY AS wanted (key, nth)
             JOIN item ON namespace = $2 AND md5(name) = md5(key) AND name = key
             WHERE expires_at IS NULL OR expires_at > {NOW} ORDER BY nth"
        );
        let statement = client.prepare_cached(&sql).await?;
        let rows = client.query(&statement, &[&self.now(), &place::encode(namespace), &keys]).await?;
        rows.iter().map(item).collect()
    }

    async fn keys(&self, namespace: &[String], query: &KeyQuery) -> Work<Vec<KeyInfo>> {
        if query.prefix.contains('\0') {
            return Ok(Vec::new());
        }
        let mut query = query.clone();
        // What comes after a key up to its first NUL comes after the whole: no key has one, and no text of Postgres can.
        if let Some(after) = &mut query.after
            && let Some(nul) = after.find('\0')
        {
            after.truncate(nul);
        }
        let client = self.client().await?;
        // The index has only how keys begin: where they do alike, the database sorts by the rest.
        let sql = format!(
            "SELECT name, version, size, updated_at FROM item
             WHERE namespace = $2 AND left(name, 64) BETWEEN left($3, 64) AND left($4, 64) AND name >= $3
                AND name IS DISTINCT FROM $5 AND starts_with(name, $6) AND (expires_at IS NULL OR expires_at > {NOW})
             ORDER BY left(name, 64), name LIMIT $7"
        );
        // No key with this prefix begins with more than the last character there is, over and over.
        let last = format!("{}{}", query.prefix, char::MAX.to_string().repeat(64));
        let (start, limit) = (query.start(), i64::try_from(query.limit).unwrap_or(i64::MAX));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&self.now(), &place::encode(namespace), &start, &last, &query.after, &query.prefix, &limit];
        let rows = client.query(&client.prepare_cached(&sql).await?, &values).await?;
        Ok(rows.iter().map(key).collect())
    }

    async fn search_items(&self, prefix: &[String], query: &Query) -> Work<Vec<Item>> {
        let mut items = Vec::new();
        if query.key_prefix.contains('\0') {
            return Ok(items);
        }
        let prefix = place::encode(prefix);
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let sql = format!(
            "SELECT {ITEM} FROM item WHERE namespace >= $2 AND ($3::bytea IS NULL OR namespace < $3)
             AND (expires_at IS NULL OR expires_at > {NOW}) AND starts_with(name, $4) ORDER BY namespace, name"
        );
        let statement = db.prepare_cached(&sql).await?;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.now(), &prefix, &place::after(&prefix), &query.key_prefix];
        let portal = db.bind(&statement, &values).await?;
        let mut skip = query.offset;
        while items.len() < query.limit {
            let page = db.query_portal(&portal, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                let item = item(row)?;
                if items.len() >= query.limit || !query.matches(&item.key, &item.value) {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                } else {
                    items.push(item);
                }
            }
        }
        Ok(items)
    }
}

async fn find(db: &impl GenericClient, now: Option<i64>, namespace: &[u8], key: &str, lock: &str) -> Work<Option<Row>> {
    if key.contains('\0') {
        return Ok(None);
    }
    let sql = format!(
        "SELECT {ITEM} FROM item WHERE namespace = $2 AND md5(name) = md5($3) AND name = $3
         AND (expires_at IS NULL OR expires_at > {NOW}) {lock}"
    );
    Ok(db.query_opt(&db.prepare_cached(&sql).await?, &[&now, &namespace, &key]).await?)
}

fn key(row: &Row) -> KeyInfo {
    let (version, size) = (unsigned(row.get(1)), unsigned(row.get(2)));
    KeyInfo { key: row.get(0), version, size, updated_at: time(row.get(3)).to_string() }
}

fn item(row: &Row) -> Work<Item> {
    let value = serde_json::from_str(row.get(2)).map_err(|error| PgError::damaged(error.to_string()))?;
    Ok(Item {
        namespace: place::decode(row.get(0)),
        key: row.get(1),
        value,
        version: unsigned(row.get(3)),
        created_at: time(row.get(4)).to_string(),
        updated_at: time(row.get(5)).to_string(),
        expires_at: row.get::<_, Option<i64>>(6).map(|at| time(at).to_string()),
        size: unsigned(row.get(7)),
    })
}
