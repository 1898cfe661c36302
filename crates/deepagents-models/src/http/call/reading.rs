//! Reads a response as it arrives.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use deepagents_core::model::{ModelError, ModelEvent};
use reqwest::Response;
use tokio::time::{Instant, timeout};

use super::{Call, State, with_request_id, within};
use crate::decoded::Decoded;
use crate::events::events_of;
use crate::http::error::{authority, from_transport};
use crate::http::hosts::Slot;
use crate::http::size::StreamSize;
use crate::http::{AnswerDecoder, Flow, FrameDecoder};

/// How long to wait for the rest of a response after its end frame, so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the call itself waits for that. Usually the rest arrives with the end frame, and the next call can reuse
/// the connection.
const INLINE_DRAIN_TIMEOUT: Duration = Duration::from_millis(5);

pub(super) struct Reading {
    pub(super) response: Response,
    /// Until the response has been read.
    pub(super) _slot: Slot,
    pub(super) decoder: FrameDecoder,
    pub(super) answer: Box<dyn AnswerDecoder>,
    pub(super) size: StreamSize,
    pub(super) request_id: Option<String>,
    /// When the next bytes must arrive, if ever.
    pub(super) until: Option<Instant>,
}

impl Call {
    /// Handles a complete response.
    pub(super) fn whole(&mut self, decoded: Decoded) {
        self.queue.extend(events_of(&decoded.output.message, usize::MAX));
        self.finish(decoded);
    }

    pub(super) async fn read(&mut self) -> Result<(), ModelError> {
        let State::Reading(reading) = &mut self.state else { return Ok(()) };
        let url = &self.endpoint.url;
        let silent =
            || ModelError::transport(format!("{} stopped sending in the middle of its answer", authority(url)));
        let chunk = within(reading.until, reading.response.chunk(), silent).await;
        if let Some(reading) = self.received(chunk)? {
            drain(reading).await;
        }
        Ok(())
    }

    /// Handles the next part of the response. After an end frame, returns the response, which may have more data.
    fn received(
        &mut self,
        chunk: Result<reqwest::Result<Option<Bytes>>, ModelError>,
    ) -> Result<Option<Box<Reading>>, ModelError> {
        let State::Reading(reading) = &mut self.state else { return Ok(None) };
        reading.until = Instant::now().checked_add(self.endpoint.timeouts.idle);
        // Whether the stream has ended, and the error with which it broke.
        let (ended, broke) = match chunk {
            Ok(Ok(Some(bytes))) => {
                reading.size.add(bytes.len());
                reading.decoder.push(&bytes);
                (false, None)
            }
            Ok(Ok(None)) => (true, None),
            Ok(Err(error)) => {
                (true, Some(ModelError::Truncated(from_transport(&error, &self.endpoint.url, None).info().clone())))
            }
            Err(error) => (true, Some(error)),
        };
        if ended {
            reading.decoder.end();
        }
        let decoded = match reading.frames(&mut self.queue, &mut self.scratch) {
            Ok(Flow::Complete) => reading.answer.finish(),
            Ok(Flow::More) if !ended => {
                return reading.size.check().map(|()| None).map_err(|error| reading.identified(error));
            }
            Ok(Flow::More) => match (reading.decoder.outside(&mut *reading.answer), broke) {
                (Some(Ok(decoded)), _) => {
                    self.whole(decoded);
                    return Ok(None);
                }
                (Some(failed), _) => failed,
                // The response may be complete without an end frame. If it is not, report the broken connection.
                (None, Some(error)) => reading.answer.finish().map_err(|_| error),
                (None, None) => reading.answer.finish(),
            },
            // A frame cut off by the end of the stream cannot be parsed. The response may be complete without it.
            Err(ModelError::Protocol(info)) if ended => {
                reading.answer.finish().map_err(|_| ModelError::Truncated(info))
            }
            Err(error) => Err(error),
        };
        let decoded = decoded.map_err(|error| reading.identified(error))?;
        let state = std::mem::replace(&mut self.state, State::Done);
        self.finish(decoded);
        Ok(match state {
            State::Reading(reading) if !ended => Some(reading),
            _ => None,
        })
    }
}

impl Reading {
    /// Decodes the complete frames.
    fn frames(&mut self, queue: &mut VecDeque<ModelEvent>, scratch: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        while let Some(frame) = self.decoder.next()? {
            let flow = self.answer.event(&frame.name, &frame.data, scratch);
            self.size.event(scratch);
            queue.extend(scratch.drain(..));
            if flow? == Flow::Complete {
                return Ok(Flow::Complete);
            }
        }
        Ok(Flow::More)
    }

    /// Adds the request's ID to an error.
    fn identified(&mut self, error: ModelError) -> ModelError {
        with_request_id(error, self.request_id.take())
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
