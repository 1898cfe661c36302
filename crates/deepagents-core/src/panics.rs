//! What a panic of code that is not ours said, and whose code it was.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

/// A panic on its way through a stack, with words that tell where it began.
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

/// Says in a panic where it began: the code nearest to it is the one. Without a place its words stay as they are. What leaves
/// the outermost code is a text again, which observers read. No `async fn`, which would keep room for the work twice.
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
