//! Messages and origins of panics in third-party code.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

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
