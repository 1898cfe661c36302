//! A model for the screens, which answers at a steady pace.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::WAIT_TIMEOUT;

/// A Chat Completions server that answers every request with the given number of words and a pause after each.
pub(super) struct Model {
    pub(super) url: String,
    requests: Receiver<Instant>,
}

impl Model {
    pub(super) fn start(words: usize, pause: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let (arrived, requests) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let arrived = arrived.clone();
                // An error means that the client disconnected.
                thread::spawn(move || drop(answer(stream, &arrived, words, pause)));
            }
        });
        Ok(Self { url, requests })
    }

    /// Returns when the next complete request arrived.
    pub(super) fn next_request(&self) -> Result<Instant> {
        self.requests.recv_timeout(WAIT_TIMEOUT).context("no request came to the model")
    }
}

fn answer(mut stream: TcpStream, arrived: &Sender<Instant>, words: usize, pause: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while reader.read_line(&mut head)? > 2 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        length = line.strip_prefix("content-length:").and_then(|rest| rest.trim().parse().ok()).unwrap_or(length);
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    if !head.starts_with("POST") {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    // The receiver is dropped when the measurement has ended.
    let _ = arrived.send(Instant::now());
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for _ in 0..words {
        stream.write_all(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n")?;
        thread::sleep(pause);
    }
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    stream.write_all(end.as_bytes())
}
