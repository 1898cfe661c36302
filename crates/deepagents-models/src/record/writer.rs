//! The thread that writes a recording, so that no executor waits for a disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::RecordingError;

type MakeLine = Box<dyn FnOnce() -> Result<String, serde_json::Error> + Send>;
type Done = oneshot::Sender<Result<(), Arc<io::Error>>>;

enum Job {
    Line(MakeLine),
    Flush,
}

/// Writes lines on a thread of its own, in the order in which they are handed over; each is flushed at once. After a
/// failed write nothing more is written. Clones write to the same place; the thread ends when the last one is gone and
/// everything is written.
#[derive(Clone, Debug)]
pub struct LineWriter {
    jobs: mpsc::Sender<(Job, Option<Done>)>,
}

impl LineWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when it cannot be started.
    pub fn start(sink: impl Write + Send + 'static) -> Result<Self, RecordingError> {
        let (jobs, queue) = mpsc::channel();
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || write_all(sink, &queue))
            .map_err(RecordingError::Write)?;
        Ok(Self { jobs })
    }

    /// Starts the thread on a new file.
    ///
    /// # Errors
    /// [`RecordingError::Open`] when the file cannot be created, also because it exists already.
    pub async fn create(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        Self::start(create(path.into()).await?)
    }

    /// Hands over a line, to be made, without its line break, on the writing thread. Does not wait.
    pub fn submit(&self, line: impl FnOnce() -> Result<String, serde_json::Error> + Send + 'static) {
        self.send(Job::Line(Box::new(line)), None);
    }

    /// Waits until everything handed over so far is with the sink.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when any of it could not be written.
    pub async fn flush(&self) -> Result<(), RecordingError> {
        let flushed = self.run(Job::Flush).await;
        flushed.map_err(|error| RecordingError::Write(io::Error::new(error.kind(), error.to_string())))
    }

    /// Writes a line and waits until the sink has it.
    pub(super) async fn write(
        &self,
        line: impl FnOnce() -> Result<String, serde_json::Error> + Send + 'static,
    ) -> Result<(), Arc<io::Error>> {
        self.run(Job::Line(Box::new(line))).await
    }

    async fn run(&self, job: Job) -> Result<(), Arc<io::Error>> {
        let (done, written) = oneshot::channel();
        self.send(job, Some(done));
        written.await.unwrap_or_else(|_| Err(Arc::new(io::Error::other("the recorder's thread has ended"))))
    }

    fn send(&self, job: Job, done: Option<Done>) {
        // A closed channel drops `done` with the job, which is how the waiting side learns of it.
        let _ = self.jobs.send((job, done));
    }
}

/// A new file for its owner alone, as it holds whole prompts and files; recordings are not overwritten.
#[allow(clippy::disallowed_methods, reason = "a recorder opens the one file it is given")]
pub(super) async fn create(path: PathBuf) -> Result<File, RecordingError> {
    let at = path.clone();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = tokio::task::spawn_blocking(move || options.open(at)).await;
    opened.map_err(io::Error::other).and_then(|file| file).map_err(|source| RecordingError::Open { path, source })
}

fn write_all(mut sink: impl Write, queue: &mpsc::Receiver<(Job, Option<Done>)>) {
    let mut state: Result<(), Arc<io::Error>> = Ok(());
    while let Ok((job, done)) = queue.recv() {
        // After a failed write the last line may be incomplete: nothing is added to it.
        if state.is_ok() {
            state = perform(&mut sink, job).map_err(Arc::new);
        }
        if let Some(done) = done {
            let _ = done.send(state.clone());
        }
    }
}

fn perform(sink: &mut impl Write, job: Job) -> io::Result<()> {
    let mut text = match job {
        Job::Flush => return sink.flush(),
        Job::Line(line) => line()?,
    };
    text.push('\n');
    sink.write_all(text.as_bytes())?;
    sink.flush()
}
