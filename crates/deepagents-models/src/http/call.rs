//! One call of a model: sending, reading, and trying again.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::{ErrorInfo, ModelError, ModelEvent, ModelOutput, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::stream;
use reqwest::Response;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::{REQUEST_ID, authority, compressed, from_body, from_transport, page};
use super::size::{self, StreamSize};
use super::{AnswerDecoder, Endpoint, Flow, FrameDecoder, Framing, Wire};
use crate::body::RequestBody;
use crate::credentials::Credential;
use crate::decoded::Decoded;
use crate::events::events_of;
use crate::hook::Attempt;

/// How long the rest of an answer may take to arrive after its end frame, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(500);
/// How long the call waits for that itself. Mostly the rest came with the end frame, and the next call finds the connection.
const DRAIN_AT_ONCE: Duration = Duration::from_millis(5);
/// Calls that waited for a shared backoff start within this time of each other.
const SPREAD: Duration = Duration::from_millis(250);

/// Calls a model. Dropping the stream ends the call.
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
        failures: 0,
        retries: 0,
        began: Instant::now(),
    };
    Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|item| (item, call)) }))
}

struct Call {
    endpoint: Arc<Endpoint>,
    wire: Arc<dyn Wire>,
    timeout: Option<Duration>,
    /// Headers of this call alone.
    headers: Vec<(String, String)>,
    state: State,
    /// The request's body, built once for all attempts.
    body: RequestBody,
    queue: VecDeque<ModelEvent>,
    scratch: Vec<ModelEvent>,
    /// What the last attempt was sent with.
    credential: Option<Credential>,
    /// Whether a refused credential was exchanged for another one; that is done once.
    renewed: bool,
    failures: u32,
    /// Retries that were taken out of the budget of the key.
    retries: u32,
    began: Instant,
}

enum State {
    New(Box<ModelRequest>),
    /// Ready to send at this moment.
    Backoff(Instant),
    Reading(Box<Reading>),
    Done,
}

