//! Delivery of webhooks, with retries.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use deepagents::models::http_client;
use deepagents_core::store::{Comparison, Filter, Query, StoreError};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use reqwest::Url;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{OnceCell, Semaphore};

use super::WebhookPolicy;
use super::address::AllowedAddresses;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::json::{remove, set};
use crate::records::{Records, read};
use crate::runs::{RunRecord, final_values, find};

/// Backoff between attempts.
const RETRY_DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];

/// Time limit for the receiver to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of requests in flight, followed by the maximum per host, so that a slow host does not delay others.
const MAX_CONCURRENT: usize = 128;
const MAX_CONCURRENT_PER_HOST: usize = 8;

/// Delay before a retry if the storage is unavailable.
const STORAGE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// How long an attempt may be overdue before another process makes it.
const MAX_OVERDUE: Duration = Duration::from_secs(30);

const SIGNATURE: &str = "x-deepagents-signature";

/// The delivery policy, the HTTP client and the limits on requests in flight.
#[derive(Debug)]
pub(crate) struct Webhooks {
    policy: WebhookPolicy,
    client: OnceCell<reqwest::Client>,
    at_once: Semaphore,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The runs whose webhooks this process delivers.
    told_here: HashSet<String>,
    /// The limit of each host, while a delivery uses it.
    hosts: HashMap<String, Weak<Semaphore>>,
}

impl Webhooks {
    pub(crate) fn new(policy: WebhookPolicy) -> Self {
        Self { policy, client: OnceCell::new(), at_once: Semaphore::new(MAX_CONCURRENT), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the semaphore that limits requests to a host.
    fn host(&self, url: &str) -> Arc<Semaphore> {
        let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let mut inner = self.lock();
        if let Some(known) = inner.hosts.get(&host).and_then(Weak::upgrade) {
            return known;
        }
        inner.hosts.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(MAX_CONCURRENT_PER_HOST));
        inner.hosts.insert(host, Arc::downgrade(&turns));
        turns
    }

    /// Rejects a URL to which webhooks may not be sent.
    pub(crate) fn check(&self, url: &str) -> Result<()> {
        self.policy.check(url).map_err(ApiError::invalid)
    }

    /// Makes one request.
    async fn post(&self, url: &str, body: &str) -> Result<(), String> {
        self.policy.check(url)?;
        let client = self.client.get_or_try_init(|| client(&self.policy)).await?;
        let mut request = client.post(url).header("content-type", "application/json");
        if let Some(secret) = &self.policy.secret {
            request = request.header(SIGNATURE, signature(secret, Timestamp::now().as_second(), body));
        }
        // The response body is ignored.
        match request.body(body.to_owned()).send().await.map_err(|error| error.to_string())?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the receiver answered {status}")),
        }
    }
}

/// Builds a client that connects only to allowed addresses and follows no redirects.
async fn client(policy: &WebhookPolicy) -> Result<reqwest::Client, String> {
    let builder = http_client().await.map_err(|error| error.to_string())?;
    let builder = builder.dns_resolver(AllowedAddresses(policy.clone()));
    builder.build().map_err(|error| error.to_string())
}

fn records(app: &App) -> Records<'_> {
    app.records(&["webhooks"])
}

/// A webhook that is not delivered yet, as stored.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Webhook {
    url: String,
    thread_id: String,
    body: Value,
    tries: Tries,
}

/// The number of attempts so far and the time of the next one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Tries {
    made: usize,
    /// Whether a process makes an attempt now.
    under_way: bool,
    /// The deadline of the attempt in flight, or else the time of the next one. Its text has a fixed length so that
    /// overdue attempts can be found by comparison.
    #[serde(serialize_with = "fixed_length")]
    until: Option<Timestamp>,
}

#[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn fixed_length<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(ids::time).serialize(serializer)
}

impl Tries {
    /// Returns how long to wait before the next attempt.
    fn pause(&self) -> Duration {
        let pause = self.until.map(|until| Timestamp::now().duration_until(until));
        pause.and_then(|pause| Duration::try_from(pause).ok()).unwrap_or_default()
    }
}

fn after(pause: Duration) -> Option<Timestamp> {
    Timestamp::now().checked_add(pause).ok()
}

/// Stores the webhook of a run. Called before the end of the run is stored.
pub(crate) async fn remember(app: &App, record: &RunRecord) -> Result<()> {
    if let Some(url) = &record.kwargs.webhook {
        let tries = Tries { until: Some(Timestamp::now()), ..Tries::default() };
        let (url, thread_id, body) = (url.clone(), record.thread_id.clone(), body(app, record).await?);
        records(app).put(&record.run_id, &Webhook { url, thread_id, body, tries }).await?;
    }
    Ok(())
}

/// Delivers the webhook of a finished run, if it has one.
pub(crate) fn send(app: &Arc<App>, record: &RunRecord) {
    if let Some(url) = &record.kwargs.webhook {
        send_stored(app, record.run_id.clone(), url, false);
    }
}

