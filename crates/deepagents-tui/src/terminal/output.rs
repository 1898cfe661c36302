//! Writing without waiting: a terminal that takes its time holds up nothing but its own picture.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc as asynchronous;

/// Writes frames on a thread of its own, one at a time: while one is under way the next is not yet made, so that a slow
/// terminal is shown fewer frames and none that is out of date.
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
                let mut out = io::stdout().lock();
                let written = out.write_all(&frame).and_then(|()| out.flush());
                drop(out);
                if report.send(written).is_err() {
                    return;
                }
            }
        });
        Self { frames, done, busy: false }
    }

    /// Whether a frame is being written.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins to write a frame.
    pub(crate) fn write(&mut self, frame: Vec<u8>) {
        if !frame.is_empty() {
            self.busy = self.frames.send(frame).is_ok();
        }
    }

    /// Waits until the frame is written, if there is one.
    pub(crate) async fn written_if_busy(&mut self) {
        if self.busy {
            // What cannot be written is found out by the next frame.
            let _ = self.written().await;
        }
    }

    /// Waits until the frame is written; for ever where there is none.
    pub(crate) async fn written(&mut self) -> io::Result<()> {
        if !self.busy {
            return std::future::pending().await;
        }
        let written = self.done.recv().await;
        self.busy = false;
        written.unwrap_or(Ok(()))
    }
}
