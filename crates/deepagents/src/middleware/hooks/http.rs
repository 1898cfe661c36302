//! Hooks that are HTTP services.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Hook, HookAnswer};

/// A POST request to a service with a hook's input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookRequest {
    /// The URL.
    pub url: String,
    /// Headers, by name.
    pub headers: Vec<(String, String)>,
    /// The environment variable with the secret that signs the request, if it is to be signed.
    pub secret_env: Option<String>,
    /// The body: the hook's input as JSON.
    pub body: String,
}

/// The response of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends requests to services that are hooks. The library opens no sockets and reads no environment variables, so the
/// application provides a sender, which also defines how requests are signed.
pub trait HookSender: Send + Sync + 'static {
    /// Posts a request and returns the response, whatever its status. Dropping the future abandons the request.
    ///
    /// # Errors
    /// Returns a description of why there is no response.
    fn send(&self, request: HookRequest) -> BoxFuture<'_, Result<HookResponse, String>>;
}

/// Calls a service. A response with a 2xx status is parsed like the output of a command; any other means that the hook
/// is broken.
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
