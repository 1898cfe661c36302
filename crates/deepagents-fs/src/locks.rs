//! One lock per path, for as long as it is in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::{PathGuard, VPath};

/// Locks by path. Unused entries are removed when the table has grown.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathLocks {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    locks: HashMap<VPath, Weak<tokio::sync::Mutex<()>>>,
    sweep_at: usize,
}

impl PathLocks {
    pub(crate) async fn lock(&self, path: &VPath) -> PathGuard {
        let lock = self.get(path);
        lock.lock_owned().await.into()
    }

    fn get(&self, path: &VPath) -> Arc<tokio::sync::Mutex<()>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = table.locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        if table.locks.len() >= table.sweep_at {
            table.locks.retain(|_, lock| lock.strong_count() > 0);
            table.sweep_at = 2 * table.locks.len() + 64;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        table.locks.insert(path.clone(), Arc::downgrade(&lock));
        lock
    }
}
