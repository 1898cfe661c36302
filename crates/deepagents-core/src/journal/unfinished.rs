//! Work that must be completed once it has started.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::future::BoxFuture;
use futures_util::FutureExt;

/// A future that continues in a task of its own if whoever awaits it is dropped.
pub(super) struct Unfinished<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Unfinished<T> {
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<T: Send + 'static> Future for Unfinished<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = ready!(work.poll_unpin(cx));
        self.0 = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Unfinished<T> {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}
