//! Bounded capture of output.

use std::collections::VecDeque;

use tokio::sync::mpsc;

/// The first and last bytes of an output of any length.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    dropped: u64,
}

impl Capture {
    /// Creates a capture that keeps about `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, dropped: 0 }
    }

    /// Appends output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Of a piece longer than the tail, only the end can be kept.
        let skip = rest.len().saturating_sub(self.half);
        let (skipped, rest) = rest.split_at(skip);
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
        self.dropped += (skipped.len() + overflow) as u64;
    }

    /// Returns the text and the number of bytes missing from it.
    pub(crate) fn finish(self) -> (String, u64) {
        let Self { mut head, tail, dropped, .. } = self;
        let mut tail = Vec::from(tail);
        if dropped == 0 {
            head.append(&mut tail);
            return (lossy(head), 0);
        }
        // Drop characters that were split by the cut.
        let cut = incomplete(&head);
        head.truncate(head.len() - cut);
        let broken = tail.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
        tail.drain(..broken);
        let dropped = dropped + (cut + broken) as u64;
        let (head, tail) = (lossy(head), lossy(tail));
        let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        (format!("{head}{gap}[... {dropped} bytes of output left out ...]\n{tail}"), dropped)
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns the length of an incomplete character at the end.
fn incomplete(bytes: &[u8]) -> usize {
    let end = bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default();
    let last = end.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let whole = std::str::from_utf8(last).map_or_else(|error| error.error_len().is_some(), |_| true);
    if whole { 0 } else { last.len() }
}

/// Decodes pieces of output without splitting characters.
#[derive(Debug, Default)]
struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// Returns the text up to the last complete character.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let keep = incomplete(&self.rest);
        let rest = self.rest.split_off(self.rest.len() - keep);
        lossy(std::mem::replace(&mut self.rest, rest))
    }

    /// Returns the remaining text.
    fn finish(self) -> String {
        lossy(self.rest)
    }
}

/// Captures output and also streams its text to a channel, if there is one.
#[derive(Debug)]
pub(crate) struct StreamedCapture {
    capture: Capture,
    decoder: Decoder,
    progress: Option<mpsc::Sender<String>>,
}

impl StreamedCapture {
    /// Creates a capture that keeps about `limit` bytes.
    pub(crate) fn new(limit: usize, progress: Option<mpsc::Sender<String>>) -> Self {
        Self { capture: Capture::new(limit), decoder: Decoder::default(), progress }
    }

    /// Appends output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.capture.push(bytes);
        if self.progress.is_some() {
            let text = self.decoder.push(bytes);
            self.send(text);
        }
    }

    /// Returns the text and the number of bytes missing from it.
    pub(crate) fn finish(mut self) -> (String, u64) {
        let rest = std::mem::take(&mut self.decoder).finish();
        self.send(rest);
        self.capture.finish()
    }

    /// Sends a piece of text, unless the channel is full.
    fn send(&self, text: String) {
        if let Some(progress) = self.progress.as_ref().filter(|_| !text.is_empty()) {
            let _ = progress.try_send(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn output_chunks_decode_to_the_same_text_as_the_whole(text in "\\PC{0,40}", size in 1usize..7) {
            let mut decoder = Decoder::default();
            let mut out: String = text.as_bytes().chunks(size).map(|piece| decoder.push(piece)).collect();
            out.push_str(&decoder.finish());
            prop_assert_eq!(out, text);
        }

        #[test]
        fn kept_and_dropped_bytes_add_up(text in "[a-zé\u{1F600}]{0,300}", size in 1usize..50, limit in 0usize..64) {
            let mut capture = Capture::new(limit);
            text.as_bytes().chunks(size).for_each(|piece| capture.push(piece));
            let (kept, dropped) = capture.finish();
            prop_assert!(!kept.contains(char::REPLACEMENT_CHARACTER));
            if dropped == 0 {
                prop_assert_eq!(kept, text);
            } else {
                let notice = format!("[... {dropped} bytes of output left out ...]\n");
                let (head, tail) = kept.split_once(&notice).unwrap();
                let head = head.strip_suffix('\n').unwrap_or(head);
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!((head.len() + tail.len()) as u64 + dropped, text.len() as u64);
                prop_assert!(head.len() + tail.len() <= limit);
            }
        }
    }
}
