//! The LangGraph API, which includes the Agent Protocol.
//!
//! A piece of work is a remote thread, whose id is derived from the call, with one run for the task and one for each
//! round of answers. The metadata of a run contains the key of the call and the number of the round, so that a run
//! started by a process that has ended can be found again. Events are read from the stream of the run; another process
//! reads the stream from its start. A server without such streams is polled for the status of the run.

mod api;
mod events;
mod outcome;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::{Work, WorkError};
use crate::error::RemoteError;
use crate::http::{Failure, Http, Polling};
use crate::progress::Progress;
use crate::questions::RemoteInterrupt;
use crate::sse::SseReader;
use api::Api;
use events::Events;
use outcome::RunResult;

/// The key in the local log of the questions of each round.
const INTERRUPTS_KEY: &str = "pauses";
/// The key in the local log of the current run.
const RUN: &str = "run";
/// The key in the local log of the run that is about to be started.
const BEGINNING: &str = "beginning";

/// An agent of a LangGraph server.
pub(crate) struct LangGraph {
    api: Api,
}

/// A run, as recorded in the local log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnownRun {
    round: usize,
    id: String,
}

impl LangGraph {
    pub(crate) fn new(http: Http, assistant: String) -> Self {
        Self { api: Api::new(http, assistant) }
    }

    /// Does the work and returns the agent's last message.
    pub(crate) async fn work(&self, work: &Work<'_>) -> Result<String, WorkError> {
        let (scope, thread) = (work.scope, work.conversation.clone());
        let mut pauses: Vec<Vec<RemoteInterrupt>> = work.recorded(INTERRUPTS_KEY).unwrap_or_default();
        let mut input = json!({"input": {"messages": [{"role": "user", "content": work.description}]}});
        // The questions of earlier rounds are answered; those of the last may still be pending.
        for asked in &pauses {
            input = json!({"command": {"resume": work.ask(asked).await?.1}});
        }
        if scope.recorded(RUN).is_none() {
            self.api.make_thread(&thread, work.key.as_str()).await?;
        }
        loop {
            let run = self.begin(work, &thread, pauses.len(), input).await?;
            let mut progress = Progress::of_round(scope, pauses.len());
            let error = self.follow(&thread, &run, &mut progress).await?;
            match self.run_result(&thread, &run, error, &mut progress).await? {
                RunResult::Done(text) => return Ok(text),
                RunResult::Waits(asked) => {
                    pauses.push(asked.clone());
                    scope.record(INTERRUPTS_KEY, json!(pauses)).await?;
                    input = json!({"command": {"resume": work.ask(&asked).await?.1}});
                }
            }
        }
    }

    /// Returns the run of a round: the one already started, or a new one. The log records it before it is started.
    async fn begin(&self, work: &Work<'_>, thread: &str, round: usize, input: Value) -> Result<String, WorkError> {
        let scope = work.scope;
        if let Some(known) = work.recorded::<KnownRun>(RUN).filter(|known| known.round == round) {
            return Ok(known.id);
        }
        let key = format!("{}#{round}", work.key);
        let mut in_doubt = scope.recorded(BEGINNING).is_some_and(|begun| begun == json!(key));
        if !in_doubt {
            if work.continues && round == 0 {
                self.api.end_open_runs(thread).await?;
            }
            scope.record(BEGINNING, key.as_str()).await?;
        }
        let mut tries = self.api.http.tries();
        let run = loop {
            if in_doubt && let Some(run) = self.api.find_run(thread, &key).await? {
                break run;
            }
            match self.api.create_run(thread, &key, &input).await {
                Ok(run) => break run,
                Err(failure) => {
                    in_doubt = true;
                    // An earlier request may have arrived in the meantime; then the thread is busy with its run.
                    let is_busy = failure.status() == Some(409);
                    let busy = || Failure::Away { reason: "the thread is busy".to_owned(), after: None };
                    tries.again(if is_busy { busy() } else { failure }).await?;
                }
            }
        };
        scope.record(RUN, json!(KnownRun { round, id: run.clone() })).await?;
        Ok(run)
    }

    /// Reads the events of a run until it ends, reconnecting as needed. Returns the error that the stream reported, if
    /// any.
    async fn follow(&self, thread: &str, run: &str, progress: &mut Progress<'_>) -> Result<Option<String>, WorkError> {
        let mut events = Events::new(progress);
        let mut last: Option<String> = None;
        let (mut tries, mut polling) = (self.api.http.tries(), Polling::new());
        loop {
            let opened = self.api.open_stream(thread, run, last.as_deref().unwrap_or("-1")).await;
            match opened {
                Ok(mut body) => {
                    let mut reader = SseReader::default();
                    while let Some(bytes) = body.next().await {
                        let read =
                            reader.push(&bytes).map_err(|error| self.api.http.unreadable("the stream", &error))?;
                        for event in read {
                            events.take(&event.name, &event.data).await?;
                            last = event.id.or(last);
                            polling = Polling::new();
                        }
                    }
                    if !self.api.run_status(thread, run).await?.is_open() {
                        return Ok(events.error);
                    }
                    // The server responds, even if its stream ends early.
                    tries.progressed();
                    polling.pause().await;
                }
                Err(failure) if matches!(failure.status(), Some(404 | 405 | 501)) => {
                    self.poll(thread, run).await?;
                    return Ok(events.error);
                }
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    /// Waits for the end of a run on a server without resumable streams.
    async fn poll(&self, thread: &str, run: &str) -> Result<(), RemoteError> {
        let mut polling = Polling::new();
        while self.api.run_status(thread, run).await?.is_open() {
            polling.pause().await;
        }
        Ok(())
    }

    async fn run_result(
        &self,
        thread: &str,
        run: &str,
        error: Option<String>,
        progress: &mut Progress<'_>,
    ) -> Result<RunResult, WorkError> {
        let status = self.api.run_status(thread, run).await?;
        let state = self.api.thread(thread).await?;
        outcome::account(&state, progress).await?;
        let failed = match error {
            None if status.0 == "error" => self.api.run_error(thread, run).await,
            error => error,
        };
        Ok(outcome::run_result(&self.api.http.host, &status, &state, failed)?)
    }

    /// Cancels the run of the work.
    pub(crate) async fn cancel(&self, work: &Work<'_>) -> Option<()> {
        let thread = work.conversation.as_str();
        let run = self.current(work, thread).await?;
        self.api.cancel_run(thread, &run, false).await.ok()
    }

    /// Returns the current run, or `None` if none was started or the server does not say. If the response to its creation
    /// has not arrived, waits for the run to appear.
    async fn current(&self, work: &Work<'_>, thread: &str) -> Option<String> {
        let key: String = work.recorded(BEGINNING)?;
        let known: Option<KnownRun> = work.recorded(RUN);
        if let Some(known) = known.filter(|known| key == format!("{}#{}", work.key, known.round)) {
            return Some(known.id);
        }
        loop {
            if let Some(run) = self.api.find_run(thread, &key).await.ok()? {
                return Some(run);
            }
            // There is little time, so the pauses do not grow.
            Polling::new().pause().await;
        }
    }
}