struct Reading {
    response: Response,
    decoder: FrameDecoder,
    answer: Box<dyn AnswerDecoder>,
    size: StreamSize,
    request_id: Option<String>,
    /// Until when the next bytes must come.
    until: Instant,
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
                let error = self.redacted(error);
                match self.pause_after(&error) {
                    Some(after) => {
                        self.state = State::Backoff(Instant::now() + after);
                        self.queue.push_back(ModelEvent::Retry { error, after });
                    }
                    None => {
                        // What was read before the error is void, so the error comes first.
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

    /// Takes the key out of an error, should a provider or library have put it there.
    fn redacted(&self, mut error: ModelError) -> ModelError {
        if let Some(credential) = &self.credential {
            let info = error.info_mut();
            credential.redact(&mut info.message);
            info.code.iter_mut().chain(&mut info.request_id).for_each(|text| credential.redact(text));
        }
        error
    }

    /// Whether a credential that was refused is exchanged for another one.
    fn renews(&mut self, error: &ModelError) -> bool {
        if self.renewed || error.info().status != Some(401) {
            return false;
        }
        let credentials = self.endpoint.credentials.as_ref().zip(self.credential.as_ref());
        self.renewed = credentials.is_some_and(|(credentials, refused)| credentials.renew(refused));
        self.renewed
    }

    /// How long to wait before the next attempt, or `None` when there is none.
    fn pause_after(&mut self, error: &ModelError) -> Option<Duration> {
        self.failures += 1;
        let now = Instant::now();
        let (endpoint, policy) = (&self.endpoint, &self.endpoint.retry);
        let asked = error.info().retry_after;
        let after = asked.unwrap_or_else(|| policy.pause(self.failures));
        let next = now.checked_add(after);
        // A limit is that of the key, so other calls run into it too, also where the server does not say for how long.
        let holds = match error {
            ModelError::RateLimited(_) => true,
            ModelError::Overloaded(_) => asked.is_some(),
            _ => false,
        };
        if let Some(until) = next.filter(|_| holds) {
            endpoint.backoff.hold(endpoint.backoff_key, until);
        }
        if self.renews(error) {
            return Some(Duration::ZERO);
        }
        let (endpoint, policy) = (&self.endpoint, &self.endpoint.retry);
        if !error.is_retryable() || self.failures >= policy.max_attempts {
            return None;
        }
        let waited = next?.duration_since(self.began);
        let in_time = waited <= policy.budget && self.timeout.is_none_or(|limit| waited < limit);
        if !in_time || !endpoint.backoff.take_retry(endpoint.backoff_key) {
            return None;
        }
        self.retries += 1;
        Some(after)
    }

    /// The answer is whole.
    fn finish(&mut self, output: ModelOutput) {
        self.endpoint.backoff.succeeded(self.endpoint.backoff_key, self.retries);
        self.queue.push_back(ModelEvent::Finished(Box::new(output)));
    }

    async fn step(&mut self) -> Result<(), ModelError> {
        match &mut self.state {
            State::New(request) => {
                self.wire.prepare(&self.endpoint).await?;
                self.body = self.wire.encode(request, self.endpoint.streaming)?;
                self.state = State::Backoff(Instant::now());
            }
            State::Backoff(until) => {
                // A timer costs a millisecond even when it is due.
                if *until > Instant::now() {
                    sleep_until(*until).await;
                }
                match held(&self.endpoint, self.began)? {
                    Some((error, after)) => {
                        self.state = State::Backoff(Instant::now() + after);
                        self.queue.push_back(ModelEvent::Retry { error, after });
                    }
                    None => self.send().await?,
                }
            }
            State::Reading(_) => self.read().await?,
            State::Done => {}
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), ModelError> {
        let endpoint = Arc::clone(&self.endpoint);
        let url = &endpoint.url;
        let client = endpoint.client().await?;
        let limit = if endpoint.streaming { endpoint.timeouts.first_byte } else { endpoint.timeouts.answer };
        let until = Instant::now() + limit;
        let slow = || ModelError::transport(format!("{} did not answer within {limit:?}", authority(url)));
        self.credential = match &endpoint.credentials {
            Some(credentials) => Some(credentials.get().await?),
            None => None,
        };
        let attempt = Attempt { url, number: self.failures + 1, body_len: self.body.len() };
        let headers = endpoint.headers(self.credential.as_ref(), &attempt, &self.headers, &self.body)?;
        let began = Instant::now();
        let sent = client.post(url.clone()).headers(headers).body(self.body.clone()).send();
        let response = within(until, sent, slow).await?.map_err(|error| from_transport(&error, url))?;
        let status = response.status();
        let headers = response.headers();
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        endpoint.answered(&attempt, status, headers, began.elapsed());
        let request_id = REQUEST_ID.iter().find_map(|name| header(name));
        if let Some(why) = compressed(headers).filter(|_| status.is_success()) {
            return Err(with_request_id(ModelError::invalid(why), request_id));
        }
        if status.is_success()
            && endpoint.streaming
            && let Some(framing) = Framing::detect(headers, b"")
        {
            let (decoder, answer) = (FrameDecoder::new(framing), self.wire.answer_decoder());
            self.state = State::Reading(Box::new(Reading {
                response,
                decoder,
                answer,
                size: StreamSize::default(),
                request_id,
                until,
            }));
            return Ok(());
        }
        let headers = headers.clone();
        let body = within(until, size::body(response, url), slow).await??;
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

    /// The answer came in one piece.
    fn whole(&mut self, decoded: Decoded) {
        self.queue.extend(events_of(&decoded.output.message, usize::MAX));
        self.finish(decoded.output);
        self.state = State::Done;
    }

    async fn read(&mut self) -> Result<(), ModelError> {
        let State::Reading(reading) = &mut self.state else { return Ok(()) };
        let url = &self.endpoint.url;
        let silent = || ModelError::transport(format!("{} fell silent in the middle of its answer", authority(url)));
        let chunk = within(reading.until, reading.response.chunk(), silent).await;
        reading.until = Instant::now() + self.endpoint.timeouts.idle;
        let broke = match chunk {
            Ok(Ok(Some(bytes))) => {
                reading.size.add(bytes.len());
                reading.decoder.push(&bytes);
                None
            }
            Ok(Ok(None)) => Some(None),
            Ok(Err(error)) => Some(Some(ModelError::Truncated(from_transport(&error, url).info().clone()))),
            Err(error) => Some(Some(error)),
        };
        let ended = broke.is_some();
        if ended {
            reading.decoder.end();
        }
        let mut flow = Flow::More;
        let mut result = Ok(());
        while flow == Flow::More {
            let next = match reading.decoder.next() {
                Ok(Some(frame)) => {
                    let next = reading.answer.event(&frame.name, &frame.data, &mut self.scratch);
                    reading.size.event(&self.scratch);
                    self.queue.extend(self.scratch.drain(..));
                    next
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match next {
                Ok(next) => flow = next,
                // A frame that was cut in two by the end of the stream cannot be read: the cut is the fault.
                Err(ModelError::Protocol(info)) if ended => {
                    result = Err(ModelError::Truncated(info));
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if flow == Flow::More && !ended {
            result = result.and_then(|()| reading.size.check());
        }
        let in_vain = ended && flow == Flow::More && result.is_ok();
        if let Some(outside) = in_vain.then(|| reading.decoder.outside(&*self.wire)).flatten() {
            let decoded = outside.map_err(|error| with_request_id(error, reading.request_id.take()))?;
            self.whole(decoded);
            return Ok(());
        }
        let result = result.and_then(|()| match broke {
            None if flow == Flow::More => Ok(None),
            // An answer may be whole although its end frame is missing; if it is not, the break is the fault.
            Some(Some(error)) => reading.answer.finish().map(Some).map_err(|_| error),
            _ => reading.answer.finish().map(Some),
        });
        if let Some(decoded) = result.map_err(|error| with_request_id(error, reading.request_id.take()))? {
            self.finish(decoded.output);
            if let State::Reading(reading) = std::mem::replace(&mut self.state, State::Done)
                && !ended
            {
                drain(reading).await;
            }
        }
        Ok(())
    }
}

/// How long the call waits because another one with the same key was told to, and what is told of that: a wait of
/// minutes must not look like a model that is slow.
fn held(endpoint: &Endpoint, began: Instant) -> Result<Option<(ModelError, Duration)>, ModelError> {
    let Some(opens) = endpoint.backoff.until(endpoint.backoff_key) else { return Ok(None) };
    let now = Instant::now();
    let error = ModelError::RateLimited(ErrorInfo {
        message: "another call with this key was told to wait".to_owned(),
        retry_after: Some(opens.duration_since(now)),
        ..ErrorInfo::default()
    });
    if opens.duration_since(began) > endpoint.retry.budget {
        return Err(error);
    }
    Ok(Some((error, opens.duration_since(now) + SPREAD.mul_f64(fastrand::f64()))))
}

/// Reads what follows the end frame, so that the connection goes back to the pool.
async fn drain(mut reading: Box<Reading>) {
    if timeout(DRAIN_AT_ONCE, rest(&mut reading.response)).await.is_err() {
        tokio::spawn(async move { timeout(DRAIN, rest(&mut reading.response)).await });
    }
}

async fn rest(response: &mut Response) {
    while let Ok(Some(_)) = response.chunk().await {}
}

async fn within<T>(
    until: Instant,
    work: impl Future<Output = T>,
    late: impl FnOnce() -> ModelError,
) -> Result<T, ModelError> {
    timeout_at(until, work).await.map_err(|_| late())
}

fn with_request_id(mut error: ModelError, id: Option<String>) -> ModelError {
    let known = &mut error.info_mut().request_id;
    *known = known.take().or(id);
    error
}
