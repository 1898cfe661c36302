//! Routes for runs.

mod answer;
mod begin;
mod existing;
mod stop;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;
use begin::{batch, create, stream, wait};
use existing::{delete, join, join_stream, list, one, thread_stream};
use stop::{cancel, cancel_several};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/threads/{thread}/runs", post(create).get(list))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/stream", post(stream))
        .route("/threads/{thread}/runs/{run}", get(one).delete(delete))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/stream", get(join_stream))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
        .route("/runs", post(create))
        .route("/runs/wait", post(wait))
        .route("/runs/stream", post(stream))
        .route("/runs/batch", post(batch))
        .route("/runs/cancel", post(cancel_several))
        .route("/threads/{thread}/stream", get(thread_stream))
}
