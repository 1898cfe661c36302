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

/// A redirect with a code. The browser waits for what comes of it.
pub(super) struct Redirect {
    /// The full URL.
    pub(super) url: String,
    stream: TcpStream,
}

impl Redirect {
    /// Shows the outcome of the login in the browser.
    pub(super) async fn show(mut self, outcome: &Result<(), LoginError>) {
        let words = match outcome {
            Ok(()) => "Done. You can close this page and go back to the terminal.".to_owned(),
            Err(error) => format!("The login failed: {error}"),
        };
        send_page(&mut self.stream, "200 OK", &words).await;
    }
}

/// The outcome of a request.
enum CallbackOutcome {
    /// The request does not belong to this login.
    Unrelated,
    /// The issuer grants the login.
    Granted(Redirect),
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

    /// Waits for the response to the login with this state.
    pub(super) async fn wait(&self, state: &str) -> Result<Redirect, LoginError> {
        let mut connections: JoinSet<CallbackOutcome> = JoinSet::new();
        loop {
            let said = tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    // The connection was aborted, or too many files are open. The browser will retry.
                    let Ok((stream, _)) = accepted else {
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    };
                    let (url, state) = (self.url.clone(), state.to_owned());
                    connections.spawn(async move { serve(stream, &url, &state).await });
                    continue;
                }
                Some(said) = connections.join_next() => said.unwrap_or(CallbackOutcome::Unrelated),
            };
            match said {
                CallbackOutcome::Unrelated => {}
                CallbackOutcome::Granted(redirect) => return Ok(redirect),
                CallbackOutcome::Refused(words) => return Err(LoginError::Declined(words)),
            }
        }
    }
}

/// What a query says about a login.
enum Reading {
    Granted,
    Refused(String),
    /// It does not belong to this login.
    Unrelated(&'static str),
}

/// Handles a connection to the redirect URI.
async fn serve(mut stream: TcpStream, url: &str, state: &str) -> CallbackOutcome {
    let Ok(Ok(Some(target))) = timeout(REQUEST_TIMEOUT, target(&mut stream)).await else {
        return CallbackOutcome::Unrelated;
    };
    let Some(query) = target.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('?')) else {
        send_page(&mut stream, "404 Not Found", "There is no such page.").await;
        return CallbackOutcome::Unrelated;
    };
    match read(query, state) {
        Reading::Granted => CallbackOutcome::Granted(Redirect { url: format!("{url}?{query}"), stream }),
        Reading::Refused(words) => {
            send_page(&mut stream, "200 OK", &format!("The login was refused. {words}")).await;
            CallbackOutcome::Refused(words)
        }
        Reading::Unrelated(words) => {
            send_page(&mut stream, "400 Bad Request", words).await;
            CallbackOutcome::Unrelated
        }
    }
}

/// Interprets the query for the login with this state.
fn read(query: &str, state: &str) -> Reading {
    let value = |name: &str| form_value(query, name);
    if value("state").as_deref() != Some(state) {
        return Reading::Unrelated("This is not the answer to the login in progress.");
    }
    if let Some(error) = value("error") {
        let description = value("error_description").unwrap_or_default();
        let words = [error, description].map(|words| text::line(&words, 300));
        let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
        return Reading::Refused(words);
    }
    match value("code") {
        Some(_) => Reading::Granted,
        None => Reading::Unrelated("This is not an answer to a login."),
    }
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

/// Sends a page. The browser may have disconnected.
async fn send_page(stream: &mut TcpStream, status: &str, words: &str) {
    let _ = timeout(REQUEST_TIMEOUT, answer(stream, status, words)).await;
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
