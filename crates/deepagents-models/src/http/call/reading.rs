//! Reads a response as it arrives.

use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::Response;
use tokio::time::{Instant, timeout};

use super::{Call, State, with_request_id, within};
use crate::decoded::Decoded;
use crate::events::events_of;
use crate::http::error::{authority, from_transport};
use crate::http::size::StreamSize;
use crate::http::{AnswerDecoder, Flow, FrameDecoder};

/// How long to wait for the rest of a response after its end frame, so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the call itself waits for that. Usually the rest arrives with the end frame, and the next call can reuse
/// the connection.
const INLINE_DRAIN_TIMEOUT: Duration = Duration::from_millis(5);

pub(super) struct Reading {
    pub(super) response: Response,
    pub(super) decoder: FrameDecoder,
    pub(super) answer: Box<dyn AnswerDecoder>,
    pub(super) size: StreamSize,
    pub(super) request_id: Option<String>,
    /// When the next bytes must arrive.
    pub(super) until: Instant,
}

impl Call {
    /// Handles a complete response.
    pub(super) fn whole(&mut self, decoded: Decoded) {
        self.queue.extend(events_of(&decoded.output.message, usize::MAX));
        self.finish(decoded.output);
        self.state = State::Done;
    }

    pub(super) async fn read(&mut self) -> Result<(), ModelError> {
        let State::Reading(reading) = &mut self.state else { return Ok(()) };
        let url = &self.endpoint.url;
        let silent =
            || ModelError::transport(format!("{} stopped sending in the middle of its answer", authority(url)));
        let chunk = within(reading.until, reading.response.chunk(), silent).await;
        reading.until = Instant::now() + self.endpoint.timeouts.idle;
        let broke = match chunk {
            Ok(Ok(Some(bytes))) => {
                reading.size.add(bytes.len());
                reading.decoder.push(&bytes);
                None
            }
            Ok(Ok(None)) => Some(None),
            Ok(Err(error)) => Some(Some(ModelError::Truncated(from_transport(&error, url, None).info().clone()))),
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
                // A frame cut off by the end of the stream cannot be parsed; report the truncation.
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
            // The response may be complete without an end frame. If it is not, report the broken connection.
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

/// Reads the data after the end frame, so that the connection returns to the pool.
async fn drain(mut reading: Box<Reading>) {
    if timeout(INLINE_DRAIN_TIMEOUT, rest(&mut reading.response)).await.is_err() {
        tokio::spawn(async move { timeout(DRAIN_TIMEOUT, rest(&mut reading.response)).await });
    }
}

async fn rest(response: &mut Response) {
    while let Ok(Some(_)) = response.chunk().await {}
}
