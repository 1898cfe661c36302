//! SQLite passes the suites.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use deepagents_core::env::Clock;
use deepagents_persist::{Sqlite, SqliteOptions};
use tempfile::TempDir;

thread_local! {
    /// Directories that are removed when the test's thread ends.
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// A path for a database, which exists as long as the test.
pub(crate) fn place() -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    path
}

async fn database(clock: Arc<dyn Clock>) -> Sqlite {
    SqliteOptions { clock, ..SqliteOptions::default() }.open(place()).await.unwrap()
}

mod journal {
    use deepagents_core::journal::Journal;

    use super::*;

    deepagents_testing::journal_suite!(async |clock| Some(Arc::new(database(clock).await) as Arc<dyn Journal>));
}

mod store {
    use deepagents_core::store::Store;

    use super::*;

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(database(clock).await) as Arc<dyn Store>));
}

#[tokio::test]
async fn handles_of_one_file_report_the_same_storage() {
    use deepagents_core::journal::Journal;

    let place = place();
    let (one, two) = (Sqlite::open(&place).await.unwrap(), Sqlite::open(&place).await.unwrap());
    let other = Sqlite::open(self::place()).await.unwrap();
    let named = one.storage().await.unwrap();
    assert!(named.is_some());
    assert_eq!(named, two.storage().await.unwrap());
    assert_ne!(named, other.storage().await.unwrap());
}

#[tokio::test]
async fn a_closed_database_leaves_its_path_to_another_at_once() {
    use deepagents_core::store::Store;

    let place = place();
    for round in 0..20 {
        let database = Sqlite::open(&place).await.unwrap();
        assert_eq!(database.get(&["notes".to_owned()], "round").await.unwrap(), None);
        let (one, two) = (database.clone(), database.clone());
        let write = tokio::spawn(async move { one.put(&["notes".to_owned()], "round", round.into()).await });
        database.put(&["notes".to_owned()], "other", round.into()).await.unwrap();
        write.await.unwrap().unwrap();
        tokio::join!(database.close(), two.close());
        let beside = std::fs::read_dir(place.parent().unwrap()).unwrap();
        let left: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["test.db"], "the WAL and its index are gone once it is closed");
        std::fs::remove_file(&place).unwrap();
    }
}

#[tokio::test]
async fn closing_waits_for_calls_that_run_and_fails_later_ones() {
    use deepagents_core::store::Store;

    let place = place();
    let database = Sqlite::open(&place).await.unwrap();
    let namespace = ["notes".to_owned()];
    let keys: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let writes = futures_util::future::join_all(keys.iter().map(|key| database.put(&namespace, key, 1.into())));
    let (written, ()) = tokio::join!(writes, database.close());
    let written = written.into_iter().filter(Result::is_ok).count();

    for error in [
        database.put(&namespace, "late", 1.into()).await.err().unwrap().to_string(),
        database.get(&namespace, "0").await.err().unwrap().to_string(),
    ] {
        assert!(error.contains("it has been closed"), "{error}");
    }
    let again = Sqlite::open(&place).await.unwrap();
    let kept = again.list_keys(&namespace, &deepagents_core::store::KeyQuery::default()).await.unwrap().len();
    assert_eq!(kept, written, "what was confirmed is there, and nothing else");
}

#[tokio::test]
async fn a_database_opened_for_reading_closes_too() {
    use deepagents_core::store::Store;

    let place = place();
    let writer = Sqlite::open(&place).await.unwrap();
    let reader = SqliteOptions::default().open_read_only(&place).await.unwrap();
    assert!(reader.get(&["notes".to_owned()], "a").await.unwrap().is_none());
    reader.close().await;
    let error = reader.get(&["notes".to_owned()], "a").await.err().unwrap().to_string();
    assert!(error.contains("it has been closed"), "{error}");
    writer.put(&["notes".to_owned()], "a", 1.into()).await.unwrap();
}

#[tokio::test]
async fn a_database_whose_close_is_not_waited_for_closes_completely() {
    use deepagents_core::store::Store;
    use futures_util::FutureExt;

    let place = place();
    let database = Sqlite::open(&place).await.unwrap();
    let namespace = ["notes".to_owned()];
    database.put(&namespace, "a", 1.into()).await.unwrap();
    assert!(database.get(&namespace, "a").await.unwrap().is_some());
    assert!(Box::pin(database.close()).now_or_never().is_none());
    let closed = async {
        while database.get(&namespace, "a").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), closed).await.expect("it closes");
    assert!(database.put(&namespace, "a", 2.into()).await.is_err());
    let left: Vec<_> =
        std::fs::read_dir(place.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["test.db"]);
}
