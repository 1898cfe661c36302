//! SQLite passes the suites.

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
