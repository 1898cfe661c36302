//! Responses to clients that wait for a run or read its events.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::runs::live::LiveRun;
use crate::runs::run_options::{OnDisconnect, StreamMode};
use crate::runs::waiting::values_at_end;
use crate::stream::{From, Leaving, Reader, STREAM_HEADERS, Writer};

pub(super) fn headers(run: &LiveRun, location: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let place = format!("/threads/{}/runs/{}", run.thread, run.id);
    for (name, value) in [(header::CONTENT_LOCATION, place.clone()), (header::LOCATION, format!("{place}/{location}"))]
    {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers
}

pub(super) fn answer_at_end(app: &Arc<App>, run: Arc<LiveRun>, leaving: OnDisconnect) -> Response {
    let headers = headers(&run, "join");
    let json = [(header::CONTENT_TYPE, "application/json")];
    (headers, json, HttpBody::from_stream(values_at_end(app.clone(), run, leaving))).into_response()
}

pub(super) fn events(
    run: &Arc<LiveRun>,
    from: From,
    modes: Option<Vec<StreamMode>>,
    with_ids: bool,
    leaving: OnDisconnect,
) -> Response {
    let leaving = (leaving == OnDisconnect::Cancel).then(|| Leaving::new(run.clone()));
    let create = run.record().kwargs;
    let modes = modes.unwrap_or_else(|| create.modes());
    let writer = Writer::new(run.identity.clone(), modes, create.stream_subgraphs);
    let reader = Reader::new(run.clone(), from, writer, with_ids, leaving);
    (headers(run, "stream"), STREAM_HEADERS, HttpBody::from_stream(reader.body())).into_response()
}
