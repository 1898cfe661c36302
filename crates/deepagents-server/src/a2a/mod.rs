//! Agent2Agent, versions 0.3 and 1.0, JSON-RPC over HTTP, mapped as by the LangGraph server: each assistant is an
//! agent, a context is a thread, and a task is a run together with the runs that answer its interrupts.
//!
//! A message id is processed once, so a client that does not know whether its message arrived can send it again.

mod card;
mod list;
mod message;
mod record;
mod stream;
mod version;
mod view;

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::Raw;
use crate::ids;
use crate::rpc::{self, RpcError};
use crate::runs::{self, CancelAction, Command, start_once};
use message::Message;
use record::{Named, Taken, TaskRecord};
use version::{Operation, Version};
use view::TaskView;

/// Errors of the protocol in addition to those of JSON-RPC.
const NO_TASK: i32 = -32001;
const NOT_CANCELABLE: i32 = -32002;
const NO_PUSH_NOTIFICATIONS: i32 = -32003;
const UNSUPPORTED: i32 = -32004;
const NO_EXTENDED_CARD: i32 = -32007;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/.well-known/agent-card.json", get(card::of_query))
        .route("/a2a/{assistant}/.well-known/agent-card.json", get(card::of_path))
        .route("/a2a/{assistant}", post(request))
}

async fn request(
    State(app): State<Arc<App>>,
    Path(assistant): Path<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Response {
    let request = match rpc::read(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let id = request.id.unwrap_or(Value::Null);
    let answered = match version::check(&headers) {
        Ok(()) => answer(&app, &assistant, &id, &request.method, &request.params).await,
        Err(error) => Err(error),
    };
    let result = match answered {
        Ok(Answer::One(result)) => Ok(result),
        Ok(Answer::Stream(body)) => {
            let headers =
                [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];
            return (headers, body).into_response();
        }
        Err(error) => Err(error),
    };
    Json(rpc::answer(&id, result)).into_response()
}

enum Answer {
    One(Value),
    Stream(HttpBody),
}

/// Parameters that identify a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams {
    id: String,
    history_length: Option<usize>,
}

async fn answer(app: &Arc<App>, assistant: &str, id: &Value, method: &str, params: &Value) -> Result<Answer, RpcError> {
    let named = || rpc::params::<TaskParams>(params);
    let (version, operation) = Operation::named(method).ok_or_else(|| RpcError::no_method(method))?;
    let names = Named::find(app, assistant).await?;
    match operation {
        Operation::Send => {
            let (task, blocking, history) = send(app, (assistant, &names), params).await?;
            if blocking {
                task.ended(app).await?;
            }
            Ok(Answer::One(version.result(TaskView::read(app, &task).await?.task(history))))
        }
        Operation::SendAndStream => {
            let (task, ..) = send(app, (assistant, &names), params).await?;
            Ok(Answer::Stream(stream::of(app, task, id.clone(), version).await?))
        }
        Operation::Subscribe => {
            let task = record::find(app, &names, &named()?.id).await?;
            if version == Version::V1_0 && task.live(app).await?.is_none() {
                return Err(RpcError::new(UNSUPPORTED, "the task is not running; read it with GetTask"));
            }
            Ok(Answer::Stream(stream::of(app, task, id.clone(), version).await?))
        }
        Operation::Get => {
            let named = named()?;
            let task = record::find(app, &names, &named.id).await?;
            Ok(Answer::One(version.task(TaskView::read(app, &task).await?.task(named.history_length))))
        }
        Operation::List => Ok(Answer::One(list::page(app, &names, params).await?)),
        Operation::Cancel => {
            let task = cancel(app, record::find(app, &names, &named()?.id).await?).await?;
            Ok(Answer::One(version.task(TaskView::read(app, &task).await?.task(None))))
        }
        Operation::ExtendedCard => {
            Err(RpcError::new(NO_EXTENDED_CARD, "there is no extended card; the card is complete"))
        }
        Operation::PushNotifications => {
            Err(RpcError::new(NO_PUSH_NOTIFICATIONS, "push notifications are not supported; subscribe to the task"))
        }
    }
}

/// Cancels a task that is running or waits for an answer.
async fn cancel(app: &Arc<App>, task: TaskRecord) -> Result<TaskRecord, RpcError> {
    if let Some(run) = task.live(app).await? {
        runs::end(app, &run, CancelAction::Interrupt).await?;
        run.ended().await;
        return Ok(task);
    }
    if !TaskView::read(app, &task).await?.is_waiting() {
        return Err(RpcError::new(NOT_CANCELABLE, "the task is neither running nor waiting"));
    }
    // Its calls get results that say they were not made, as if a person marked the conversation as resolved.
    let (run, mut body) = (ids::fresh(), record::request(&task.assistant));
    body.command = Some(Command { goto: Some(json!("__end__")), ..Command::default() });
    let thread = task.thread.clone();
    let task = TaskRecord { cancelled: true, ..task }.save_with(app, &run).await?;
    start_once(app, Some(&thread), body, run).await?;
    task.ended(app).await?;
    Ok(task)
}

/// Accepts a message, which starts a task or answers a task's interrupts. Returns the task, whether to wait for its
/// end, and how many messages of the conversation the client wants.
async fn send(
    app: &Arc<App>,
    assistant: (&str, &Named),
    params: &Value,
) -> Result<(TaskRecord, bool, Option<usize>), RpcError> {
    let message = Message::read(params)?;
    // A message is stored before its run starts, so that a repeated one finds its task and starts the run if it is
    // missing.
    let taken = loop {
        if let Some(taken) = Taken::find(app, &message.id).await? {
            break taken;
        }
        let taken = take(app, assistant, &message).await?;
        if taken.save_new(app, &message.id).await? {
            break taken;
        }
    };
    start_once(app, Some(&taken.task.thread), taken.body, taken.run.clone()).await?;
    Ok((taken.task.save_with(app, &taken.run).await?, message.blocking, message.history))
}

/// Returns the task of a new message, with the run that it starts.
async fn take(app: &App, (assistant, names): (&str, &Named), message: &Message) -> Result<Taken, RpcError> {
    let Some(known) = &message.task else {
        let thread = message.context.clone().unwrap_or_else(ids::fresh);
        let task = TaskRecord::new(assistant, ids::check("contextId", &thread)?);
        runs::check_thread(app, assistant, &task.thread).await?;
        let mut body = record::request(assistant);
        body.input = Some(message.input());
        return Ok(Taken { run: task.id.clone(), task, body });
    };
    let mut task = record::find(app, names, known).await?;
    let context = message.context.as_ref().map(|context| ids::check("contextId", context)).transpose()?;
    if context.is_some_and(|context| context != task.thread) {
        return Err(RpcError::invalid("the task belongs to another context; omit `contextId` or `taskId`"));
    }
    runs::check_thread(app, &task.assistant, &task.thread).await?;
    let resume = Some(message.resume(app, &task).await?);
    let run = ids::fresh();
    task.runs.push(run.clone());
    let mut body = record::request(&task.assistant);
    body.command = Some(Command { resume, ..Command::default() });
    Ok(Taken { task, run, body })
}
