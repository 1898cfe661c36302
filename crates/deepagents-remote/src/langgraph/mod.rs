//! The LangGraph API, and the Agent Protocol, which is a part of it.
//!
//! A piece of work is a thread over there whose id follows from the call, and a run on it for the task and for each round of
//! answers. A run carries the key of the call and its number in its metadata: one that was begun by a process that ended is
//! found again by it. Its events are read from the stream of the run, from the start where another process had begun to; a
//! server without such streams is asked how the run stands.

mod api;
mod events;
mod outcome;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::{Work, WorkError};
use crate::error::RemoteError;
use crate::http::{Failure, Http};
use crate::progress::Progress;
use crate::questions::{self, RemoteInterrupt};
use crate::sse::SseReader;
use api::Api;
use events::Events;
use outcome::RunResult;

/// The key in our log of what waits for answers, round by round.
const PAUSES: &str = "pauses";
/// The key in our log of the run that is under way.
const RUN: &str = "run";
/// The key in our log of the run that is about to be begun.
const BEGINNING: &str = "beginning";
/// How long the server is given to take a cancellation: the call has three seconds in all.
const CANCEL: Duration = Duration::from_secs(2);
/// How often a server without streams is asked, at first and at last.
const POLLS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A server of this kind, and which of its agents is meant.
pub(crate) struct LangGraph {
    api: Api,
}

/// A run as our log has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnownRun {
    round: usize,
    id: String,
}

impl LangGraph {
    pub(crate) fn new(http: Http, assistant: String) -> Self {
        Self { api: Api::new(http, assistant) }
    }

    /// Does the work, and gives what the agent said last.
    pub(crate) async fn work(&self, work: &Work<'_>) -> Result<String, WorkError> {
        let (scope, thread) = (work.scope, work.conversation.clone());
        let mut pauses: Vec<Vec<RemoteInterrupt>> = read(scope.recorded(PAUSES)).unwrap_or_default();
        let mut input = json!({"input": {"messages": [{"role": "user", "content": work.description}]}});
        // The questions of earlier rounds have their answers; the last one may still be without.
        for asked in &pauses {
            let answers = questions::ask(scope, asked).await?;
            input = json!({"command": {"resume": questions::resume_value(asked, &answers)}});
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
                    pauses.push(asked);
                    scope.record(PAUSES, json!(pauses)).await?;
                    let asked = pauses.last().map(Vec::as_slice).unwrap_or_default();
                    let answers = questions::ask(scope, asked).await?;
                    input = json!({"command": {"resume": questions::resume_value(asked, &answers)}});
                }
            }
        }
    }

    /// The run of a round: the one that was begun already, or a new one. It is noted before it is begun.
    async fn begin(&self, work: &Work<'_>, thread: &str, round: usize, input: Value) -> Result<String, WorkError> {
        let scope = work.scope;
        if let Some(known) = read::<KnownRun>(scope.recorded(RUN)).filter(|known| known.round == round) {
            return Ok(known.id);
        }
        let key = format!("{}#{round}", work.key);
        let mut in_doubt = scope.recorded(BEGINNING).is_some_and(|begun| begun == json!(key));
        if !in_doubt {
            if work.goes_on && round == 0 {
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
                // What was asked before may have come in meanwhile: then that is the run which the thread is busy with.
                Err(failure) if failure.status() == Some(409) => {
                    in_doubt = true;
                    tries.again(Failure::Away { reason: "the thread is busy".to_owned(), after: None }).await?;
                }
                Err(failure) => {
                    in_doubt = true;
                    tries.again(failure).await?;
                }
            }
        };
        scope.record(RUN, json!(KnownRun { round, id: run.clone() })).await?;
        Ok(run)
    }

    /// Reads the events of a run until it has ended, over as many connections as it takes. Gives the error that it ended
    /// with, if it told one.
    async fn follow(&self, thread: &str, run: &str, progress: &mut Progress<'_>) -> Result<Option<String>, WorkError> {
        let mut events = Events::new(progress);
        let mut last: Option<String> = None;
        let (mut tries, mut wait) = (self.api.http.tries(), POLLS.0);
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
                            wait = POLLS.0;
                        }
                    }
                    if !self.api.run_status(thread, run).await?.is_open() {
                        return Ok(events.error);
                    }
                    // The server is there, whatever its stream is good for.
                    tries.progressed();
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(POLLS.1);
                }
                Err(failure) if matches!(failure.status(), Some(404 | 405 | 501)) => {
                    self.poll(thread, run).await?;
                    return Ok(events.error);
                }
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    /// Waits for the end of a run of a server that has no streams to read again.
    async fn poll(&self, thread: &str, run: &str) -> Result<(), RemoteError> {
        let mut wait = POLLS.0;
        while self.api.run_status(thread, run).await?.is_open() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(POLLS.1);
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
        let failed = match (status.is_error(), error) {
            (true, None) => self.api.run_error(thread, run).await,
            (_, error) => error,
        };
        Ok(outcome::run_result(&self.api.http.host, &status, &state, failed)?)
    }

    /// Ends what runs for the work. What cannot be reached in time is left.
    pub(crate) async fn cancel(&self, work: &Work<'_>) {
        let thread = work.conversation.as_str();
        let ended = async {
            let run = self.current(work, thread).await?;
            self.api.cancel_run(thread, &run).await
        };
        // It is ended or cannot be: there is nobody left to be told.
        let _ = tokio::time::timeout(CANCEL, ended).await;
    }

    /// The run that is under way, also where the answer to the request for it has not come: then it may be about to begin.
    async fn current(&self, work: &Work<'_>, thread: &str) -> Result<String, RemoteError> {
        let known: Option<KnownRun> = read(work.scope.recorded(RUN));
        let beginning: Option<String> = read(work.scope.recorded(BEGINNING));
        loop {
            match (&known, &beginning) {
                (Some(known), Some(key)) if *key == format!("{}#{}", work.key, known.round) => {
                    return Ok(known.id.clone());
                }
                (_, Some(key)) => {
                    if let Some(run) = self.api.find_run(thread, key).await? {
                        return Ok(run);
                    }
                    tokio::time::sleep(POLLS.0).await;
                }
                (_, None) => return Err(RemoteError::Config("nothing was started".to_owned())),
            }
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: Option<Value>) -> Option<T> {
    value.and_then(|value| serde_json::from_value(value).ok())
}
