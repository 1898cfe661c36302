//! What a server writes to stdout, line by line.

use std::collections::VecDeque;

use rmcp::model::ServerJsonRpcMessage;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::message;
use super::outline::Outline;

/// Bytes of a line. A longer one is not kept.
const LONGEST: usize = 16 << 20;

/// The messages of a server. No line ends it, and none makes it keep more than the longest that is taken.
#[derive(Debug)]
pub(super) struct MessageLines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// What a line is about that is too long, and has not ended yet.
    too_long: Option<Outline>,
    /// Messages that came with an earlier one.
    waiting: VecDeque<ServerJsonRpcMessage>,
}

impl<R: AsyncRead + Unpin> MessageLines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), too_long: None, waiting: VecDeque::new() }
    }

    /// The next message; nothing once the server has closed its stdout. Whoever stops waiting loses nothing: what was read
    /// of a line is kept.
    pub(super) async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            // A pipe that breaks is one that has ended.
            let bytes = self.read.fill_buf().await.unwrap_or_default();
            let is_end = bytes.is_empty();
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
            let taken = piece.len() + usize::from(end.is_some());
            match &mut self.too_long {
                Some(outline) => outline.push(piece),
                None if self.line.len() + piece.len() > LONGEST => {
                    let mut outline = Outline::default();
                    outline.push(&self.line);
                    outline.push(piece);
                    self.line = Vec::new();
                    self.too_long = Some(outline);
                }
                None => self.line.extend_from_slice(piece),
            }
            self.read.consume(taken);
            if end.is_some() || is_end {
                self.take_line();
            }
            if is_end && self.waiting.is_empty() {
                return None;
            }
        }
    }

    /// Takes in the line that has ended.
    fn take_line(&mut self) {
        if let Some(outline) = self.too_long.take() {
            let why = format!("it is longer than {} MiB", LONGEST >> 20);
            self.waiting.extend(outline.answered().map(|id| message::unreadable(id, &why)));
            return;
        }
        self.waiting.extend(message::read(&self.line));
        self.line.clear();
        // The longest line that ever came is not kept for good.
        self.line.shrink_to(64 << 10);
    }
}
