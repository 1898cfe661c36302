//! The address of this machine that a browser is sent back to.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where it is sent.
const PATH: &str = "/callback";
/// Bytes of a request that are read.
const MOST: usize = 16 * 1024;

/// Waits for a browser on an address that only this machine reaches.
pub(super) struct Callback {
    listener: TcpListener,
    /// The address.
    pub(super) url: String,
}

impl Callback {
    /// Opens it at a port, or at any free one.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let url = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, url })
    }

    /// The address that the browser came back with, the answer of the login in it.
    pub(super) async fn wait(&self) -> io::Result<String> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let Ok(Some(target)) = target(&mut stream).await else { continue };
            if let Some(query) = target.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('?')) {
                // A browser that has gone needs no page.
                let _ =
                    answer(&mut stream, "200 OK", "Done. You can close this page and go back to the terminal.").await;
                return Ok(format!("{}?{query}", self.url));
            }
            let _ = answer(&mut stream, "404 Not Found", "There is nothing here.").await;
        }
    }
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
    let page = format!("<!doctype html><meta charset=utf-8><title>deepagents</title><p>{text}</p>");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}
