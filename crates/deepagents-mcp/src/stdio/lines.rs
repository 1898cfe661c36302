//! Reads a server's stdout line by line.

use std::collections::VecDeque;

use deepagents_core::json::Outline;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::flood::Flood;
use super::message;
use super::stderr::StderrTail;

/// Maximum size of a line that is buffered, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Size after which an unfinished line ends the connection, in bytes.
const MAX_UNFINISHED_BYTES: usize = 64 << 20;

/// Reads the messages of a server with bounded memory. An endless line, or too many lines that are not responses, end
/// the connection, since no response could get through.
#[derive(Debug)]
pub(super) struct MessageLines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The oversized line being skipped.
    too_long: Option<OversizedLine>,
    /// Parsed messages not yet returned.
    waiting: VecDeque<ServerJsonRpcMessage>,
    flood: Flood,
    /// Records why reading has stopped.
    tail: StderrTail,
}

#[derive(Debug, Default)]
struct OversizedLine {
    about: Outline,
    bytes: usize,
    /// Whether the caller got its error response.
    is_answered: bool,
}

impl OversizedLine {
    fn push(&mut self, bytes: &[u8]) {
        self.about.push(bytes);
        self.bytes = self.bytes.saturating_add(bytes.len());
    }

    /// Returns an error in place of the response that the line holds, once its request ID is known.
    fn answer(&mut self, has_ended: bool) -> Option<ServerJsonRpcMessage> {
        if self.is_answered {
            return None;
        }
        let id = if has_ended { self.about.answered() } else { self.about.answered_so_far() };
        let id = id.and_then(message::request_id)?;
        self.is_answered = true;
        Some(message::unreadable(id, &format!("it is longer than {} MiB", MAX_LINE_BYTES >> 20)))
    }
}

impl<R: AsyncRead + Unpin> MessageLines<R> {
    pub(super) fn new(read: R, tail: StderrTail) -> Self {
        let (read, line, waiting) = (BufReader::new(read), Vec::new(), VecDeque::new());
        Self { read, line, too_long: None, waiting, flood: Flood::default(), tail }
    }

    /// Returns the next message, or `None` once the server has closed its stdout. Cancel safe: a partial line stays
    /// buffered.
    pub(super) async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            // A read error counts as EOF.
            let bytes = self.read.fill_buf().await.unwrap_or_default();
            let is_end = bytes.is_empty();
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
            let taken = piece.len() + usize::from(end.is_some());
            if self.too_long.is_none() && self.line.len() + piece.len() > MAX_LINE_BYTES {
                let mut line = OversizedLine::default();
                line.push(&std::mem::take(&mut self.line));
                self.too_long = Some(line);
            }
            match &mut self.too_long {
                Some(line) => {
                    line.push(piece);
                    self.waiting.extend(line.answer(false));
                    if line.bytes > MAX_UNFINISHED_BYTES && self.waiting.is_empty() {
                        self.tail.record(&format!("a line of more than {} MiB", MAX_UNFINISHED_BYTES >> 20));
                        return None;
                    }
                }
                None => self.line.extend_from_slice(piece),
            }
            self.read.consume(taken);
            if (end.is_some() || is_end) && self.take_line() {
                self.tail.record("too many lines on stdout");
                return None;
            }
            if is_end && self.waiting.is_empty() {
                return None;
            }
        }
    }

    /// Parses the completed line. Returns whether it exceeds the rate limit.
    fn take_line(&mut self) -> bool {
        if let Some(mut line) = self.too_long.take() {
            self.waiting.extend(line.answer(true));
            return false;
        }
        let came = message::read(&self.line);
        let answers =
            came.iter().any(|message| matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
        self.waiting.extend(came);
        self.line.clear();
        // Frees the memory of an unusually long line.
        self.line.shrink_to(64 << 10);
        !answers && self.flood.is_one_too_many()
    }
}
