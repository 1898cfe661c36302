//! Postgres passes the suites, if `DEEPAGENTS_TEST_POSTGRES` names a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deepagents_core::env::Clock;
use deepagents_persist::{DatabaseError, Postgres, PostgresOptions};
use deepagents_testing::skip::skip;

/// A separate schema on the test server.
pub(crate) async fn database(clock: Option<Arc<dyn Clock>>) -> Option<Postgres> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let url = url()?;
    let schema = format!("test {}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let options = PostgresOptions { schema, connections: 4, clock, ..PostgresOptions::default() };
    Some(options.connect(&url).await.unwrap())
}

#[allow(clippy::disallowed_methods, reason = "the server of the tests is named by the environment")]
pub(crate) fn url() -> Option<String> {
    let url = std::env::var("DEEPAGENTS_TEST_POSTGRES").ok();
    if url.is_none() {
        skip("postgres", "DEEPAGENTS_TEST_POSTGRES names no server; .ci/postgres.sh starts one");
    }
    url
}

mod journal {
    use deepagents_core::journal::Journal;

    use super::*;

    deepagents_testing::journal_suite!(async |clock| database(Some(clock))
        .await
        .map(|database| Arc::new(database) as Arc<dyn Journal>));
}

mod store {
    use deepagents_core::store::Store;

    use super::*;

    deepagents_testing::store_suite!(async |clock| database(Some(clock))
        .await
        .map(|database| Arc::new(database) as Arc<dyn Store>));
}

#[tokio::test]
async fn an_unreachable_postgres_is_a_typed_error() {
    let error = Postgres::connect("postgres://tests@127.0.0.1:1/postgres").await.unwrap_err();
    assert!(matches!(error, DatabaseError::Unavailable { .. }), "{error:?}");
    assert!(Postgres::connect("not a url").await.is_err());
}

#[tokio::test]
async fn foreign_and_newer_postgres_schemas_are_rejected() {
    let Some(url) = url() else { return };
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = format!("foreign_{}", std::process::id());
    client.batch_execute(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.thread (id int)")).await.unwrap();
    let error =
        PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() }.connect(&url).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Foreign { .. }), "{error:?}");
    let schema = format!("newer_{}", std::process::id());
    PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() }.connect(&url).await.unwrap();
    client.batch_execute(&format!("UPDATE {schema}.deepagents_version SET version = 99")).await.unwrap();
    let error =
        PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() }.connect(&url).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NewerSchema { found: 99, .. }), "{error:?}");
}

#[tokio::test]
async fn leases_follow_the_server_clock() {
    use std::time::Duration;

    use deepagents_core::journal::{Claim, Journal};
    let Some(database) = database(None).await else { return };
    let fence = database.claim("t", Claim::new("ada", Duration::from_secs(60))).await.unwrap();
    assert!(database.claim("t", Claim::new("bob", Duration::from_secs(60))).await.is_err());
    database.renew("t", fence, Duration::from_secs(60)).await.unwrap();
    database.append("t", fence, 0, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn handles_of_one_schema_report_the_same_storage() {
    use deepagents_core::journal::Journal;

    let Some(other) = database(None).await else { return };
    let schema = format!("test storage {}", std::process::id());
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    let connect = async || options.clone().connect(&url().unwrap()).await.unwrap();
    let (one, two) = (connect().await, connect().await);
    let named = one.storage().await.unwrap();
    assert!(named.is_some());
    assert_eq!(named, two.storage().await.unwrap());
    assert_ne!(named, other.storage().await.unwrap());
}
