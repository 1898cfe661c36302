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
mod tests;
