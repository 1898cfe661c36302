//! Splits the output of a session into the outputs of its commands.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use tokio::sync::oneshot;

use crate::shell::capture::{Capture, StreamedCapture};

/// Delimits the shell's report that a command ended.
const STATUS_DELIMITER: u8 = 0x1e;
/// Number of bytes kept of output between two commands.
const MAX_BYTES_BETWEEN: usize = 64 << 10;
/// Maximum length of an exit status with its delimiter.
const MAX_STATUS_BYTES: usize = 16;

/// Result of a command that ended by itself.
#[derive(Debug)]
pub(super) struct CommandEnd {
    pub(super) status: i32,
    pub(super) output: String,
    pub(super) dropped: u64,
}

/// Receives a session's output from the thread that reads it, and assigns it to commands.
///
/// The shell reports the end of a command on the same pipe, with a random mark that does not occur in output by chance.
/// So all output of the command has arrived by then, even if its last line is unterminated. A command that prints the
/// mark itself deceives only itself.
#[derive(Debug, Default)]
pub(crate) struct SessionOutput(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    current: Option<Current>,
    /// Output while no command was running.
    between: Option<Capture>,
}

#[derive(Debug)]
struct Current {
    mark: Vec<u8>,
    /// Bytes that may be the start of the mark.
    held: Vec<u8>,
    capture: StreamedCapture,
    done: oneshot::Sender<CommandEnd>,
}

impl SessionOutput {
    /// Assigns the output from now on to a new command. Returns the output since the previous command.
    pub(super) fn begin(&self, mark: &str, capture: StreamedCapture) -> (oneshot::Receiver<CommandEnd>, String) {
        let (done, told) = oneshot::channel();
        let sign = char::from(STATUS_DELIMITER);
        let mark = format!("{sign}{mark}:").into_bytes();
        self.lock().current = Some(Current { mark, held: Vec::new(), capture, done });
        (told, self.take_between())
    }

    /// Takes the output since the last command ended.
    pub(super) fn take_between(&self) -> String {
        self.lock().between.take().map(|between| between.finish().0).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece of output.
    pub(crate) fn push(&self, piece: &[u8]) {
        let mut parts = self.lock();
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
            parts.between.get_or_insert_with(|| Capture::new(MAX_BYTES_BETWEEN)).push(&rest);
        }
    }

    /// Takes the output of the running command, if it does not end by itself.
    pub(super) fn break_off(&self) -> (String, u64) {
        let Some(mut current) = self.lock().current.take() else { return Default::default() };
        current.capture.push(&current.held);
        current.capture.finish()
    }
}

enum Pushed {
    More(Current),
    /// The command ended; this is the remaining output.
    Ended(Vec<u8>),
}

impl Current {
    fn push(mut self, piece: &[u8]) -> Pushed {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let Some(at) = memmem::find(&text, &self.mark) else {
            self.held = text.split_off(text.len() - overlap(&text, &self.mark));
            self.capture.push(&text);
            return Pushed::More(self);
        };
        let said = text.split_off(at);
        self.capture.push(&text);
        let behind = said.get(self.mark.len()..).unwrap_or_default();
        let Some(end) = memchr::memchr(STATUS_DELIMITER, behind.get(..MAX_STATUS_BYTES).unwrap_or(behind)) else {
            // A status is never this long, so this is output that contains the mark.
            if behind.len() >= MAX_STATUS_BYTES {
                self.capture.push(&said);
            } else {
                self.held = said;
            }
            return Pushed::More(self);
        };
        let status = behind.get(..end).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
        let rest = behind.get(end + 1..).unwrap_or_default().to_vec();
        let (output, dropped) = self.capture.finish();
        // If the receiver was dropped, the session is ending.
        let _ = self.done.send(CommandEnd { status: status.unwrap_or(-1), output, dropped });
        Pushed::Ended(rest)
    }
}

/// Returns the length of the longest suffix of `text` that is a prefix of the mark.
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
        fn a_commands_output_ends_at_its_marker_however_it_is_chunked(
            before in "[a\u{1e}m1:é]{0,40}", after in "[a\u{1e}m:]{0,20}", status in -1i32..300, size in 1usize..9,
        ) {
            let output = SessionOutput::default();
            let capture = || StreamedCapture::new(1 << 10, None);
            let (mut done, _) = output.begin("mark", capture());
            let printed = format!("{before}\u{1e}mark:{status}\u{1e}{after}");
            printed.as_bytes().chunks(size).for_each(|piece| output.push(piece));
            let done = done.try_recv().unwrap();
            prop_assert_eq!((done.output, done.status, done.dropped), (before, status, 0));
            let (_, between) = output.begin("next", capture());
            prop_assert_eq!(between, after);
        }

        #[test]
        fn output_so_far_is_returned_when_a_command_is_aborted(text in "[a\u{1e}m1:é]{0,40}", size in 1usize..9) {
            let output = SessionOutput::default();
            let _waiting = output.begin("mark", StreamedCapture::new(1 << 10, None));
            text.as_bytes().chunks(size).for_each(|piece| output.push(piece));
            prop_assert_eq!(output.break_off().0, text);
        }
    }
}
