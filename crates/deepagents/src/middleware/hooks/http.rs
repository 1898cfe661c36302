//! Hooks that are services.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Hook, HookAnswer};

/// A request to a service that is a hook: its input, to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookRequest {
    /// The address.
    pub url: String,
    /// Headers, by name.
    pub headers: Vec<(String, String)>,
    /// The variable that holds the secret which the request is signed with, if it is to be signed.
    pub secret_env: Option<String>,
    /// The body: the hook's input as JSON.
    pub body: String,
}

/// What a service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends requests to services that are hooks. The library opens no sockets and reads no environment, so an application
/// brings one; how a request is signed is its matter too.
pub trait HookSender: Send + Sync + 'static {
    /// Posts a request and gives the answer, whatever its status. Dropping the future gives the request up.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    fn send(&self, request: HookRequest) -> BoxFuture<'_, Result<HookResponse, String>>;
}

/// Asks a service. An answer of the status 2xx is read as what a command prints; another means that it is broken.
pub(super) async fn ask(
    hook: &Hook,
    request: HookRequest,
    sender: &dyn HookSender,
    cancel: CancellationToken,
) -> Result<HookAnswer, String> {
    let answer = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err("it was ended: cancelled".to_owned()),
        answer = tokio::time::timeout(hook.timeout, sender.send(request)) => answer,
    };
    let response = answer.map_err(|_| format!("it was ended: timed out after {} s", hook.timeout.as_secs_f64()))??;
    if !(200..300).contains(&response.status) {
        return Err(format!("it answered with HTTP status {}", response.status));
    }
    HookAnswer::read(hook, 0, &response.body, "")
}
