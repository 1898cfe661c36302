//! The export tasks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::transport::{Batch, Transport};
use super::{ExportError, Temporality};
use crate::metrics::Metrics;
use crate::otlp;

/// The delay after the first failed attempt; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Maximum number of attempts to reach a receiver while shutting down.
const MAX_SHUTDOWN_ATTEMPTS: u32 = 2;

/// Exports the spans of a queue.
pub(super) struct Worker {
    pub(super) queue: Arc<Queue>,
    pub(super) transport: Transport,
    pub(super) resource: Resource,
    pub(super) delay: Duration,
    pub(super) timeout: Duration,
    pub(super) closing: CancellationToken,
}

impl Worker {
    /// Exports until it is closed, then exports the remaining spans.
    pub(super) async fn run(mut self) {
        loop {
            let ends = tokio::select! {
                () = self.closing.cancelled() => true,
                () = self.queue.full.notified() => false,
                () = sleep(self.delay) => false,
            };
            loop {
                let spans = self.queue.take();
                if spans.is_empty() {
                    break;
                }
                let batch = Batch::Traces(otlp::spans(&self.resource, &spans));
                drop(spans);
                let fails = |why: &ExportError| self.queue.record_retry(why.to_string());
                let result = send(&mut self.transport, batch, self.timeout, &self.closing, fails).await;
                self.queue.record_outcome(result.map_err(|error| error.to_string()));
            }
            if ends {
                return;
            }
        }
    }
}

/// Exports metrics.
pub(super) struct MetricWorker {
    pub(super) metrics: Arc<Mutex<Metrics>>,
    pub(super) queues: Vec<Arc<Queue>>,
    pub(super) transport: Transport,
    pub(super) resource: Resource,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) temporality: Temporality,
    pub(super) closing: CancellationToken,
    pub(super) error: Arc<Mutex<Option<String>>>,
}

impl MetricWorker {
    pub(super) async fn run(mut self) {
        loop {
            let ends = tokio::select! {
                () = self.closing.cancelled() => true,
                () = sleep(self.interval) => false,
            };
            let measured = {
                let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
                match self.temporality {
                    Temporality::Cumulative => metrics.clone(),
                    Temporality::Delta => metrics.take(),
                }
            };
            if !measured.series.is_empty() {
                let dropped = self.queues.iter().map(|queue| queue.counts().1).sum();
                let batch = Batch::Metrics(otlp::metrics(&self.resource, &measured, dropped, self.temporality));
                let sent = send(&mut self.transport, batch, self.timeout, &self.closing, |_| ()).await;
                let error = match sent {
                    Ok(0) => None,
                    Ok(refused) => Some(format!("the metrics receiver refused {refused} measurements")),
                    Err(error) => Some(error.to_string()),
                };
                *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
            }
            if ends {
                return;
            }
        }
    }
}

/// Sends a batch, retrying retryable errors within `timeout`. Returns how many items the receiver rejected. Calls
/// `fails` for each attempt that will be retried. While shutting down, an unreachable receiver is tried at most twice,
/// because the program is waiting.
async fn send(
    transport: &mut Transport,
    batch: Batch,
    timeout: Duration,
    closing: &CancellationToken,
    fails: impl Fn(&ExportError),
) -> Result<u64, ExportError> {
    let until = if timeout.is_zero() { None } else { Instant::now().checked_add(timeout) };
    let body = transport.encode(&batch);
    drop(batch);
    let mut pause = FIRST_DELAY;
    let mut tries_at_end = 0;
    loop {
        let is_closing = closing.is_cancelled();
        tries_at_end += u32::from(is_closing);
        let sent = match until {
            Some(until) => timeout_at(until, transport.send(&body)).await.unwrap_or(Err(ExportError::Timeout(timeout))),
            None => transport.send(&body).await,
        };
        let error = match sent {
            Ok(refused) => return Ok(refused),
            Err(error) => error,
        };
        // Jitter of up to half the delay keeps processes from retrying in step.
        let spread = pause.mul_f64(fastrand::f64() / 2.0);
        // A receiver may ask for any delay, so it is capped. A date in the past asks for none.
        let asked = error.retry_after().filter(|after| !after.is_zero());
        let again = Instant::now() + asked.map_or(pause + spread, |after| after.min(MAX_RETRY_AFTER));
        let is_given_up = tries_at_end >= MAX_SHUTDOWN_ATTEMPTS && matches!(error, ExportError::Transport(_));
        if !error.is_retryable() || is_given_up || until.is_some_and(|until| again >= until) {
            return Err(error);
        }
        fails(&error);
        tokio::select! {
            () = sleep_until(again) => {}
            () = closing.cancelled(), if !is_closing => {}
        }
        pause = (pause * 2).min(MAX_DELAY);
    }
}
