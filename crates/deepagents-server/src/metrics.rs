//! Counters in the Prometheus text format.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;
use crate::runs::Status;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(metrics))
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Responses by the first digit of their status.
    answers: [AtomicU64; 6],
    /// Finished runs by status, in the order of [`ENDS`].
    ended: [AtomicU64; ENDS.len()],
}

/// The statuses of finished runs.
const ENDS: [(Status, &str); 4] = [
    (Status::Success, "success"),
    (Status::Error, "error"),
    (Status::Interrupted, "interrupted"),
    (Status::Timeout, "timeout"),
];

impl Metrics {
    /// Counts a finished run.
    pub(crate) fn run_ended(&self, status: Status) {
        if let Some((_, counter)) = ENDS.iter().zip(&self.ended).find(|((known, _), _)| *known == status) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Middleware that counts responses.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if let Some(counter) = app.metrics.answers.get(usize::from(response.status().as_u16() / 100)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    response
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let mut text = String::new();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let all = &app.metrics;
    text.push_str("# HELP deepagents_http_responses_total Responses by status class.\n");
    text.push_str("# TYPE deepagents_http_responses_total counter\n");
    for (class, counter) in all.answers.iter().enumerate().skip(1) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "deepagents_http_responses_total{{class=\"{class}xx\"}} {}", read(counter));
    }
    text.push_str("# HELP deepagents_runs_total Finished runs by status.\n# TYPE deepagents_runs_total counter\n");
    for ((_, status), counter) in ENDS.iter().zip(&all.ended) {
        let _ = writeln!(text, "deepagents_runs_total{{status=\"{status}\"}} {}", read(counter));
    }
    text.push_str("# HELP deepagents_runs_open Runs that are queued or running.\n# TYPE deepagents_runs_open gauge\n");
    let _ = writeln!(text, "deepagents_runs_open {}", app.runs.count_open());
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], text)
}
