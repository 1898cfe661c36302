//! What a panic of code that is not ours said, and whose code it was.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

/// A panic on its way, with the words that tell whose it is.
struct Blamed(String);

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>(), panic.downcast_ref::<Blamed>()) {
        (Some(text), ..) => text,
        (_, Some(text), _) => text,
        (.., Some(Blamed(text))) => text,
        _ => "it gave no reason",
    }
}

/// The same behind words that tell what happened, unless it is known whose panic it is.
pub(crate) fn panic_told(panic: &(dyn Any + Send), otherwise: &str) -> String {
    match panic.downcast_ref::<Blamed>() {
        Some(Blamed(text)) => text.clone(),
        None => format!("{otherwise}: {}", panic_text(panic)),
    }
}

/// Tells of a panic on its way whose it is; the code nearest to it is the one. No `async fn`, which would keep room for the work
/// twice.
pub(crate) fn blamed<T>(work: impl Future<Output = T>, happened: impl FnOnce() -> String) -> impl Future<Output = T> {
    AssertUnwindSafe(work).catch_unwind().map(|done| {
        done.unwrap_or_else(|panic| {
            if panic.is::<Blamed>() {
                resume_unwind(panic)
            }
            resume_unwind(Box::new(Blamed(format!("{}: {}", happened(), panic_text(&*panic)))))
        })
    })
}
