//! Reads a client's lines and repairs malformed ones.

use std::io;

use deepagents_core::json::{Outline, mend_escapes};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, Decoder, FramedRead};
use tokio_util::io::StreamReader;

/// Maximum size of a line, in bytes. Longer ones are skipped.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Method that replaces an unparsable request, so that it is answered with an error under its ID.
pub(super) const UNREADABLE: &str = "unreadable";

/// Returns a reader that passes lines on once they are complete. The last one needs no newline.
pub(super) fn readable_lines(read: impl AsyncRead + Send + Unpin + 'static) -> impl AsyncRead + Send + Unpin + 'static {
    let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), MAX_LINE_BYTES);
    StreamReader::new(FramedRead::new(read, ReadableLines(lines)))
}

/// Codec of lines.
struct ReadableLines(AnyDelimiterCodec);

/// Runs a decoder. Returns a repaired line, or `None` if none is complete.
fn repaired(mut read: impl FnMut() -> Result<Option<Bytes>, AnyDelimiterCodecError>) -> io::Result<Option<Bytes>> {
    loop {
        match read() {
            Ok(line) => return Ok(line.map(|line| readable(&line).into())),
            Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => {}
            Err(AnyDelimiterCodecError::Io(error)) => return Err(error),
        }
    }
}

impl Decoder for ReadableLines {
    type Item = Bytes;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Bytes>> {
        repaired(|| self.0.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Bytes>> {
        repaired(|| self.0.decode_eof(bytes))
    }
}

/// Repairs a line, so that it can be parsed, and adds its newline.
fn readable(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let mut readable = match serde_json::from_slice::<Value>(line) {
        Ok(_) => text.into_owned(),
        Err(_) => mended(&text),
    };
    readable.push('\n');
    readable.into_bytes()
}

/// Repairs a line that is not JSON, or replaces a request by one that is answered with the problem.
fn mended(line: &str) -> String {
    let mended = mend_escapes(line.trim_start_matches('\u{feff}'));
    let Err(problem) = serde_json::from_str::<Value>(&mended) else { return mended };
    let mut outline = Outline::default();
    outline.push(mended.as_bytes());
    match outline.asked() {
        Some(id) => {
            let why = format!("{:?} at column {}", problem.classify(), problem.column());
            json!({"jsonrpc": "2.0", "id": id, "method": UNREADABLE, "params": {"why": why}}).to_string()
        }
        None => mended,
    }
}
