//! Reads a client's lines and repairs malformed ones.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use deepagents_core::json::{Outline, mend_escapes};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// Maximum size of a line that is examined, in bytes. The transport drops longer ones.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Size of a read, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Method that replaces an unparsable request, so that it is answered with an error under its ID.
pub(super) const UNREADABLE: &str = "unreadable";

/// A reader that passes lines on once they are complete.
pub(super) struct ReadableLines<R> {
    read: R,
    line: Vec<u8>,
    /// Whether the current line is too long to examine and is passed on as it arrives.
    too_long: bool,
    ready: Vec<u8>,
    /// The number of bytes of `ready` passed on.
    given: usize,
}

impl<R> ReadableLines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, line: Vec::new(), too_long: false, ready: Vec::new(), given: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let has_ended = piece.ends_with(b"\n");
            if self.too_long || self.line.len() > MAX_LINE_BYTES {
                self.ready.append(&mut self.line);
                self.too_long = !has_ended;
            } else if has_ended {
                self.ready.extend(readable(&self.line));
                self.line.clear();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ReadableLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let left = self.ready.get(self.given..).unwrap_or_default();
            if !left.is_empty() {
                let count = left.len().min(buffer.remaining());
                buffer.put_slice(left.get(..count).unwrap_or_default());
                self.given += count;
                return Poll::Ready(Ok(()));
            }
            self.ready.clear();
            self.given = 0;
            let mut bytes = [0; READ_BYTES];
            let mut piece = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.read).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                if self.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                // The transport would drop a last line without a newline.
                let mut line = std::mem::take(&mut self.line);
                line.push(b'\n');
                self.ready = readable(&line);
                continue;
            }
            self.take(piece.filled());
        }
    }
}

/// Repairs a line, so that it can be parsed.
fn readable(line: &[u8]) -> Vec<u8> {
    if serde_json::from_slice::<Value>(line).is_ok() {
        return line.to_vec();
    }
    let text = String::from_utf8_lossy(line);
    let mended = mend_escapes(text.trim_start_matches('\u{feff}'));
    let Err(problem) = serde_json::from_str::<Value>(&mended) else { return mended.into_bytes() };
    let mut outline = Outline::default();
    outline.push(mended.as_bytes());
    match outline.asked() {
        Some(id) => {
            let why = format!("{:?} at column {}", problem.classify(), problem.column());
            let request = json!({"jsonrpc": "2.0", "id": id, "method": UNREADABLE, "params": {"why": why}});
            format!("{request}\n").into_bytes()
        }
        None => mended.into_bytes(),
    }
}
