//! The events of a run that ended in another process or long ago.

use std::sync::Arc;

use super::projector::Projector;
use crate::app::App;
use crate::error::Result;
use crate::runs::{LiveRun, RunRecord, Status};

/// Rebuilds the events of a run from the log. Events from the log keep their ids; message chunks are gone. Returns
/// `None` if the record does not say where the run is in the log.
pub(crate) async fn past(app: &Arc<App>, record: &RunRecord) -> Result<Option<Arc<LiveRun>>> {
    let Some((from, until)) = record.span() else { return Ok(None) };
    let run = Arc::new(LiveRun::new(record.clone(), true));
    let mut projector = Projector::new(app, &run, from, record.kwargs.shows_state()).await?;
    projector.read_to(until).await?;
    end(app, projector, record).await?;
    run.finish();
    Ok(Some(run))
}

/// Reports the end of a run that another process has ended, after its records were read.
pub(crate) async fn end(app: &App, projector: Projector, record: &RunRecord) -> Result<()> {
    match (record.status, &record.error) {
        (Status::Error | Status::Timeout, error) => {
            let text = |key| error.as_ref().and_then(|error| error.get(key)?.as_str()).unwrap_or("unknown").to_owned();
            projector.failed(&text("error"), &text("message"));
        }
        (Status::Interrupted, _) => projector.cancelled(),
        _ => {
            let info = app.thread(&record.thread_id).await?;
            let state = record.last_state(&app.threads_of(&info)?).await?;
            projector.ended(&state, record.stop.as_ref());
        }
    }
    Ok(())
}
