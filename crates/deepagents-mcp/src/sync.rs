//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic of a holder does not matter: no lock is held while its value is half changed.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
