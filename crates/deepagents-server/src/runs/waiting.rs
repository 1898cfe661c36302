//! Waiting for the end of a run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};

use super::finish::final_values;
use super::live::LiveRun;
use super::record::RunRecord;
use super::run_options::OnDisconnect;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::render::render;
use crate::stream::{Final, Leaving};
use crate::threads::present_state;

/// Interval at which a waiting client is sent a byte, so that neither the client nor a proxy closes the connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for the end of a run. Fails if the server shuts down first, because the next server resumes the run.
pub(crate) async fn ended(app: &App, run: &LiveRun) -> Result<()> {
    run.ended().await;
    if *app.closing.borrow() && run.record().status.is_open() {
        return Err(ApiError::unavailable(
            "the server is shutting down; the run continues on the next one, so ask for it there",
        ));
    }
    Ok(())
}

/// Waits for a run and returns its final values.
pub(crate) async fn joined(app: &App, run: &LiveRun) -> Result<Value> {
    ended(app, run).await?;
    match run.log.last() {
        Some(Final::State(state)) => {
            let thread = run.thread.clone();
            render(state.messages().len(), move || final_values(&thread, &state, None)).await
        }
        Some(Final::Error(error)) => Ok(json!({"__error__": error})),
        None => values_of(app, &run.record()).await,
    }
}

pub(super) async fn values_of(app: &App, record: &RunRecord) -> Result<Value> {
    let state = present_state(app, &app.thread(&record.thread_id).await?).await?;
    let (thread, error) = (record.thread_id.clone(), record.error.clone());
    render(state.messages().len(), move || final_values(&thread, &state, error.as_ref())).await
}

/// Returns a body with the final values of a run as JSON, preceded by white space while the run lasts. A client that
/// disconnects may end the run.
pub(super) fn values_at_end(
    app: Arc<App>,
    run: Arc<LiveRun>,
    leaving: OnDisconnect,
) -> impl Stream<Item = Result<Bytes>> + Send {
    let leaving = (leaving == OnDisconnect::Cancel).then(|| Leaving::new(run.clone()));
    let values: BoxFuture<'static, Result<Bytes>> = Box::pin(async move {
        // The status has already been sent.
        let told = match joined(&app, &run).await {
            // Breaking off the body makes official clients ask again at the location in the headers.
            Err(error) if *app.closing.borrow() => return Err(error),
            Err(error) => json!({"__error__": {"error": "storage", "message": error.to_string()}}),
            Ok(values) => values,
        };
        Ok(Bytes::from(told.to_string()))
    });
    stream::unfold(Some((values, leaving)), |waiting| async move {
        let (mut values, leaving) = waiting?;
        match tokio::time::timeout(KEEPALIVE_INTERVAL, &mut values).await {
            Ok(values) => Some((values, None)),
            Err(_) => Some((Ok(Bytes::from_static(b"\n")), Some((values, leaving)))),
        }
    })
}
