//! A single connection of a command.
//!
//! The proxy parses each request and writes it anew for the server. The target it checked is the one it connects to and
//! names in `Host`, and the body length follows from what was read. So no request can mean one thing to the proxy and
//! another to the server behind it (request smuggling).

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1::{Builder, Parts};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Gate;
use super::activity::Activity;
use super::refusal::Refusal;
use super::rewrite::{for_server, remove_hop_by_hop};
use crate::sandbox::hosts::Target;

/// Size limit of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Time limit for receiving a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Response to a head that takes longer.
const TIMEOUT_RESPONSE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// How long a client may go on sending after its request was answered.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) type Answer = Response<Either<Full<Bytes>, Incoming>>;

/// Serves one connection until it ends.
pub(super) async fn exchange(client: TcpStream, gate: &Gate) {
    let _ = client.set_nodelay(true);
    let activity = Activity::new();
    let tunnel = Mutex::new(None);
    let service = service_fn(|request| Box::pin(answer(request, gate, &tunnel, &activity)));
    let mut connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .half_close(true)
        .title_case_headers(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(activity.watch(client)), service);
    let served = tokio::select! {
        served = &mut connection => served,
        () = activity.ends() => return,
    };
    let Parts { io, read_buf, .. } = connection.into_parts();
    let mut client = io.into_inner();
    let server = tunnel.into_inner().unwrap_or_else(PoisonError::into_inner);
    let rest = async {
        if served.is_err_and(|error| error.is_timeout()) {
            client.write_all(TIMEOUT_RESPONSE).await?;
        } else if let Some(server) = server {
            let mut server = activity.watch(server);
            server.write_all(&read_buf).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        }
        client.shutdown().await?;
        // Closing the socket with unread bytes would discard data on its way to the client.
        let _ = timeout(LINGER_TIMEOUT, tokio::io::copy(&mut client, &mut tokio::io::sink())).await;
        std::io::Result::Ok(())
    };
    tokio::select! {
        // Client and server see for themselves how it ended.
        _ = rest => {}
        () = activity.ends() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    gate: &Gate,
    tunnel: &Mutex<Option<TcpStream>>,
    activity: &Activity,
) -> Result<Answer, Infallible> {
    let result = if request.method() == Method::CONNECT {
        open_tunnel(request.uri(), gate, tunnel).await
    } else {
        forward(request, gate, activity).await
    };
    Ok(result.unwrap_or_else(|refusal| refusal.answer()))
}

/// Connects to the target of a `CONNECT` request. Bytes flow once the client has the response.
async fn open_tunnel(uri: &Uri, gate: &Gate, tunnel: &Mutex<Option<TcpStream>>) -> Result<Answer, Refusal> {
    let authority = uri.authority().filter(|_| uri.scheme().is_none() && uri.path_and_query().is_none());
    let authority = authority.ok_or(Refusal::Bad("CONNECT takes a host and a port"))?;
    let server = gate.connect(&Target::parse(authority.as_str(), None).map_err(Refusal::Bad)?).await?;
    *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    Ok(Response::new(Either::Left(Full::default())))
}

/// Forwards one request of plain HTTP.
async fn forward(request: Request<Incoming>, gate: &Gate, activity: &Activity) -> Result<Answer, Refusal> {
    let (target, request) = for_server(request).map_err(Refusal::Bad)?;
    let server = gate.connect(&target).await?;
    let failed = |error: hyper::Error| Refusal::Unreachable { target: target.clone(), reason: error.to_string() };
    let mut client = hyper::client::conn::http1::Builder::new();
    let client = client.title_case_headers(true).handshake(TokioIo::new(activity.watch(server))).await;
    let (mut sender, connection) = client.map_err(failed)?;
    // Ends when the response is no longer read.
    tokio::spawn(connection);
    let (mut parts, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
    if parts.headers.contains_key(TRANSFER_ENCODING) {
        parts.headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(Response::from_parts(parts, Either::Right(body)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::super::activity::IDLE_TIMEOUT;
    use super::*;

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// Connects to a proxy that allows this port of the loopback.
    async fn client(port: u16) -> TcpStream {
        let allowed = vec![format!("127.0.0.1:{port}").parse().unwrap()];
        let gate = Gate { allowed, refused: Arc::default() };
        let (proxy, at) = listener().await;
        let client = TcpStream::connect(("127.0.0.1", at)).await.unwrap();
        let (connection, _) = proxy.accept().await.unwrap();
        tokio::spawn(async move { exchange(connection, &gate).await });
        client
    }

    /// Returns the two ends of a tunnel.
    async fn tunnel(early: &str) -> (TcpStream, TcpStream) {
        let (server, port) = listener().await;
        let mut client = client(port).await;
        client.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n{early}").as_bytes()).await.unwrap();
        let (server, _) = server.accept().await.unwrap();
        let mut answer = [0; 19];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        (client, server)
    }

    /// Returns the response to a request, and what each server received: the listed one and another. `LISTED` and
    /// `OTHER` in the text stand for their ports.
    async fn attempt(text: &[u8]) -> (String, Vec<String>) {
        let ((listed, port), (other, hidden)) = (listener().await, listener().await);
        let text = String::from_utf8_lossy(text).replace("LISTED", &port.to_string());
        let mut client = client(port).await;
        let _ = client.write_all(text.replace("OTHER", &hidden.to_string()).as_bytes()).await;
        let _ = client.shutdown().await;
        let seen = Mutex::new(Vec::new());
        let serve = async {
            loop {
                let (mut stream, _) = listed.accept().await.unwrap();
                let mut head = vec![0; 64 << 10];
                let length = stream.read(&mut head).await.unwrap_or_default();
                seen.lock().unwrap().push(String::from_utf8_lossy(&head[..length]).into_owned());
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
        };
        let mut answer = Vec::new();
        tokio::select! {
            _ = client.read_to_end(&mut answer) => {}
            () = serve => {}
            _ = other.accept() => panic!("a server that is not listed was reached by {text:?}"),
        }
        (String::from_utf8_lossy(&answer).into_owned(), seen.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_request_is_rewritten_for_its_server() {
        let asked = "POST http://127.0.0.1:LISTED?q HTTP/1.1\r\nHost: 127.0.0.1:OTHER\r\nAccept: */*\r\nX-Hop: 1\r\n\
                     Connection: keep-alive, x-hop, content-length\r\nProxy-Authorization: secret\r\n\
                     Upgrade: websocket\r\ncontent-length: 3\r\n\r\nabc";
        let (answer, seen) = attempt(asked.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhi"), "{answer}");
        let (head, body) = seen[0].split_once("\r\n\r\n").unwrap();
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        lines.sort_unstable();
        let host = lines.iter().position(|line| line.starts_with("Host: 127.0.0.1:")).unwrap();
        lines.remove(host);
        assert_eq!(lines, ["Accept: */*", "Connection: close", "Content-Length: 3", "POST /?q HTTP/1.1"]);
        assert!(body.is_empty() || body == "abc");
        assert!(!head.contains("OTHER") && seen.len() == 1);
    }

    #[tokio::test]
    async fn ambiguous_requests_are_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:LISTED\r\n",
            "GET https://127.0.0.1:LISTED/ HTTP/1.1\r\n",
            "GET http://127.0.0.1:LISTED@127.0.0.1:OTHER/ HTTP/1.1\r\n",
            "GET http://127.0.0.1:OTHER@127.0.0.1:LISTED/ HTTP/1.1\r\n",
            "GET http://127.0.0.1:OTHER/ HTTP/1.1\r\nHost: 127.0.0.1:LISTED\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/2\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n",
            "GET http://127.0.0.1:LISTED/ x HTTP/1.1\r\n",
            "GET http://127.0.0.1:LISTED/\tx HTTP/1.1\r\n",
            "GET http://127.1:LISTED/ HTTP/1.1\r\n",
            "GET http://0x7f000001:LISTED/ HTTP/1.1\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nContent-Length: +1\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nContent-Length : 1\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nA: b\r\n folded: c\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nA: b\rC: d\r\n",
            "GET http://127.0.0.1:LISTED/ HTTP/1.1\r\nA: b\0\r\n",
            "CONNECT 127.0.0.1 HTTP/1.1\r\n",
            "CONNECT 127.0.0.1:0 HTTP/1.1\r\n",
            "CONNECT a@127.0.0.1:LISTED HTTP/1.1\r\n",
            "CONNECT 127.0.0.1:LISTED/ HTTP/1.1\r\n",
            "CONNECT http://127.0.0.1:LISTED HTTP/1.1\r\n",
            "CONNECT 127.0.0.1:OTHER HTTP/1.1\r\nHost: 127.0.0.1:LISTED\r\n",
            "CONNECT :LISTED HTTP/1.1\r\n",
        ] {
            let (answer, seen) = attempt(format!("{text}\r\n").as_bytes()).await;
            assert!(seen.is_empty() && !answer.contains(" 200 "), "{text:?}: {answer} {seen:?}");
        }
    }

    #[tokio::test]
    async fn a_body_with_two_length_headers_is_sent_with_the_one_used_to_read_it() {
        for (first, second) in
            [("Transfer-Encoding: chunked", "Content-Length: 40"), ("Content-Length: 40", "Transfer-Encoding: chunked")]
        {
            let text = format!(
                "POST http://127.0.0.1:LISTED/ HTTP/1.1\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\nGET http://127.0.0.1:OTHER/ HTTP/1.1\r\n\r\n"
            );
            let (_, seen) = attempt(text.as_bytes()).await;
            assert_eq!(seen.len(), 1);
            assert!(seen[0].contains("Transfer-Encoding: chunked\r\n"), "{seen:?}");
            assert!(!seen[0].contains("Content-Length") && !seen[0].contains("GET"), "{seen:?}");
        }
    }

    #[tokio::test]
    async fn data_after_a_request_is_not_forwarded() {
        let second = "GET http://127.0.0.1:OTHER/ HTTP/1.1\r\nHost: 127.0.0.1:LISTED\r\n\r\n";
        let text = format!("GET http://127.0.0.1:LISTED/ HTTP/1.1\r\n\r\n{second}{second}");
        let (answer, seen) = attempt(text.as_bytes()).await;
        assert_eq!((answer.matches("hi").count(), seen.len()), (1, 1), "{answer}");
    }

    #[tokio::test]
    async fn a_head_with_many_headers_is_refused() {
        let headers = (0..200).map(|number| format!("A{number}: b\r\n")).collect::<String>();
        let (answer, seen) =
            attempt(format!("GET http://127.0.0.1:LISTED/ HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 ") && seen.is_empty(), "{answer}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn arbitrary_bytes_are_never_forwarded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            prop_assert!(runtime.block_on(attempt(&text)).1.is_empty());
        }

        #[test]
        fn a_forwarded_request_is_never_two_requests(value in "[ -~\r\n\t]{0,30}", path in "[ -~\r\n]{0,20}") {
            let text = format!("GET http://127.0.0.1:LISTED/{path} HTTP/1.1\r\nX: {value}\r\n\r\n");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (_, seen) = runtime.block_on(attempt(text.as_bytes()));
            for head in &seen {
                prop_assert_eq!(head.find("\r\n\r\n"), Some(head.len() - 4));
                prop_assert_eq!(head.matches("Connection: close\r\n").count(), 1);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_tunnel_is_closed() {
        let (mut client, mut server) = tunnel("").await;
        let started = Instant::now();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert!((IDLE_TIMEOUT..IDLE_TIMEOUT + LINGER_TIMEOUT).contains(&started.elapsed()), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_stays_open_while_one_side_sends() {
        let (mut client, mut server) = tunnel("").await;
        for _ in 0..5 {
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            server.write_all(b"x").await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 1);
        }
        drop(server);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_one_half_of_a_tunnel_leaves_the_other_open() {
        let (mut client, mut server) = tunnel("at ").await;
        client.write_all(b"all").await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.unwrap();
        server.write_all(b"answer").await.unwrap();
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!((received.as_slice(), answer.as_slice()), (&b"at all"[..], &b"answer"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_request_times_out() {
        let mut client = client(1).await;
        client.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n").await.unwrap();
        let started = Instant::now();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(started.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_truncated_body_is_not_forwarded_as_complete() {
        let (server, port) = listener().await;
        let mut client = client(port).await;
        let head = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        client.write_all(head.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let (mut server, _) = server.accept().await.unwrap();
        let mut received = Vec::new();
        let _ = server.read_to_end(&mut received).await;
        let received = String::from_utf8(received).unwrap();
        assert!(!received.contains("Content-Length") && !received.ends_with("0\r\n\r\n"), "{received}");
    }
}
