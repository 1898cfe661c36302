//! Panics in third-party code: their messages and origins, and locks that outlive them.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;

/// Locks a value, even if an earlier holder panicked: every change to a locked value is complete before other code
/// runs.
pub(crate) fn lock<T: ?Sized>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs third-party code.
///
/// # Errors
/// Returns the message if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(&*panic).to_owned())
}

/// Awaits third-party code.
///
/// # Errors
/// Returns the message if it panics.
pub(crate) fn caught_async<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, String>> {
    let work = AssertUnwindSafe(work).catch_unwind();
    work.map(|done| done.map_err(|panic| panic_text(&*panic).to_owned()))
}

/// A panic propagating through a stack, with a text that names its origin.
struct Blamed(String);

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>(), panic.downcast_ref::<Blamed>()) {
        (Some(text), ..) => text,
        (_, Some(text), _) => text,
        (.., Some(Blamed(text))) => text,
        _ => "it gave no reason",
    }
}

/// Adds to a panic where it started; the innermost place wins. Without a place, the message stays unchanged. The
/// outermost caller turns it back into a string, which observers can read. Not an `async fn`, because that would
/// reserve space for the future twice.
pub(crate) fn blamed<T>(
    work: impl Future<Output = T>,
    outermost: bool,
    place: impl FnOnce() -> Option<String>,
) -> impl Future<Output = T> {
    AssertUnwindSafe(work).catch_unwind().map(move |done| {
        done.unwrap_or_else(|panic| {
            let text = match panic.downcast::<Blamed>() {
                Ok(known) => known.0,
                Err(panic) => match place() {
                    Some(place) => format!("in {place}: {}", panic_text(&*panic)),
                    None => panic_text(&*panic).to_owned(),
                },
            };
            resume_unwind(if outermost { Box::new(text) as Box<dyn Any + Send> } else { Box::new(Blamed(text)) })
        })
    })
}
