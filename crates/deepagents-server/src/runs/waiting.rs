//! Waiting for the end of a run.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};

use super::create::OnDisconnect;
use super::finish::final_values;
use super::live::LiveRun;
use super::record::RunRecord;
use crate::app::App;
use crate::error::Result;
use crate::stream::{Final, Leaving};
use crate::threads::present_state;

/// How often a client that waits is sent a byte, so that neither it nor what is between takes the connection for dead.
const ALIVE: Duration = Duration::from_secs(5);

/// The values that a run ends with.
pub(crate) async fn joined(app: &App, run: &LiveRun) -> Result<Value> {
    run.ended().await;
    match run.log.last() {
        Some(Final::State(state)) => final_values(&run.thread, &state, None),
        Some(Final::Error(error)) => Ok(json!({"__error__": error})),
        None => values_of(app, &run.record()).await,
    }
}

pub(super) async fn values_of(app: &App, record: &RunRecord) -> Result<Value> {
    let state = present_state(app, &app.thread(&record.thread_id).await?).await?;
    final_values(&record.thread_id, &state, record.error.as_ref())
}

/// A body that is the values a run ends with, as JSON; white space comes before them for as long as it lasts. A client that
/// leaves may end the run.
pub(super) fn values_at_end(
    app: Arc<App>,
    run: Arc<LiveRun>,
    leaving: OnDisconnect,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let leaving = (leaving == OnDisconnect::Cancel).then(|| Leaving::new(run.clone()));
    let values: BoxFuture<'static, Bytes> = Box::pin(async move {
        // The status has been said.
        let told = joined(&app, &run).await;
        let told =
            told.unwrap_or_else(|error| json!({"__error__": {"error": "storage", "message": error.to_string()}}));
        Bytes::from(told.to_string())
    });
    stream::unfold(Some((values, leaving)), |waiting| async move {
        let (mut values, leaving) = waiting?;
        match tokio::time::timeout(ALIVE, &mut values).await {
            Ok(values) => Some((Ok(values), None)),
            Err(_) => Some((Ok(Bytes::from_static(b"\n")), Some((values, leaving)))),
        }
    })
}
