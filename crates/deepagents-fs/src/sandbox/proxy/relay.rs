//! One connection of a command.

use std::io::{ErrorKind, Result};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::Gate;
use super::refusal::Refusal;
use super::request::{Body, Request, chunk_size};

/// Bytes of the head of a request, and of the line before a chunk.
const HEAD: u64 = 64 << 10;
const CHUNK_LINE: u64 = 256;
/// Bytes on their way in one direction.
const BUFFER: usize = 16 << 10;
/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long nothing may move on a connection.
const IDLE: Duration = Duration::from_secs(300);
/// How long a client may go on sending when there is nobody to listen any more.
const LINGER: Duration = Duration::from_secs(2);

/// Serves one connection to its end.
pub(super) async fn exchange(mut client: TcpStream, gate: &Gate) {
    let _ = client.set_nodelay(true);
    let (reader, mut writer) = client.split();
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    match meet(&mut reader, gate).await {
        Ok((request, mut server)) => {
            let _ = server.set_nodelay(true);
            // How it ended is for client and server to see.
            let _ = pass(&request, &mut reader, &mut writer, &mut server).await;
        }
        Err(Refusal::Gone) => {}
        Err(refusal) => {
            let _ = writer.write_all(refusal.answer().as_bytes()).await;
        }
    }
    // Closing with bytes unread would take back what is on its way to the client.
    let _ = writer.shutdown().await;
    let mut rest = tokio::io::sink();
    let _ = timeout(LINGER, tokio::io::copy_buf(&mut reader, &mut rest)).await;
}

/// Hears what the client wants, and connects.
async fn meet(
    client: &mut (impl AsyncBufRead + Unpin),
    gate: &Gate,
) -> std::result::Result<(Request, TcpStream), Refusal> {
    let lines = timeout(HEAD_TIME, head(client)).await.map_err(|_| Refusal::Late)??;
    let request = Request::parse(&lines).map_err(Refusal::Bad)?;
    let server = gate.connect(request.target()).await?;
    Ok((request, server))
}

/// The lines up to the empty one.
async fn head(client: &mut (impl AsyncBufRead + Unpin)) -> std::result::Result<Vec<Vec<u8>>, Refusal> {
    let (mut lines, mut left) = (Vec::new(), HEAD);
    loop {
        let line = line(client, left).await.map_err(|_| Refusal::Gone)?;
        left = left.saturating_sub(line.len() as u64);
        if !line.ends_with(b"\n") {
            return Err(if left == 0 { Refusal::TooLong } else { Refusal::Gone });
        }
        if line == b"\r\n" {
            return Ok(lines);
        }
        lines.push(line);
    }
}

/// A line with its end, or what there is of it within the bound.
async fn line(client: &mut (impl AsyncBufRead + Unpin), bound: u64) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    client.take(bound).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// Passes on what client and server say, until they are done or fall silent.
async fn pass(
    request: &Request,
    client: &mut (impl AsyncBufRead + Unpin),
    back: &mut (impl AsyncWrite + Unpin),
    server: &mut TcpStream,
) -> Result<()> {
    let pulse = Pulse::new();
    let (mut from_server, mut to_server) = server.split();
    let talk = async {
        match request {
            Request::Tunnel(_) => {
                back.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
                tokio::try_join!(
                    copy(client, &mut to_server, u64::MAX, &pulse, true),
                    copy(&mut from_server, back, u64::MAX, &pulse, true)
                )?;
                Ok(())
            }
            Request::Plain { head, body, .. } => {
                let there = async {
                    if request_to(client, &mut to_server, head, *body, &pulse).await.is_err() {
                        // A request that broke off must not look like a whole one; its answer may come all the same.
                        to_server.shutdown().await?;
                    }
                    std::future::pending::<Result<()>>().await
                };
                tokio::select! {
                    answered = copy(&mut from_server, back, u64::MAX, &pulse, true) => answered.map(drop),
                    Err(error) = there => Err(error),
                }
            }
        }
    };
    tokio::select! {
        result = talk => result,
        () = pulse.stops() => Err(ErrorKind::TimedOut.into()),
    }
}

