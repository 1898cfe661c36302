//! What a server writes to stdout, line by line.

use std::collections::VecDeque;

use deepagents_core::json::Outline;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::flood::Flood;
use super::message;
use super::stderr::StderrTail;

/// Bytes of a line. A longer one is not kept.
const LONGEST: usize = 16 << 20;
/// Bytes of a line that has no end.
const ENDLESS: usize = 64 << 20;

/// The messages of a server. No line makes it keep more than the longest that is taken; a line that does not end, or more lines
/// than anybody reads, are its end, as nobody gets an answer behind them.
#[derive(Debug)]
pub(super) struct MessageLines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The line that is too long, and has not ended yet.
    too_long: Option<OversizedLine>,
    /// Messages that came with an earlier one.
    waiting: VecDeque<ServerJsonRpcMessage>,
    flood: Flood,
    /// Where it is told why nothing more is read.
    tail: StderrTail,
}

#[derive(Debug, Default)]
struct OversizedLine {
    about: Outline,
    bytes: usize,
    /// Whether who waits for it was told.
    told: bool,
}

impl OversizedLine {
    fn push(&mut self, bytes: &[u8]) {
        self.about.push(bytes);
        self.bytes = self.bytes.saturating_add(bytes.len());
    }

    /// What stands for the answer that the line would have been, once it is known to whom.
    fn answer(&mut self, has_ended: bool) -> Option<ServerJsonRpcMessage> {
        if self.told {
            return None;
        }
        let id = if has_ended { self.about.answered() } else { self.about.answered_so_far() };
        let id = id.and_then(message::request_id)?;
        self.told = true;
        Some(message::unreadable(id, &format!("it is longer than {} MiB", LONGEST >> 20)))
    }
}

impl<R: AsyncRead + Unpin> MessageLines<R> {
    pub(super) fn new(read: R, tail: StderrTail) -> Self {
        let (read, line, waiting) = (BufReader::new(read), Vec::new(), VecDeque::new());
        Self { read, line, too_long: None, waiting, flood: Flood::default(), tail }
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
            if self.too_long.is_none() && self.line.len() + piece.len() > LONGEST {
                let mut line = OversizedLine::default();
                line.push(&std::mem::take(&mut self.line));
                self.too_long = Some(line);
            }
            match &mut self.too_long {
                Some(line) => {
                    line.push(piece);
                    self.waiting.extend(line.answer(false));
                    if line.bytes > ENDLESS && self.waiting.is_empty() {
                        self.tail.say(&format!("a line of more than {} MiB", ENDLESS >> 20));
                        return None;
                    }
                }
                None => self.line.extend_from_slice(piece),
            }
            self.read.consume(taken);
            if (end.is_some() || is_end) && self.take_line() {
                self.tail.say("too many lines on stdout");
                return None;
            }
            if is_end && self.waiting.is_empty() {
                return None;
            }
        }
    }

    /// Takes in the line that has ended, and says whether it is one too many.
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
        // The longest line that ever came is not kept for good.
        self.line.shrink_to(64 << 10);
        !answers && self.flood.is_one_too_many()
    }
}
