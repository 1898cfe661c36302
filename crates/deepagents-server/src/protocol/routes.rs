//! Routes of the protocol.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Map, Value};

use super::command::Command;
use super::encode::encode;
use super::filter::Subscription;
use super::socket;
use crate::app::App;
use crate::auth::caller;
use crate::body::Raw;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::reservation::{Name, with_reservation};
use crate::stream::{Feed, HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL, STREAM_HEADERS};
use crate::threads::{ThreadRecord, make};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/threads/{thread}/commands", post(command))
        .route("/threads/{thread}/stream/events", post(events).get(socket::open))
}

async fn command(State(app): State<Arc<App>>, Path(thread): Path<String>, Raw(body): Raw) -> Result<Json<Value>> {
    open_thread(&app, &thread, false).await?;
    Ok(Json(Command::read(&body)?.answer(&app, &thread).await))
}

async fn events(State(app): State<Arc<App>>, Path(thread): Path<String>, Raw(body): Raw) -> Result<impl IntoResponse> {
    open_thread(&app, &thread, true).await?;
    let wanted: Value = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("The body cannot be read: {error}")))?;
    let wanted = Subscription::read(&wanted)?;
    let feed = Feed::open(&app, &thread, wanted.position()).await?;
    let body = stream::unfold((feed, wanted), |(mut feed, wanted)| async move {
        let bytes = frames(&mut feed, &wanted).await?;
        Some((Ok::<_, Infallible>(bytes), (feed, wanted)))
    });
    Ok((STREAM_HEADERS, HttpBody::from_stream(body)))
}

/// Checks that the caller may read a thread and send to it. The thread may not exist yet, because clients start reading
/// first. If callers are authenticated, reading then creates the thread, so that it belongs to the caller.
pub(super) async fn open_thread(app: &App, thread: &str, reads: bool) -> Result<()> {
    ids::check("thread ID", thread)?;
    match app.journal.threads().get(thread).await? {
        Some(_) => app.thread(thread).await.map(|_| ()),
        None if reads && caller().is_some() => {
            with_reservation(app, Name::Thread(thread), async {
                match app.journal.threads().get(thread).await? {
                    // Another request has created it meanwhile, possibly for another owner.
                    Some(_) => app.thread(thread).await.map(|_| ()),
                    None => make(app, thread, Map::new(), ThreadRecord::default()).await,
                }
            })
            .await
        }
        None => Ok(()),
    }
}

/// Returns the next bytes to send, or `None` when the server shuts down.
async fn frames(feed: &mut Feed, wanted: &Subscription) -> Option<Bytes> {
    loop {
        let Ok(next) = tokio::time::timeout(HEARTBEAT_INTERVAL, feed.next()).await else {
            return Some(Bytes::from_static(HEARTBEAT_COMMENT));
        };
        let (run, event) = next?;
        // An event that cannot be serialised is skipped. Agent states always can be.
        let encoded = encode(&run.identity, &event, wanted).unwrap_or_default();
        let text: String = encoded
            .iter()
            .map(|event| format!("event: {}\ndata: {}\nid: {}\n\n", event.method, event.json, event.sequence))
            .collect();
        if !text.is_empty() {
            return Some(Bytes::from(text));
        }
    }
}
