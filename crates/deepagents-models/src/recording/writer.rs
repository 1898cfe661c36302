//! Writes a recording on a separate thread, so that no executor waits for a disk.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use serde::Serialize;
use tokio::sync::oneshot;

use super::RecordingError;

type Written = Result<(), Arc<io::Error>>;

enum Job {
    Line(Box<dyn FnOnce() -> serde_json::Result<Vec<u8>> + Send>),
    Flush(oneshot::Sender<Written>),
}

/// Writes lines on a separate thread in the order submitted, flushing each immediately. After a failed write, nothing
/// more is written. Clones write to the same sink; the thread ends when the last clone is dropped and everything is
/// written.
#[derive(Clone, Debug)]
pub struct LineWriter {
    jobs: mpsc::Sender<Job>,
}

impl LineWriter {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// Returns [`RecordingError::Write`] if the thread cannot be started.
    pub fn new(sink: impl Write + Send + 'static) -> Result<Self, RecordingError> {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        thread.spawn(move || write_all(sink, &queue)).map_err(RecordingError::Write)?;
        Ok(Self { jobs })
    }

    /// Starts the writing thread on a new file that only its owner can access, as it contains complete prompts and
    /// files.
    ///
    /// # Errors
    /// Returns [`RecordingError::Open`] if the file cannot be created, or already exists: recordings are not
    /// overwritten.
    #[allow(clippy::disallowed_methods, reason = "a recorder opens the one file it is given")]
    pub async fn create(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        let path = path.into();
        let at = path.clone();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = tokio::task::spawn_blocking(move || options.open(at)).await;
        let file = opened.map_err(io::Error::other).and_then(|file| file);
        Self::new(file.map_err(|source| RecordingError::Open { path, source })?)
    }

    /// Submits a line, to be serialised on the writing thread. Does not wait.
    pub fn submit<T: Serialize>(&self, line: impl FnOnce() -> T + Send + 'static) {
        // If the thread has ended, `flush` reports that.
        let _ = self.jobs.send(Job::Line(Box::new(move || serde_json::to_vec(&line()))));
    }

    /// Waits until everything submitted so far is written to the sink.
    ///
    /// # Errors
    /// Returns [`RecordingError::Write`] if any of it could not be written.
    pub async fn flush(&self) -> Result<(), RecordingError> {
        let (done, written) = oneshot::channel();
        let _ = self.jobs.send(Job::Flush(done));
        let written =
            written.await.unwrap_or_else(|_| Err(Arc::new(io::Error::other("the recorder's thread has stopped"))));
        written.map_err(|error| RecordingError::Write(io::Error::new(error.kind(), error.to_string())))
    }
}

fn write_all(mut sink: impl Write, queue: &mpsc::Receiver<Job>) {
    let mut write = |line: serde_json::Result<Vec<u8>>| -> io::Result<()> {
        let mut line = line?;
        line.push(b'\n');
        sink.write_all(&line)?;
        sink.flush()
    };
    let mut written: Written = Ok(());
    while let Ok(job) = queue.recv() {
        match job {
            // After a failed write, the last line may be incomplete, so nothing is appended.
            Job::Line(line) if written.is_ok() => written = write(line()).map_err(Arc::new),
            Job::Line(_) => {}
            Job::Flush(done) => drop(done.send(written.clone())),
        }
    }
}
