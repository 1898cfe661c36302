//! Tests of the proxy with raw connections, as commands may make them.

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
    let (answer, seen) = attempt(format!("GET http://127.0.0.1:LISTED/ HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
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