/// Delivers the stored webhook of a run, with as many attempts as needed. With `now`, the first attempt does not wait
/// for its time, unless another process is making one.
fn send_stored(app: &Arc<App>, run: String, url: &str, now: bool) {
    if !app.webhooks.lock().told_here.insert(run.clone()) {
        return;
    }
    let (app, turns) = (app.clone(), app.webhooks.host(url));
    tokio::spawn(async move {
        let mut now = now;
        loop {
            let pause = match attempt(&app, &run, &turns, now).await {
                Ok(None) => break,
                Ok(Some(pause)) => pause,
                Err(_) => STORAGE_RETRY_DELAY,
            };
            now = false;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = app.closed() => break,
            }
        }
        app.webhooks.lock().told_here.remove(&run);
    });
}

/// Makes an attempt if one is due. Returns how long to wait before the next one, or `None` if delivery is finished.
async fn attempt(app: &App, run: &str, turns: &Semaphore, now: bool) -> Result<Option<Duration>, StoreError> {
    // The semaphores are never closed.
    let _of_host = turns.acquire().await;
    let _turn = app.webhooks.at_once.acquire().await;
    let Some(item) = records(app).item(run).await? else { return Ok(None) };
    let known = item.version;
    let Some(mut webhook) = read::<Webhook>(item) else { return Ok(None) };
    let pause = webhook.tries.pause();
    if !pause.is_zero() && (webhook.tries.under_way || !now) {
        return Ok(Some(pause));
    }
    // The conditional write lets only one process make the attempt.
    let made = webhook.tries.made + 1;
    webhook.tries = Tries { made, under_way: true, until: after(RESPONSE_TIMEOUT + STORAGE_RETRY_DELAY) };
    let Some(claimed) = records(app).replace(run, &webhook, Some(known)).await? else {
        return Ok(Some(Duration::from_secs(1)));
    };
    let mut body = webhook.body.clone();
    set(&mut body, "webhook_sent_at", ids::now());
    let sent = tokio::time::timeout(RESPONSE_TIMEOUT, app.webhooks.post(&webhook.url, &body.to_string())).await;
    let pause = RETRY_DELAYS.get(made - 1).copied().filter(|_| !matches!(sent, Ok(Ok(()))));
    let Some(pause) = pause else {
        // The webhook was delivered or given up. Retry the deletion, or it would be sent again.
        while records(app).delete(run).await.is_err() {
            tokio::select! {
                () = tokio::time::sleep(STORAGE_RETRY_DELAY) => {}
                () = app.closed() => break,
            }
        }
        return Ok(None);
    };
    webhook.tries = Tries { made, under_way: false, until: after(pause) };
    // On a conflict, another process has taken over.
    records(app).replace(run, &webhook, Some(claimed)).await?;
    Ok(Some(pause))
}

/// Builds the body: the run and its final values.
async fn body(app: &App, record: &RunRecord) -> Result<Value> {
    let mut body = record.shown();
    let values = match app.journal.threads().get(&record.thread_id).await? {
        Some(info) => {
            let state = record.last_state(&app.threads_of(&info)?).await?;
            final_values(&record.thread_id, &state, None)?
        }
        None => Value::Null,
    };
    set(&mut body, "run_started_at", record.started_at.as_deref().unwrap_or(&record.created_at));
    set(&mut body, "run_ended_at", record.updated_at.as_str());
    set(&mut body, "values", values);
    if record.error.is_none() {
        remove(&mut body, "error");
    }
    Ok(body)
}

/// Delivers webhooks that an earlier process left undelivered.
pub(crate) async fn recover(app: &Arc<App>) -> Result<(), StoreError> {
    adopt(app, &Query::default(), true).await
}

/// Delivers webhooks that another process should have delivered a while ago.
pub(crate) async fn adopt_overdue(app: &Arc<App>) -> Result<(), StoreError> {
    let before = Timestamp::now().checked_sub(MAX_OVERDUE).map(ids::time).unwrap_or_default();
    let mut query = Query::default();
    query.filters.push(Filter::new("tries.until".to_owned(), Comparison::Below(json!(before))));
    adopt(app, &query, false).await
}

async fn adopt(app: &Arc<App>, query: &Query, now: bool) -> Result<(), StoreError> {
    for item in records(app).search(query).await? {
        let run = item.key.clone();
        let Some(Webhook { url, thread_id, .. }) = read(item) else { continue };
        match find(app, &thread_id, &run).await {
            // The webhook is sent when the run ends.
            Ok(record) if record.is_unfinished() => {}
            _ => send_stored(app, run, &url, now),
        }
    }
    Ok(())
}

/// Returns the signature header for a body sent at this time.
fn signature(secret: &str, seconds: i64, body: &str) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={digits}")
}
