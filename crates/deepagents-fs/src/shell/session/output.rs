//! What a session prints, command by command.

use std::sync::{Mutex, PoisonError};

use memchr::memmem;
use tokio::sync::{mpsc, oneshot};

use crate::shell::capture::{Capture, Decoder};

/// Begins and ends what the shell says of the end of a command.
const SIGN: u8 = 0x1e;
/// Bytes of output between two commands that are kept.
const BETWEEN: usize = 64 << 10;
/// Characters of an exit status and what surrounds it.
const STATUS: usize = 16;

/// A command that ended by itself.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: i32,
    pub(super) output: String,
    pub(super) dropped: u64,
}

/// Takes what a session prints from the thread that reads it, and gives each command its part.
///
/// The shell says that a command has ended on the same pipe, by a mark that no output has by chance: so all that the
/// command had printed is here by then, whatever its last line is. A command that repeats the mark deceives itself alone.
#[derive(Debug, Default)]
pub(crate) struct SessionOutput(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    current: Option<Current>,
    /// What was printed while no command ran.
    between: Option<Capture>,
}

#[derive(Debug)]
struct Current {
    mark: Vec<u8>,
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    capture: Capture,
    decoder: Decoder,
    progress: Option<mpsc::Sender<String>>,
    done: oneshot::Sender<Done>,
}

impl SessionOutput {
    /// Output is that of a new command from now on; gives what was printed since the one before.
    pub(super) fn begin(
        &self,
        mark: &str,
        limit: usize,
        progress: Option<mpsc::Sender<String>>,
    ) -> (oneshot::Receiver<Done>, String) {
        let (done, told) = oneshot::channel();
        let sign = char::from(SIGN);
        let mark = format!("{sign}{mark}:").into_bytes();
        let (held, decoder) = (Vec::new(), Decoder::default());
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.current = Some(Current { mark, held, capture: Capture::new(limit), decoder, progress, done });
        (told, parts.between.take().map(|between| between.finish().0).unwrap_or_default())
    }

    /// Takes a piece.
    pub(crate) fn push(&self, piece: &[u8]) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = match parts.current.take() {
            Some(current) => match current.push(piece) {
                Pushed::More(current) => {
                    parts.current = Some(current);
                    return;
                }
                Pushed::Ended(rest) => rest,
            },
            None => piece.to_vec(),
        };
        if !rest.is_empty() {
            parts.between.get_or_insert_with(|| Capture::new(BETWEEN)).push(&rest);
        }
    }

    /// What the command that runs has printed, for one that does not end by itself.
    pub(super) fn break_off(&self) -> (String, u64) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut current) = parts.current.take() else { return Default::default() };
        let held = std::mem::take(&mut current.held);
        current.give(&held);
        current.capture.finish()
    }
}

enum Pushed {
    More(Current),
    /// The command ended; what follows.
    Ended(Vec<u8>),
}

impl Current {
    fn push(mut self, piece: &[u8]) -> Pushed {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let Some(at) = memmem::find(&text, &self.mark) else {
            self.held = text.split_off(text.len() - overlap(&text, &self.mark));
            self.give(&text);
            return Pushed::More(self);
        };
        let said = text.split_off(at);
        self.give(&text);
        let behind = said.get(self.mark.len()..).unwrap_or_default();
        let Some(end) = memchr::memchr(SIGN, behind.get(..STATUS).unwrap_or(behind)) else {
            // No shell writes so much of a status: it is output that repeats the mark.
            if behind.len() >= STATUS {
                self.give(&said);
            } else {
                self.held = said;
            }
            return Pushed::More(self);
        };
        let status = behind.get(..end).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
        let rest = behind.get(end + 1..).unwrap_or_default().to_vec();
        let last = std::mem::take(&mut self.decoder).finish();
        self.tell(last);
        let (output, dropped) = self.capture.finish();
        // Where nobody waits any more, the session is being ended.
        let _ = self.done.send(Done { status: status.unwrap_or(-1), output, dropped });
        Pushed::Ended(rest)
    }

    fn give(&mut self, output: &[u8]) {
        self.capture.push(output);
        if self.progress.is_some() {
            let text = self.decoder.push(output);
            self.tell(text);
        }
    }

    fn tell(&self, text: String) {
        if let Some(progress) = self.progress.as_ref().filter(|_| !text.is_empty()) {
            let _ = progress.try_send(text);
        }
    }
}

/// How much of the end of a text could be the beginning of the mark.
fn overlap(text: &[u8], mark: &[u8]) -> usize {
    let longest = text.len().min(mark.len().saturating_sub(1));
    (1..=longest).rev().find(|length| mark.get(..*length).is_some_and(|begun| text.ends_with(begun))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_command_gets_what_comes_before_its_mark_however_it_is_cut(
            before in "[a\u{1e}m1:é]{0,40}", after in "[a\u{1e}m:]{0,20}", status in -1i32..300, size in 1usize..9,
        ) {
            let output = SessionOutput::default();
            let (mut done, _) = output.begin("mark", 1 << 10, None);
            let printed = format!("{before}\u{1e}mark:{status}\u{1e}{after}");
            printed.as_bytes().chunks(size).for_each(|piece| output.push(piece));
            let done = done.try_recv().unwrap();
            prop_assert_eq!((done.output, done.status, done.dropped), (before, status, 0));
            let (_, between) = output.begin("next", 1 << 10, None);
            prop_assert_eq!(between, after);
        }

        #[test]
        fn what_was_printed_is_there_when_a_command_is_broken_off(text in "[a\u{1e}m1:é]{0,40}", size in 1usize..9) {
            let output = SessionOutput::default();
            let _waiting = output.begin("mark", 1 << 10, None);
            text.as_bytes().chunks(size).for_each(|piece| output.push(piece));
            prop_assert_eq!(output.break_off().0, text);
        }
    }
}
