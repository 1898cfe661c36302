//! The protocol over a WebSocket: commands in, events and responses out.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use super::command::{Command, CommandError, refusal};
use super::encode::encode;
use super::filter::Subscription;
use super::routes::open_thread;
use crate::app::App;
use crate::auth::{Access, CALLER, Reader, caller};
use crate::error::{ApiError, Result};
use crate::stream::{Feed, HEARTBEAT_INTERVAL};

/// The code with which a connection ends whose token has expired, after the HTTP status.
const UNAUTHORIZED: u16 = 4401;

/// Maximum size of a client's frame, in bytes.
const MAX_FRAME: usize = 16 << 20;

/// Maximum number of queued frames. A slower client delays only its own events.
const MAX_QUEUED_FRAMES: usize = 64;

/// Maximum number of subscriptions per connection.
const MAX_SUBSCRIPTIONS: usize = 64;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Extension(access): Extension<Arc<Access>>,
    upgrade: WebSocketUpgrade,
) -> Result<Response> {
    open_thread(&app, &thread, true).await?;
    let identity = caller();
    let serve = move |socket| CALLER.scope(identity, serve(app, access, thread, socket));
    Ok(upgrade.max_message_size(MAX_FRAME).on_upgrade(serve))
}

struct Session {
    app: Arc<App>,
    access: Arc<Access>,
    thread: String,
    frames: mpsc::Sender<Value>,
    /// The sending task of each subscription, by subscription id. Dropping the handle aborts the task.
    subscriptions: Vec<(String, AbortOnDropHandle<()>)>,
    subscribed: u64,
}

async fn serve(app: Arc<App>, access: Arc<Access>, thread: String, mut socket: WebSocket) {
    let (frames, mut waiting) = mpsc::channel(MAX_QUEUED_FRAMES);
    let end = app.clone();
    let identity = caller();
    let mut expired = std::pin::pin!(async move {
        match identity {
            Some(identity) => identity.expired().await,
            None => std::future::pending().await,
        }
    });
    let mut session = Session { app, access, thread, frames, subscriptions: Vec::new(), subscribed: 0 };
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let answer = tokio::select! {
            // The server shuts down.
            () = end.closed() => break,
            () = &mut expired => {
                let frame = CloseFrame { code: UNAUTHORIZED, reason: "the token has expired".into() };
                // The client may be gone.
                let _ = socket.send(Message::Close(Some(frame))).await;
                break;
            }
            // The ping keeps proxies from closing an idle connection and detects a client that is gone.
            _ = heartbeat.tick() => {
                if socket.send(Message::Ping(Bytes::new())).await.is_err() {
                    break;
                }
                continue;
            }
            frame = waiting.recv() => match frame {
                Some(frame) => frame,
                None => break,
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => session.take(text.as_bytes()).await,
                Some(Ok(Message::Binary(bytes))) => session.take(&bytes).await,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
        };
        if socket.send(Message::Text(answer.to_string().into())).await.is_err() {
            break;
        }
    }
}

impl Session {
    async fn take(&mut self, text: &[u8]) -> Value {
        let command = match Command::read(text) {
            Ok(command) => command,
            Err(error) => return refusal(None, &CommandError::from(error)),
        };
        let result = match command.method.as_str() {
            "subscription.subscribe" => self.subscribe(&command.params).await,
            "subscription.reconnect" => self.reconnect(&command.params).await,
            "subscription.unsubscribe" => self.unsubscribe(&command.params),
            // The protocol requires a subscription before other commands.
            _ if self.subscribed == 0 => Err(CommandError::invalid("the first command must be subscription.subscribe")),
            _ => return self.execute(&command).await,
        };
        match result {
            Ok(result) => json!({"type": "success", "id": command.id, "result": result}),
            Err(error) => refusal(Some(command.id), &error),
        }
    }

    /// Executes a command that could also be sent in a request, under the same limits and with the same audit record.
    async fn execute(&self, command: &Command) -> Value {
        let identity = caller();
        let path = format!("/threads/{}/commands", self.thread);
        let mut request = self.access.request((Method::POST, path), identity.as_deref());
        match identity.as_deref().map_or(Ok(()), |identity| self.access.take_request(identity)) {
            Ok(()) => {
                let answer = command.answer(&self.app, &self.thread).await;
                request.answered(StatusCode::OK);
                answer
            }
            Err(error) => {
                request.answered(error.status());
                refusal(Some(command.id), &CommandError::from(error))
            }
        }
    }

    async fn subscribe(&mut self, params: &Value) -> Result<Value, CommandError> {
        let wanted = Subscription::read(params)?;
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(CommandError::invalid(
                "this connection has the maximum number of subscriptions; end one first",
            ));
        }
        // The thread may have been deleted and created by another owner since the connection was opened.
        if !Reader::current().may_read(&self.app, &self.thread).await {
            return Err(ApiError::not_found("Thread", &self.thread).into());
        }
        let feed = Feed::open(&self.app, &self.thread, wanted.position()).await?;
        let task = tokio::spawn(send(feed, wanted, self.frames.clone()));
        self.subscribed += 1;
        // A resumed subscription keeps its id and replaces the one that still has it.
        let own = params.get("subscription_id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = own.map_or_else(|| format!("sub-{}", self.subscribed), str::to_owned);
        self.subscriptions.retain(|(known, _)| *known != id);
        self.subscriptions.push((id.clone(), AbortOnDropHandle::new(task)));
        Ok(json!({"subscription_id": id}))
    }

    /// Resumes a subscription of a lost connection after the last event that the client has read.
    async fn reconnect(&mut self, params: &Value) -> Result<Value, CommandError> {
        if params.get("since").and_then(Value::as_u64).is_none() {
            return Err(CommandError::invalid("subscription.reconnect needs `since`, the number of an event"));
        }
        self.subscribe(params).await
    }

    fn unsubscribe(&mut self, params: &Value) -> Result<Value, CommandError> {
        let id = params.get("subscription_id").and_then(Value::as_str).unwrap_or_default();
        let before = self.subscriptions.len();
        self.subscriptions.retain(|(known, _)| known != id);
        if self.subscriptions.len() == before {
            return Err(CommandError::new("no_such_subscription", format!("there is no subscription `{id}`")));
        }
        Ok(json!({}))
    }
}

/// Forwards the events of a subscription as fast as the client takes them.
async fn send(mut feed: Feed, wanted: Subscription, frames: mpsc::Sender<Value>) {
    while let Some((run, event)) = feed.next().await {
        for event in encode(&run.identity, &event, &wanted).unwrap_or_default() {
            if frames.send(event.json).await.is_err() {
                return;
            }
        }
    }
}
