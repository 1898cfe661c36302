//! An OTLP receiver over HTTP and gRPC that parses messages with the official protocol crate.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// How a receiver handles a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    Takes,
    /// Accepts it, but rejects this many spans.
    Refuses(i64),
    /// Fails with this HTTP or gRPC status.
    Fails(u16),
    /// Fails once, then accepts.
    FailsOnce(u16),
    /// Is busy once, for this many seconds or until this date.
    BusyOnce(&'static str),
    Hangs,
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) traces: Vec<ExportTraceServiceRequest>,
    pub(crate) metrics: Vec<ExportMetricsServiceRequest>,
    pub(crate) headers: Vec<HeaderMap>,
    pub(crate) requests: usize,
}

impl Received {
    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.traces.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) received: Arc<Mutex<Received>>,
    accepting: AbortHandle,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Receiver {
    pub(crate) async fn start(grpc: bool, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Received>> = Arc::default();
        let shared = received.clone();
        let accepting = tokio::spawn(async move {
            // Dropped with the receiver, which closes the connections.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let received = shared.clone();
                let service = service_fn(move |request| answer(request, received.clone(), grpc, behaviour));
                let io = TokioIo::new(stream);
                if grpc {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    connections.spawn(async move { drop(server.serve_connection(io, service).await) });
                } else {
                    let server = hyper::server::conn::http1::Builder::new();
                    connections.spawn(async move { drop(server.serve_connection(io, service).await) });
                }
            }
        });
        Self { address, received, accepting: accepting.abort_handle() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn answer(
    request: Request<Incoming>,
    received: Arc<Mutex<Received>>,
    grpc: bool,
    behaviour: Behaviour,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let first = {
        let mut received = received.lock().unwrap();
        received.requests += 1;
        received.headers.push(head.headers.clone());
        received.requests == 1
    };
    let fails = match behaviour {
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::Fails(status) => Some(status),
        Behaviour::FailsOnce(status) if first => Some(status),
        Behaviour::BusyOnce(_) if first => Some(429),
        _ => None,
    };
    if let Some(status) = fails {
        let answer = Response::builder();
        let answer = if grpc { answer.header("grpc-status", status) } else { answer.status(status) };
        let answer = match behaviour {
            Behaviour::BusyOnce(until) => answer.header("retry-after", until),
            _ => answer,
        };
        return Ok(answer.body(Full::new(Bytes::from("not now")).boxed()).unwrap());
    }
    let message = if grpc { body.slice(5..) } else { body };
    let json = head.headers["content-type"] == "application/json";
    let mut received = received.lock().unwrap();
    let metrics = head.uri.path().contains("etrics");
    match (metrics, json) {
        (true, true) => received.metrics.push(serde_json::from_slice(&message).unwrap()),
        (true, false) => received.metrics.push(ExportMetricsServiceRequest::decode(message).unwrap()),
        (false, true) => received.traces.push(serde_json::from_slice(&message).unwrap()),
        (false, false) => received.traces.push(ExportTraceServiceRequest::decode(message).unwrap()),
    }
    drop(received);
    let mut taken = ExportTraceServiceResponse::default();
    if let (Behaviour::Refuses(rejected_spans), false) = (behaviour, metrics) {
        let error_message = "too old".to_owned();
        taken.partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
    }
    let taken = if json { serde_json::to_vec(&taken).unwrap() } else { taken.encode_to_vec() };
    if !grpc {
        return Ok(Response::new(Full::new(Bytes::from(taken)).boxed()));
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(taken.len().try_into().unwrap());
    framed.put_slice(&taken);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(framed.freeze())), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    Ok(Response::builder().header("content-type", "application/grpc").body(BodyExt::boxed(body)).unwrap())
}
