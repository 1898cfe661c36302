//! A single model call: sends it, reads the response, and retries.

mod reading;
mod retry;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::{ModelError, ModelEvent, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::stream;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error::{authority, compressed, from_body, from_transport, header, page, request_id};
use super::hosts::Slot;
use super::size::{self, StreamSize};
use super::{Endpoint, FrameDecoder, Wire};
use crate::body::RequestBody;
use crate::credentials::Credential;
use crate::decoded::Decoded;
use crate::hook::Attempt;
use crate::retry::{BackoffKey, HoldId};
use reading::Reading;

/// Calls a model. Dropping the stream cancels the call.
pub(crate) fn call(
    endpoint: Arc<Endpoint>,
    wire: Arc<dyn Wire>,
    request: ModelRequest,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let call = Call {
        endpoint,
        wire,
        timeout: request.settings.timeout,
        headers: request.headers.clone(),
        state: State::New(Box::new(request)),
        body: RequestBody::default(),
        queue: VecDeque::new(),
        scratch: Vec::new(),
        credential: None,
        renewed: false,
        may_help: None,
        failures: 0,
        retries: 0,
        hold: None,
        probes: None,
        slot: None,
        began: Instant::now(),
        sent: Instant::now(),
    };
    Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|item| (item, call)) }))
}

struct Call {
    endpoint: Arc<Endpoint>,
    wire: Arc<dyn Wire>,
    timeout: Option<Duration>,
    /// Headers of this call only.
    headers: Vec<(String, String)>,
    state: State,
    /// Request body, built once for all attempts.
    body: RequestBody,
    queue: VecDeque<ModelEvent>,
    scratch: Vec<ModelEvent>,
    /// Credential of the last attempt.
    credential: Option<Credential>,
    /// Whether a rejected credential was replaced, which is done once.
    renewed: bool,
    /// Whether the server said that a retry of its last error helps or does not.
    may_help: Option<bool>,
    failures: u32,
    /// Number of retries taken from the key's budget.
    retries: u32,
    /// Hold on other calls while this one waits.
    hold: Option<(BackoffKey, HoldId)>,
    /// The key whose calls are held back, while this one is sent nevertheless.
    probes: Option<BackoffKey>,
    /// Permission to send, from before the request is encoded until its response has been read or it backs off.
    slot: Option<Slot>,
    /// When the call began, from which its own timeout counts.
    began: Instant,
    /// When it was first sent, later by the time that it waited for its turn since: the time for retries counts from it.
    sent: Instant,
}

