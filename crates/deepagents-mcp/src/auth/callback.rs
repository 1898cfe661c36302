//! The local redirect URI for the browser.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{LoginError, form_value};
use crate::text;

/// Path of the redirect URI.
const PATH: &str = "/callback";
/// Maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// Timeout for receiving a request. Browsers open connections that they do not use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 64;

/// Waits for the browser on a loopback address.
pub(super) struct Callback {
    listener: TcpListener,
    /// The redirect URI.
    pub(super) url: String,
}

/// The outcome of a request.
enum CallbackOutcome {
    /// The request does not belong to this login.
    Unrelated,
    /// The login succeeded; the query of the redirect.
    Succeeded(String),
    /// The login was refused; the reason.
    Refused(String),
}

impl Callback {
    /// Listens on a port, or on any free one.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let url = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, url })
    }

    /// Waits for the response to the login with this state. Returns the full redirect URL.
    pub(super) async fn wait(&self, state: &str) -> Result<String, LoginError> {
        let mut connections: JoinSet<CallbackOutcome> = JoinSet::new();
        loop {
            let said = tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    // The connection was aborted, or too many files are open. The browser will retry.
                    let Ok((stream, _)) = accepted else {
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    };
                    let state = state.to_owned();
                    connections.spawn(async move { serve(stream, &state).await });
                    continue;
                }
                Some(said) = connections.join_next() => said.unwrap_or(CallbackOutcome::Unrelated),
            };
            match said {
                CallbackOutcome::Unrelated => {}
                CallbackOutcome::Succeeded(query) => return Ok(format!("{}?{query}", self.url)),
                CallbackOutcome::Refused(words) => return Err(LoginError::Declined(words)),
            }
        }
    }
}

/// Handles a connection.
async fn serve(mut stream: TcpStream, state: &str) -> CallbackOutcome {
    let Ok(Ok(Some(target))) = timeout(REQUEST_TIMEOUT, target(&mut stream)).await else {
        return CallbackOutcome::Unrelated;
    };
    let (said, status, words) = match target.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('?')) {
        None => (CallbackOutcome::Unrelated, "404 Not Found", "There is no such page.".to_owned()),
        Some(query) => read(query, state),
    };
    // The browser may have disconnected.
    let _ = timeout(REQUEST_TIMEOUT, answer(&mut stream, status, &words)).await;
    said
}

/// Interprets the query for the login with this state. Returns the outcome with the status and page for the browser.
fn read(query: &str, state: &str) -> (CallbackOutcome, &'static str, String) {
    let value = |name: &str| form_value(query, name);
    if value("state").as_deref() != Some(state) {
        let words = "This is not the answer to the login in progress.".to_owned();
        return (CallbackOutcome::Unrelated, "400 Bad Request", words);
    }
    if let Some(error) = value("error") {
        let description = value("error_description").unwrap_or_default();
        let words = [error, description].map(|words| text::line(&words, 300));
        let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
        return (CallbackOutcome::Refused(words.clone()), "200 OK", format!("The login was refused. {words}"));
    }
    if value("code").is_none() {
        return (CallbackOutcome::Unrelated, "400 Bad Request", "This is not an answer to a login.".to_owned());
    }
    let done = "Done. You can close this page and go back to the terminal.".to_owned();
    (CallbackOutcome::Succeeded(query.to_owned()), "200 OK", done)
}

/// Reads a request and returns its target.
async fn target(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        request.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    Ok(words.next().filter(|method| *method == "GET").and_then(|_| words.next()).map(str::to_owned))
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    // Text from the issuer must not be interpreted as HTML.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = format!("<!doctype html><meta charset=utf-8><title>deepagents</title><p>{text}</p>");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}
