//! Reading what an early answer has left of a request's body.
//!
//! A connection whose request was not read to its end cannot be used again. A client that keeps connections open would
//! lose its next request on it, or this one while it is still sending.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use futures_core::Stream;
use futures_util::StreamExt;

/// Maximum number of bytes that are read after an answer is known.
const MAX_REST_BYTES: usize = 10 << 20;

/// How long reading them may take.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

/// Middleware that reads the rest of a request's body before its answer is sent. If that is too much, the connection is
/// closed, and the answer says so.
pub(crate) async fn drain(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let rest = Arc::new(Mutex::new(None));
    let request = request.map(|body| {
        let pieces = Some(body.into_data_stream());
        Body::from_stream(Returned { pieces, rest: rest.clone() })
    });
    let mut response = next.run(request).await;
    let left = rest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(left) = left
        && !is_read(left).await
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads a body to its end, within the limits. Returns whether it was possible.
async fn is_read(mut pieces: BodyDataStream) -> bool {
    let read = async {
        let mut bytes = 0;
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) if bytes + piece.len() <= MAX_REST_BYTES => bytes += piece.len(),
                _ => return false,
            }
        }
        true
    };
    tokio::time::timeout(REST_TIMEOUT, read).await.unwrap_or(false)
}

/// The pieces of a body, which are returned when this is dropped before their end.
struct Returned {
    pieces: Option<BodyDataStream>,
    rest: Arc<Mutex<Option<BodyDataStream>>>,
}

impl Stream for Returned {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
        let piece = pieces.poll_next_unpin(cx);
        if matches!(piece, Poll::Ready(None | Some(Err(_)))) {
            self.pieces = None;
        }
        piece
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = self.pieces.take();
    }
}