enum State {
    New(Box<ModelRequest>),
    /// Send at this time.
    Backoff(Instant),
    Reading(Box<Reading>),
    Done,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(Ok(event));
            }
            let deadline = self.deadline();
            let stepped = match &self.state {
                State::Done => return None,
                _ => match deadline {
                    Some(at) => timeout_at(at, self.step()).await.unwrap_or_else(|_| Err(self.too_late())),
                    None => self.step().await,
                },
            };
            if let Err(error) = stepped {
                let error = self.endpoint.redacted(error, self.credential.as_ref(), &self.headers);
                // What fails before there is a body has not reached the server, and would fail again.
                let is_unsent = matches!(self.state, State::New(_));
                let pause = if is_unsent { None } else { self.pause_after(&error) };
                match pause {
                    Some(after) => self.back_off(error, after),
                    None => {
                        // Output before the error is void, so discard it and return the error.
                        self.queue.clear();
                        self.state = State::Done;
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    fn deadline(&mut self) -> Option<Instant> {
        if matches!(self.state, State::New(_)) {
            self.began = Instant::now();
        }
        self.timeout.and_then(|limit| self.began.checked_add(limit))
    }

    fn too_late(&self) -> ModelError {
        let limit = self.timeout.unwrap_or_default();
        ModelError::transport(format!("the call took longer than the {limit:?} it was given (settings.timeout)"))
    }

    /// Completes the response.
    fn finish(&mut self, decoded: Decoded) {
        let backoff = &self.endpoint.backoff;
        backoff.succeeded(self.endpoint.backoff_key, self.retries);
        self.probes.into_iter().for_each(|key| backoff.probe_succeeded(key));
        self.queue.push_back(ModelEvent::Finished(Box::new(decoded.of(&*self.wire).output)));
        self.state = State::Done;
    }

    async fn step(&mut self) -> Result<(), ModelError> {
        match &mut self.state {
            State::New(request) => {
                self.wire.prepare(&self.endpoint).await;
                // No request is encoded before its first turn, so calls that wait need little memory.
                let slot = self.endpoint.slot().await?;
                self.sent = Instant::now();
                self.body = self.wire.encode(request, self.endpoint.streaming)?;
                self.slot = Some(slot);
                self.state = State::Backoff(Instant::now());
            }
            State::Backoff(until) => {
                // A timer takes a millisecond even if it is already due.
                if *until > Instant::now() {
                    sleep_until(*until).await;
                }
                let slot = match self.slot.take() {
                    Some(slot) => slot,
                    None => {
                        let waits = Instant::now();
                        let slot = self.endpoint.slot().await?;
                        self.sent += waits.elapsed();
                        slot
                    }
                };
                match self.shared_wait()? {
                    Some((error, after)) => self.back_off(error, after),
                    None => self.send(slot).await?,
                }
            }
            State::Reading(_) => self.read().await?,
            State::Done => {}
        }
        Ok(())
    }

    /// Waits this long before the next attempt.
    fn back_off(&mut self, error: ModelError, after: Duration) {
        self.slot = None;
        self.state = State::Backoff(Instant::now() + after);
        self.queue.push_back(ModelEvent::Retry { error, after });
    }

    async fn send(&mut self, slot: Slot) -> Result<(), ModelError> {
        let endpoint = Arc::clone(&self.endpoint);
        let url = &endpoint.url;
        let client = endpoint.client(&slot).await?;
        let limit = if endpoint.streaming { endpoint.timeouts.first_byte } else { endpoint.timeouts.answer };
        let until = Instant::now().checked_add(limit);
        let slow = || ModelError::transport(format!("{} did not answer within {limit:?}", authority(url)));
        self.credential = within(until, endpoint.credential(), || late_credential(limit)).await??;
        self.may_help = None;
        let attempt = Attempt { url, number: self.failures + 1, body_len: self.body.len() };
        let headers = endpoint.headers(self.credential.as_ref(), &attempt, &self.headers, &self.body)?;
        let began = Instant::now();
        let sent = client.post(url.clone()).headers(headers).body(self.body.clone()).send();
        let response =
            within(until, sent, slow).await?.map_err(|error| from_transport(&error, url, endpoint.proxy()))?;
        let status = response.status();
        let headers = response.headers();
        endpoint.answered(&attempt, status, headers, began.elapsed());
        if !status.is_success() {
            self.may_help = header(headers, "x-should-retry").and_then(|word| word.parse().ok());
        }
        let request_id = request_id(headers);
        if let Some(why) = compressed(headers).filter(|_| status.is_success()) {
            return Err(with_request_id(ModelError::invalid(why), request_id));
        }
        if status.is_success()
            && endpoint.streaming
            && let Some(decoder) = FrameDecoder::detect(headers, b"")
        {
            let answer = self.wire.decoder();
            self.state = State::Reading(Box::new(Reading {
                response,
                _slot: slot,
                decoder,
                answer,
                size: StreamSize::default(),
                request_id,
                until,
            }));
            return Ok(());
        }
        let headers = headers.clone();
        // Boxed: most responses are streamed, and the future of their calls need not be this large.
        let body = Box::pin(within(until, size::body(response, url), slow)).await??;
        if !status.is_success() {
            return Err(from_body(status.as_u16(), &headers, &body));
        }
        if let Some(why) = page(&headers, &body, url) {
            return Err(with_request_id(ModelError::invalid(why), request_id));
        }
        let decoded = super::decode_recorded(&*self.wire, status.as_u16(), &headers, &body)
            .map_err(|error| with_request_id(error, request_id))?;
        self.whole(decoded);
        Ok(())
    }
}

/// Waits until a point in time at most; `None` is later than any.
async fn within<T>(
    until: Option<Instant>,
    work: impl Future<Output = T>,
    late: impl FnOnce() -> ModelError,
) -> Result<T, ModelError> {
    match until {
        Some(at) => timeout_at(at, work).await.map_err(|_| late()),
        None => Ok(work.await),
    }
}

fn late_credential(limit: Duration) -> ModelError {
    ModelError::transport(format!("the source of the credential did not answer within {limit:?}"))
}

fn with_request_id(mut error: ModelError, id: Option<String>) -> ModelError {
    let known = &mut error.info_mut().request_id;
    *known = known.take().or(id);
    error
}
