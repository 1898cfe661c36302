//! The requests of the LangGraph API.

use reqwest::Method;
use serde_json::{Value, json};

use crate::error::RemoteError;
use crate::http::{EventBody, Failure, Http};

/// Maximum number of a thread's runs searched for a run of ours.
const MAX_LISTED_RUNS: usize = 100;
/// The metadata key under which a run records the key of the call that started it.
const KEY: &str = "deepagents_call";

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunStatus(pub(super) String);

impl RunStatus {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.0.as_str(), "pending" | "running")
    }
}

/// The requests to one agent of a server.
pub(super) struct Api {
    pub(super) http: Http,
    assistant: String,
}

impl Api {
    pub(super) fn new(http: Http, assistant: String) -> Self {
        Self { http, assistant }
    }

    /// Creates a thread, unless it exists.
    pub(super) async fn make_thread(&self, thread: &str, key: &str) -> Result<(), RemoteError> {
        let body = json!({"thread_id": thread, "if_exists": "do_nothing", "metadata": {KEY: key}});
        let made = self.http.send_with_retries("a thread", Method::POST, self.http.url("threads")?, Some(&body)).await;
        match made {
            // Servers that do not support `if_exists` return 409 if the thread exists.
            Ok(_) | Err(RemoteError::Refused { status: 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Starts a run. A thread has one run at a time, so that the same run cannot be started twice.
    pub(super) async fn create_run(&self, thread: &str, key: &str, input: &Value) -> Result<String, Failure> {
        let mut body = json!({
            "assistant_id": self.assistant, "metadata": {KEY: key}, "multitask_strategy": "reject",
            "stream_mode": ["messages-tuple", "updates", "custom"], "stream_subgraphs": true, "stream_resumable": true,
            "on_disconnect": "continue",
        });
        if let (Some(body), Some(input)) = (body.as_object_mut(), input.as_object()) {
            body.extend(input.clone());
        }
        let url = self.http.url(&format!("threads/{thread}/runs")).map_err(Failure::Final)?;
        let made = self.http.json("a run", Method::POST, url, Some(&body)).await?;
        match id_of(&made) {
            Some(id) => Ok(id),
            None => Err(Failure::Final(self.http.unreadable("a run", &"it has no `run_id`"))),
        }
    }

    async fn runs(&self, thread: &str) -> Result<Vec<Value>, RemoteError> {
        let url = self.http.url(&format!("threads/{thread}/runs?limit={MAX_LISTED_RUNS}"))?;
        let runs = self.http.send_with_retries("its runs", Method::GET, url, None).await?;
        match runs {
            Value::Array(runs) => Ok(runs),
            _ => Err(self.http.unreadable("its runs", &"it is not a list")),
        }
    }

    /// Returns the run with this key, if it was started.
    pub(super) async fn find_run(&self, thread: &str, key: &str) -> Result<Option<String>, RemoteError> {
        let runs = match self.runs(thread).await {
            // A server without this list cannot tell whether the run was started.
            Err(RemoteError::Refused { status: 404 | 405 | 501, .. }) => {
                return Err(RemoteError::InDoubt { host: self.http.host.clone() });
            }
            other => other?,
        };
        let carries = |run: &&Value| run.get("metadata").and_then(|metadata| metadata.get(KEY)?.as_str()) == Some(key);
        Ok(runs.iter().find(carries).and_then(id_of))
    }

    /// Cancels the active runs of a thread and waits for them to end.
    pub(super) async fn end_open_runs(&self, thread: &str) -> Result<(), RemoteError> {
        let runs = match self.runs(thread).await {
            Err(RemoteError::Refused { status: 404 | 405 | 501, .. }) => return Ok(()),
            other => other?,
        };
        for run in runs.iter().filter(|run| status_of(run).is_open()).filter_map(id_of) {
            match self.cancel_run(thread, &run, true).await {
                // The run has ended in the meantime.
                Ok(()) | Err(RemoteError::Refused { status: 404 | 409, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn cancel_run(&self, thread: &str, run: &str, waits: bool) -> Result<(), RemoteError> {
        let wait = u8::from(waits);
        let url = self.http.url(&format!("threads/{thread}/runs/{run}/cancel?wait={wait}&action=interrupt"))?;
        self.http.send_with_retries("the cancellation of a run", Method::POST, url, Some(&json!({}))).await.map(drop)
    }

    pub(super) async fn run_status(&self, thread: &str, run: &str) -> Result<RunStatus, RemoteError> {
        let url = self.http.url(&format!("threads/{thread}/runs/{run}"))?;
        Ok(status_of(&self.http.send_with_retries("its run", Method::GET, url, None).await?))
    }

    /// Returns the thread with its values and interrupts.
    pub(super) async fn thread(&self, thread: &str) -> Result<Value, RemoteError> {
        self.http.send_with_retries("its thread", Method::GET, self.http.url(&format!("threads/{thread}"))?, None).await
    }

    /// Returns why a run failed, if the server reports it.
    pub(super) async fn run_error(&self, thread: &str, run: &str) -> Option<String> {
        let url = self.http.url(&format!("threads/{thread}/runs/{run}/join")).ok()?;
        let values = self.http.send_with_retries("its run", Method::GET, url, None).await.ok()?;
        super::events::error_text(values.get("__error__")?)
    }

    /// Opens the stream of a run after an event.
    pub(super) async fn open_stream(&self, thread: &str, run: &str, last: &str) -> Result<EventBody, Failure> {
        let url = self.http.url(&format!("threads/{thread}/runs/{run}/stream")).map_err(Failure::Final)?;
        self.http.stream("the stream", Method::GET, url, None, Some(last)).await
    }
}

/// Returns the id of a run, if it is safe in a URL path.
fn id_of(run: &Value) -> Option<String> {
    let id = run.get("run_id").and_then(Value::as_str)?;
    let is_plain =
        !id.is_empty() && id.len() <= 128 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    is_plain.then(|| id.to_owned())
}

fn status_of(run: &Value) -> RunStatus {
    RunStatus(run.get("status").and_then(Value::as_str).unwrap_or("unknown").to_owned())
}
