//! Long-term memory.

use deadpool_postgres::GenericClient;
use deepagents_core::store::{Item, Namespace, Query, Store, StoreError, Write, check_place};
use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_postgres::Row;

use super::rows::NOW;
use super::{Postgres, Work};
use crate::convert::{millis, signed, time, unsigned};
use crate::place;

type Done<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

const ITEM: &str = "namespace, name, value, version, created_at, updated_at, expires_at";

/// So many items are read at once while a search goes on.
const PAGE: i32 = 200;

impl Store for Postgres {
    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
        self.found(async move {
            let found = find(&self.client().await?, self.now(), &place::encode(namespace), key, "").await?;
            found.as_ref().map(item).transpose()
        })
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
            "INSERT INTO item ({ITEM}) VALUES ($2, $3, $4, $5, {NOW}, {NOW}, {NOW} + $6)
             ON CONFLICT (namespace, md5(name)) DO UPDATE SET value = excluded.value, version = excluded.version,
                updated_at = excluded.updated_at, expires_at = excluded.expires_at,
                created_at = CASE WHEN $5 = 1 THEN excluded.created_at ELSE item.created_at END
             RETURNING {ITEM}"
        );
        let statement = db.prepare_cached(&sql).await?;
        let text = value.to_string();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&self.now(), &at, &key, &text, &version, &write.ttl.map(millis)];
        let written = item(&db.query_one(&statement, &values).await?)?;
        db.commit().await?;
        Ok(written)
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

fn item(row: &Row) -> Work<Item> {
    let value = serde_json::from_str(row.get(2)).map_err(|error| StoreError::Storage(Box::new(error)))?;
    Ok(Item {
        namespace: place::decode(row.get(0)),
        key: row.get(1),
        value,
        version: unsigned(row.get(3)),
        created_at: time(row.get(4)).to_string(),
        updated_at: time(row.get(5)).to_string(),
        expires_at: row.get::<_, Option<i64>>(6).map(|at| time(at).to_string()),
    })
}
