//! What a wrap fails with names its middleware.

use std::future::Future;

use futures_util::FutureExt;

use super::DynMiddleware;
use crate::error::{Error, Result};
use crate::panics::blamed;

/// Names the middleware in what its wrap fails with. Errors of what it stands around come through as they are.
pub(super) fn wrap<T>(
    middleware: &dyn DynMiddleware,
    hook: &'static str,
    outermost: bool,
    call: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    let place = move || Some(format!("{hook} of middleware `{}`", middleware.name()));
    let done = blamed(call, outermost, place);
    done.map(move |result| {
        result.map_err(|error| match error {
            Error::Other(_) | Error::Store(_) => {
                Error::Hook { middleware: middleware.name().to_owned(), hook, source: Box::new(error) }
            }
            error => error,
        })
    })
}
