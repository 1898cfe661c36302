//! Sending webhooks, until they are taken.

use std::sync::Arc;
use std::time::Duration;

use deepagents::models::http_client;
use deepagents_core::store::{Query, StoreError};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{OnceCell, Semaphore};

use super::WebhookPolicy;
use super::address::AllowedAddresses;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::{RunRecord, final_values, find};

/// Between one try and the next.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];

/// How long a receiver may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Requests that are made at a time.
const AT_ONCE: usize = 32;

const SIGNATURE: &str = "x-deepagents-signature";

/// What is told, to whom, and with what.
#[derive(Debug)]
pub(crate) struct Webhooks {
    policy: WebhookPolicy,
    client: OnceCell<reqwest::Client>,
    at_once: Semaphore,
}

impl Webhooks {
    pub(crate) fn new(policy: WebhookPolicy) -> Self {
        Self { policy, client: OnceCell::new(), at_once: Semaphore::new(AT_ONCE) }
    }

    /// Refuses an address that will not be told.
    pub(crate) fn check(&self, url: &str) -> Result<()> {
        self.policy.check(url).map_err(ApiError::invalid)
    }

    /// One try.
    async fn post(&self, url: &str, body: &str) -> Result<(), String> {
        self.policy.check(url)?;
        let client = self.client.get_or_try_init(|| client(&self.policy)).await?;
        let mut request = client.post(url).header("content-type", "application/json");
        if let Some(secret) = &self.policy.secret {
            request = request.header(SIGNATURE, signature(secret, Timestamp::now().as_second(), body));
        }
        // What it says beside that is not read.
        match request.body(body.to_owned()).send().await.map_err(|error| error.to_string())?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the receiver answered {status}")),
        }
    }
}

/// A client that connects to allowed addresses alone, and follows no redirects.
async fn client(policy: &WebhookPolicy) -> Result<reqwest::Client, String> {
    let builder = http_client().await.map_err(|error| error.to_string())?;
    let builder = builder.dns_resolver(AllowedAddresses(policy.clone()));
    builder.build().map_err(|error| error.to_string())
}

fn namespace() -> [String; 2] {
    ["deepagents-server".to_owned(), "webhooks".to_owned()]
}

/// Stores what is to be told of the end of a run, before that it has ended.
pub(crate) async fn remember(app: &App, record: &RunRecord) -> Result<()> {
    if let Some(url) = &record.kwargs.webhook {
        let what = json!({"url": url, "thread_id": record.thread_id, "body": body(app, record).await?});
        app.store.put(&namespace(), &record.run_id, what).await?;
    }
    Ok(())
}

/// Tells of the end of a run, if that is to be told.
pub(crate) fn send(app: &Arc<App>, record: &RunRecord) {
    if record.kwargs.webhook.is_some() {
        send_stored(app, record.run_id.clone());
    }
}

/// Tells what is stored for a run, as often as it takes.
fn send_stored(app: &Arc<App>, run: String) {
    let app = app.clone();
    tokio::spawn(async move {
        for pause in PAUSES.into_iter().map(Some).chain([None]) {
            if matches!(attempt(&app, &run).await, Ok(true)) {
                break;
            }
            let Some(pause) = pause else { break };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = app.closed() => return,
            }
        }
        // One that nobody takes is given up; where this fails it is told once more after the next start.
        let _ = app.store.delete(&namespace(), &run).await;
    });
}

/// Whether there is nothing more to tell.
async fn attempt(app: &App, run: &str) -> Result<bool> {
    let Some(item) = app.store.get(&namespace(), run).await? else { return Ok(true) };
    let url = item.value.get("url").and_then(Value::as_str).unwrap_or_default();
    let mut body = item.value.get("body").cloned().unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        body.insert("webhook_sent_at".to_owned(), json!(ids::now()));
    }
    // It is never closed.
    let _turn = app.webhooks.at_once.acquire().await;
    let sent = tokio::time::timeout(LIMIT, app.webhooks.post(url, &body.to_string())).await;
    Ok(matches!(sent, Ok(Ok(()))))
}

/// The run, and what it ended with.
async fn body(app: &App, record: &RunRecord) -> Result<Value> {
    let mut body = record.shown();
    let values = match app.journal.threads().get(&record.thread_id).await? {
        Some(info) => {
            let threads = app.threads_of(&info)?;
            let state = match record.until {
                Some(until) => threads.state_at(&record.thread_id, until).await?,
                None => threads.state(&record.thread_id).await?,
            };
            final_values(&record.thread_id, &state, None)?
        }
        None => Value::Null,
    };
    if let Some(body) = body.as_object_mut() {
        body.insert("run_started_at".to_owned(), json!(record.started_at.as_ref().unwrap_or(&record.created_at)));
        body.insert("run_ended_at".to_owned(), json!(record.updated_at));
        body.insert("values".to_owned(), values);
        match &record.error {
            Some(error) => body.insert("error".to_owned(), error.clone()),
            None => body.remove("error"),
        };
    }
    Ok(body)
}

/// Tells of what an earlier process did not get to tell.
pub(crate) async fn recover(app: &Arc<App>) -> Result<(), StoreError> {
    for item in app.store.search(&namespace(), &Query::default()).await? {
        let thread = item.value.get("thread_id").and_then(Value::as_str).unwrap_or_default();
        match find(app, thread, &item.key).await {
            // It is told when it ends.
            Ok(record) if record.status.is_open() => {}
            _ => send_stored(app, item.key),
        }
    }
    Ok(())
}

/// The value of the header for a body that is sent at this time.
fn signature(secret: &str, seconds: i64, body: &str) -> String {
    // A key may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={digits}")
}
