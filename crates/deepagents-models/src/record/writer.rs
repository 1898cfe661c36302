//! The thread that writes a recording, so that no executor waits for a disk.

use std::io::{self, Write};
use std::sync::{Arc, mpsc};

use deepagents_core::model::{ModelError, ModelOutput, ModelRequest};
use tokio::sync::oneshot;

use super::RecordingError;
use super::format::{ErrorRecord, EventRecord, Exchange, Line, fingerprint, request_json};

/// An exchange on its way to the file; the request becomes JSON on the writing thread.
pub(super) struct Heard {
    pub(super) seq: u64,
    pub(super) request: ModelRequest,
    pub(super) events: Vec<EventRecord>,
    pub(super) output: Option<Box<ModelOutput>>,
    pub(super) error: Option<ErrorRecord>,
}

enum Job {
    Header(Box<Line>),
    Exchange(Box<Heard>),
    Flush,
}

type Done = oneshot::Sender<Result<(), Arc<io::Error>>>;

/// Clones write to the same recording; the thread ends when the last one is gone and everything is written.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<(Job, Option<Done>)>,
}

impl Writer {
    pub(super) fn start(sink: impl Write + Send + 'static, header: Line) -> Result<Self, RecordingError> {
        let (jobs, queue) = mpsc::channel();
        let writer = Self { jobs };
        writer.send(Job::Header(Box::new(header)), None);
        std::thread::Builder::new()
            .name("model-recorder".to_owned())
            .spawn(move || write_all(sink, &queue))
            .map_err(RecordingError::Write)?;
        Ok(writer)
    }

    /// Hands an exchange over without waiting for it to be written.
    pub(super) fn submit(&self, heard: Box<Heard>) {
        self.send(Job::Exchange(heard), None);
    }

    /// Writes an exchange and waits until the sink has it.
    pub(super) async fn write(&self, heard: Box<Heard>) -> Result<(), ModelError> {
        let written = self.run(Job::Exchange(heard)).await;
        written.map_err(|error| ModelError::invalid(format!("the exchange could not be recorded: {error}")))
    }

    /// Waits until everything handed over so far is with the sink.
    pub(super) async fn flush(&self) -> Result<(), io::Error> {
        self.run(Job::Flush).await.map_err(|error| io::Error::new(error.kind(), error.to_string()))
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
    let line = match job {
        Job::Flush => return sink.flush(),
        Job::Header(line) => *line,
        Job::Exchange(heard) => {
            let Heard { seq, request, events, output, error } = *heard;
            let request = request_json(&request);
            Line::Exchange(Exchange { seq, fingerprint: fingerprint(&request), request, events, output, error })
        }
    };
    let mut text = line.to_json()?;
    text.push('\n');
    sink.write_all(text.as_bytes())?;
    sink.flush()
}
