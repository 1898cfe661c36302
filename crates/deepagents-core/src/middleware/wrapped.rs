//! Attributes errors of wrap hooks to their middleware.

use std::future::Future;

use futures_util::FutureExt;

use super::DynMiddleware;
use crate::error::{Error, Result};
use crate::panics::blamed;

/// Names the middleware in errors of its wrap hook. Errors of the wrapped call pass through unchanged.
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
            Error::Other(_) | Error::Store(_) => error.in_hook(middleware.name(), hook),
            error => error,
        })
    })
}
