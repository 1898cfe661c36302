//! The address of this machine that a browser is sent back to.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{LoginError, form_value};
use crate::text;

/// Where it is sent.
const PATH: &str = "/callback";
/// Bytes of a request that are read.
const MOST: usize = 16 * 1024;
/// How long a connection may take to send its request. Browsers open some that they do not use.
const REQUEST: Duration = Duration::from_secs(5);
/// Between one that could not be taken and the next.
const REFUSED: Duration = Duration::from_millis(50);
/// Connections that are waited for at once.
const CONNECTIONS: usize = 64;

/// Waits for a browser on an address that only this machine reaches.
pub(super) struct Callback {
    listener: TcpListener,
    /// The address.
    pub(super) url: String,
}

/// What a request says of the login.
enum Said {
    /// It is about no login, or about another one.
    Nothing,
    /// It was agreed to; with the query that says so.
    Agreed(String),
    /// It was refused, in these words.
    Refused(String),
}

impl Callback {
    /// Opens it at a port, or at any free one.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let url = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, url })
    }

    /// The address that the browser came back with, the answer of the login with this state in it.
    pub(super) async fn wait(&self, state: &str) -> Result<String, LoginError> {
        let mut connections: JoinSet<Said> = JoinSet::new();
        loop {
            let said = tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    // A connection that was given up, or too many open files: the browser comes again.
                    let Ok((stream, _)) = accepted else {
                        sleep(REFUSED).await;
                        continue;
                    };
                    let state = state.to_owned();
                    connections.spawn(async move { serve(stream, &state).await });
                    continue;
                }
                Some(said) = connections.join_next() => said.unwrap_or(Said::Nothing),
            };
            match said {
                Said::Nothing => {}
                Said::Agreed(query) => return Ok(format!("{}?{query}", self.url)),
                Said::Refused(words) => return Err(LoginError::Declined(words)),
            }
        }
    }
}

/// Answers a connection.
async fn serve(mut stream: TcpStream, state: &str) -> Said {
    let Ok(Ok(Some(target))) = timeout(REQUEST, target(&mut stream)).await else { return Said::Nothing };
    let (said, status, words) = match target.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('?')) {
        None => (Said::Nothing, "404 Not Found", "There is no such page.".to_owned()),
        Some(query) => read(query, state),
    };
    // A browser that has gone needs no page.
    let _ = timeout(REQUEST, answer(&mut stream, status, &words)).await;
    said
}

/// What a query says of the login with this state, and what the browser shows.
fn read(query: &str, state: &str) -> (Said, &'static str, String) {
    let value = |name: &str| form_value(query, name);
    if value("state").as_deref() != Some(state) {
        let words = "This is not the answer to the login in progress.".to_owned();
        return (Said::Nothing, "400 Bad Request", words);
    }
    if let Some(error) = value("error") {
        let description = value("error_description").unwrap_or_default();
        let words = [error, description].map(|words| text::line(&words, 300));
        let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
        return (Said::Refused(words.clone()), "200 OK", format!("The login was refused. {words}"));
    }
    if value("code").is_none() {
        return (Said::Nothing, "400 Bad Request", "This is not an answer to a login.".to_owned());
    }
    let done = "Done. You can close this page and go back to the terminal.".to_owned();
    (Said::Agreed(query.to_owned()), "200 OK", done)
}

/// What the request is for.
async fn target(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST {
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
    // What an issuer says is shown as a text, whatever it is.
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
