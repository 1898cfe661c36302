//! Non-blocking output: a slow terminal delays only its own frames.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc as asynchronous;

use super::modes::write;

/// Writes frames on its own thread, one at a time. The next frame is made only after the previous one was written, so
/// that a slow terminal shows fewer frames but no outdated ones.
#[derive(Debug)]
pub(crate) struct Output {
    frames: mpsc::Sender<Vec<u8>>,
    done: asynchronous::UnboundedReceiver<io::Result<()>>,
    busy: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        let (frames, to_write) = mpsc::channel::<Vec<u8>>();
        let (report, done) = asynchronous::unbounded_channel();
        thread::spawn(move || {
            for frame in to_write {
                if report.send(write(&frame)).is_err() {
                    return;
                }
            }
        });
        Self { frames, done, busy: false }
    }

    /// Returns whether a frame is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts to write a frame.
    pub(crate) fn write(&mut self, frame: Vec<u8>) {
        if !frame.is_empty() {
            self.busy = self.frames.send(frame).is_ok();
        }
    }

    /// Waits until the frame in flight is written, if there is one.
    pub(crate) async fn written_if_busy(&mut self) {
        if self.busy {
            // The next frame reports write errors.
            let _ = self.written().await;
        }
    }

    /// Waits until the frame in flight is written. Pends forever if there is none.
    pub(crate) async fn written(&mut self) -> io::Result<()> {
        if !self.busy {
            return std::future::pending().await;
        }
        let written = self.done.recv().await;
        self.busy = false;
        written.unwrap_or(Ok(()))
    }
}