/// Sends a request. What comes after it stays where it is: it would not have been looked at.
async fn request_to(
    client: &mut (impl AsyncBufRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
    head: &[u8],
    body: Body,
    pulse: &Pulse,
) -> Result<()> {
    server.write_all(head).await?;
    if let Body::Length(length) = body {
        return exactly(client, server, length, pulse).await;
    }
    loop {
        let size = chunk_size(&line(client, CHUNK_LINE).await?).ok_or(ErrorKind::InvalidData)?;
        server.write_all(format!("{size:x}\r\n").as_bytes()).await?;
        exactly(client, server, size, pulse).await?;
        server.write_all(b"\r\n").await?;
        // What may follow the last chunk is left where it is too.
        if size == 0 {
            return Ok(());
        }
        if line(client, 2).await? != b"\r\n" {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

async fn exactly(
    client: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
    length: u64,
    pulse: &Pulse,
) -> Result<()> {
    match copy(client, server, length, pulse, false).await? {
        sent if sent == length => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Copies up to so many bytes, and tells how many there were. At the end of all there is the far side is told, if asked.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    length: u64,
    pulse: &Pulse,
    tell_end: bool,
) -> Result<u64> {
    let mut from = from.take(length);
    let mut buffer = vec![0; BUFFER];
    let mut copied = 0;
    loop {
        let piece = from.read(&mut buffer).await?;
        if piece == 0 {
            break;
        }
        pulse.beat();
        to.write_all(buffer.get(..piece).unwrap_or_default()).await?;
        pulse.beat();
        copied += piece as u64;
    }
    if tell_end {
        to.shutdown().await?;
    }
    Ok(copied)
}

/// When something last moved.
struct Pulse(Mutex<Instant>);

impl Pulse {
    fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until nothing has moved for too long.
    async fn stops(&self) {
        loop {
            let end = self.last() + IDLE;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::TcpListener;

    use super::*;

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A connection to a proxy that lets this port of the loopback be reached.
    async fn client(port: u16) -> TcpStream {
        let allowed = vec![format!("127.0.0.1:{port}").parse().unwrap()];
        let gate = Gate { allowed, refused: Arc::default() };
        let (proxy, at) = listener().await;
        let client = TcpStream::connect(("127.0.0.1", at)).await.unwrap();
        let (connection, _) = proxy.accept().await.unwrap();
        tokio::spawn(async move { exchange(connection, &gate).await });
        client
    }

    /// The two ends of a tunnel.
    async fn tunnel() -> (TcpStream, TcpStream) {
        let (server, port) = listener().await;
        let mut client = client(port).await;
        client.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let (server, _) = server.accept().await.unwrap();
        let mut answer = [0; 26];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 Connected\r\n\r\n");
        (client, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_on_which_nothing_moves_is_closed() {
        let (mut client, mut server) = tunnel().await;
        let started = Instant::now();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert!((IDLE..IDLE + LINGER).contains(&started.elapsed()), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_stays_open_while_one_side_speaks() {
        let (mut client, mut server) = tunnel().await;
        for _ in 0..5 {
            tokio::time::sleep(IDLE / 2).await;
            server.write_all(b"x").await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 1);
        }
        drop(server);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_that_is_closed_leaves_the_other_open() {
        let (mut client, mut server) = tunnel().await;
        client.write_all(b"all").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        server.write_all(b"answer").await.unwrap();
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!((heard.as_slice(), answer.as_slice()), (&b"all"[..], &b"answer"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_come_is_not_waited_for() {
        let mut client = client(1).await;
        client.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n").await.unwrap();
        let started = Instant::now();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(started.elapsed().as_secs(), HEAD_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_breaks_off_does_not_look_whole() {
        let (server, port) = listener().await;
        let mut client = client(port).await;
        let head = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        client.write_all(head.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let (mut server, _) = server.accept().await.unwrap();
        let mut heard = String::new();
        server.read_to_string(&mut heard).await.unwrap();
        assert!(heard.ends_with("\r\n\r\n5\r\nab"), "{heard}");
    }
}
