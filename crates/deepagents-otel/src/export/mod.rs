//! Exports spans and metrics in the background.

mod client;
mod error;
mod file;
mod grpc;
mod http;
mod queue;
mod transport;
mod worker;

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::Span;
use crate::metrics::Metrics;
pub use error::ExportError;
pub use file::LineFile;
use queue::Queue;
use transport::Transport;
use worker::Worker;

/// The protocol of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP with protobuf bodies.
    #[default]
    HttpProtobuf,
    /// HTTP with JSON bodies.
    HttpJson,
    /// gRPC.
    Grpc,
}

/// The period that exported metrics cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporality {
    /// Since the exporter was created.
    #[default]
    Cumulative,
    /// Since the last export. If an export fails, its measurements are lost.
    Delta,
}

/// An OTLP receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its address: for HTTP with the path, such as `http://localhost:4318/v1/traces`, for gRPC without one.
    pub url: String,
    /// Headers of each request, including credentials.
    pub headers: Vec<(String, String)>,
    /// The address of a proxy, if any.
    pub proxy: Option<String>,
}

impl Endpoint {
    /// Creates an endpoint without headers.
    pub fn new(protocol: Protocol, url: impl Into<String>) -> Self {
        Self { protocol, url: url.into(), headers: Vec::new(), proxy: None }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of headers may be credentials.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("protocol", &self.protocol)
            .field("url", &self.url)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// The destinations of spans and metrics, and the export schedule.
#[derive(Debug)]
pub struct ExportConfig {
    /// The receiver of spans.
    pub traces: Option<Endpoint>,
    /// The receiver of metrics.
    pub metrics: Option<Endpoint>,
    /// A file that spans are written to as JSON lines.
    pub file: Option<LineFile>,
    /// Attributes of the process, such as `service.name`.
    pub resource: Vec<(String, String)>,
    /// How long spans wait for a batch to fill.
    pub schedule_delay: Duration,
    /// Maximum number of queued spans; further ones are dropped.
    pub max_queue: usize,
    /// Maximum number of spans per request.
    pub max_batch: usize,
    /// The interval between two exports of metrics.
    pub metric_interval: Duration,
    /// Time limit for an export, including retries. Zero means no limit, as in the standard.
    pub timeout: Duration,
    /// The period that exported metrics cover.
    pub temporality: Temporality,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self {
            traces: None,
            metrics: None,
            file: None,
            resource: vec![("service.name".to_owned(), "deepagents".to_owned())],
            schedule_delay: Duration::from_secs(5),
            max_queue: 2_048,
            max_batch: 512,
            metric_interval: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            temporality: Temporality::default(),
        }
    }
}

impl ExportConfig {
    /// Writes spans to a file. Each line is the contents of one request, as JSON.
    #[must_use]
    pub fn file(mut self, file: impl Write + Send + 'static) -> Self {
        self.file = Some(LineFile::new(file));
        self
    }
}

/// The outcome of exporting spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Spans delivered, counted once per destination.
    pub exported: u64,
    /// Spans dropped, counted once per destination.
    pub dropped: u64,
    /// The last error of spans, or else of metrics.
    pub last_error: Option<String>,
}

/// Exports spans and metrics in background tasks.
pub(crate) struct Exporter {
    queues: Vec<Arc<Queue>>,
    metrics: Option<Arc<Mutex<Metrics>>>,
    closing: CancellationToken,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// The error of the last export of metrics, if it failed.
    metric_error: Arc<Mutex<Option<String>>>,
}

impl Exporter {
    /// Starts the exporter on the current runtime.
    pub(crate) fn start(config: ExportConfig) -> Result<Self, ExportError> {
        let runtime = Handle::try_current().map_err(|_| ExportError::NoRuntime)?;
        // An error must not leave tasks behind.
        let traces = config.traces.as_ref().map(Transport::open).transpose()?;
        let measurements = config.metrics.as_ref().map(Transport::open).transpose()?;
        let closing = CancellationToken::new();
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        let resource = crate::otlp::resource(&config.resource);
        let mut start = |transport: Transport, delay: Duration| {
            let queue = Arc::new(Queue::new(config.max_queue, config.max_batch, transport.receiver()));
            let worker = Worker {
                queue: queue.clone(),
                transport,
                resource: resource.clone(),
                delay,
                timeout: config.timeout,
                closing: closing.clone(),
            };
            queues.push(queue);
            workers.push(runtime.spawn(worker.run()));
        };
        if let Some(transport) = traces {
            start(transport, config.schedule_delay);
        }
        if let Some(file) = config.file {
            // If the process is killed, unwritten spans are lost, so the delay is short.
            start(Transport::File(file), FILE_DELAY.min(config.schedule_delay));
        }
        let metric_error = Arc::default();
        let metrics = match measurements {
            Some(transport) => {
                let metrics = Arc::new(Mutex::new(Metrics::default()));
                let worker = worker::MetricWorker {
                    metrics: metrics.clone(),
                    queues: queues.clone(),
                    transport,
                    resource,
                    interval: config.metric_interval,
                    timeout: config.timeout,
                    temporality: config.temporality,
                    closing: closing.clone(),
                    error: Arc::clone(&metric_error),
                };
                workers.push(runtime.spawn(worker.run()));
                Some(metrics)
            }
            None => None,
        };
        Ok(Self { queues, metrics, closing, workers: Mutex::new(workers), metric_error })
    }

    /// Records metrics of spans, and queues the spans for export if they are sampled.
    pub(crate) fn take(&self, spans: Vec<Span>, sampled: bool) {
        if let Some(metrics) = &self.metrics {
            let mut metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            spans.iter().for_each(|span| metrics.record(span));
        }
        if !sampled {
            return;
        }
        if let Some((last, others)) = self.queues.split_last() {
            others.iter().for_each(|queue| queue.push(spans.clone()));
            last.push(spans);
        }
    }

    /// Exports the queued spans within a time limit, then stops.
    pub(crate) async fn shutdown(&self, within: Duration) -> ExportReport {
        self.closing.cancel();
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        let aborts: Vec<_> = workers.iter().map(JoinHandle::abort_handle).collect();
        let mut ended = join_all(workers);
        if tokio::time::timeout(within, &mut ended).await.is_err() {
            aborts.iter().for_each(AbortHandle::abort);
            // Waiting for aborted tasks ensures that they have been dropped.
            ended.await;
        }
        self.queues.iter().for_each(|queue| queue.close());
        self.report()
    }

    pub(crate) fn report(&self) -> ExportReport {
        let mut report = ExportReport::default();
        for queue in &self.queues {
            let (exported, dropped, error) = queue.counts();
            report.exported += exported;
            report.dropped += dropped;
            report.last_error = error.or(report.last_error);
        }
        let metric_error = self.metric_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        report.last_error = report.last_error.or(metric_error);
        report
    }
}

/// How long spans wait to be written to a file.
const FILE_DELAY: Duration = Duration::from_millis(200);

impl Drop for Exporter {
    fn drop(&mut self) {
        for worker in self.workers.get_mut().unwrap_or_else(PoisonError::into_inner) {
            worker.abort();
        }
    }
}
