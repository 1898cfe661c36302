//! Request bodies in pieces, which requests share instead of copying.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::digest::{BodyHash, PrefixHash};

/// The body of a request, as pieces in sending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestBody {
    pieces: Arc<[Bytes]>,
    len: usize,
    hash: Option<BodyHash>,
}

impl RequestBody {
    /// Sets the hash, if known.
    pub(super) fn with_hash(self, hash: Option<BodyHash>) -> Self {
        Self { hash, ..self }
    }

    /// Returns the SHA-256 in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        let hash = self.hash.unwrap_or_else(|| PrefixHash::new(self.pieces.to_vec(), &[]).with(&[]));
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the total number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns all of it as one piece.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl FromIterator<Bytes> for RequestBody {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let pieces: Arc<[Bytes]> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let len = pieces.iter().map(Bytes::len).sum();
        Self { pieces, len, hash: None }
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(bytes: Vec<u8>) -> Self {
        std::iter::once(Bytes::from(bytes)).collect()
    }
}

/// Converts to a body of known length, so that it is not sent in chunks.
impl From<RequestBody> for reqwest::Body {
    fn from(body: RequestBody) -> Self {
        Self::wrap(Sending { left: body.len as u64, pieces: body.pieces, next: 0 })
    }
}

struct Sending {
    pieces: Arc<[Bytes]>,
    next: usize,
    left: u64,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.get(self.next).cloned();
        self.next += 1;
        self.left = self.left.saturating_sub(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
