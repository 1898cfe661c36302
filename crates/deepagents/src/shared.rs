//! Values that only code can provide, inside types that are otherwise plain data; state that is shared behind a lock;
//! and a macro for builder methods.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::run::Context;

/// A value provided in code, such as a tool or a closure. Clones share the value; two are equal only if they share it.
pub(crate) struct Shared<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: ?Sized> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(given in code)")
    }
}

/// Locks shared state. After a panic it is used as it is: no change leaves it half done.
pub(crate) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the key of an agent's state among that of all agents of an owner, such as a run or a thread.
pub(crate) fn agent_key(owner: &str, cx: &Context) -> String {
    cx.path().iter().fold(owner.to_owned(), |key, part| format!("{key}/{part}"))
}

/// Generates builder methods that each set one field.
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident($given:ident: $kind:ty) => $($field:ident).+ = $value:expr;)*) => {$(
        $(#[$meta])*
        #[must_use]
        #[allow(clippy::double_must_use, reason = "some of the types are so themselves")]
        pub fn $name(mut self, $given: $kind) -> Self {
            self.$($field).+ = $value;
            self
        }
    )*};
}
pub(crate) use setters;
