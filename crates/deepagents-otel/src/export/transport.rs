//! Transports to a destination.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::client::place;
use super::file::LineFile;
use super::grpc::Grpc;
use super::http::Http;
use super::{Endpoint, ExportError, Protocol};

/// The contents of a request.
pub(super) enum Batch {
    Traces(ExportTraceServiceRequest),
    Metrics(ExportMetricsServiceRequest),
}

/// An encoded batch and its signal.
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) signal: Signal,
}

/// The kind of data exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

/// A transport to a destination.
pub(super) enum Transport {
    Http(Http),
    Grpc(Grpc),
    File(LineFile),
}

impl Transport {
    /// Creates a transport. Checks the address and the headers, but does not connect yet.
    pub(super) fn open(endpoint: &Endpoint) -> Result<Self, ExportError> {
        Ok(match endpoint.protocol {
            Protocol::HttpProtobuf | Protocol::HttpJson => Self::Http(Http::new(endpoint)?),
            Protocol::Grpc => Self::Grpc(Grpc::new(endpoint)?),
        })
    }

    /// Describes the destination.
    pub(super) fn receiver(&self) -> String {
        let url = match self {
            Self::Http(http) => &http.url,
            Self::Grpc(grpc) => &grpc.traces,
            Self::File(_) => return "the trace file".to_owned(),
        };
        format!("the trace receiver at {}", place(url))
    }

    pub(super) fn encode(&self, batch: &Batch) -> Body {
        let json = match self {
            Self::Http(http) => http.json,
            Self::Grpc(_) => false,
            Self::File(_) => true,
        };
        let (signal, bytes) = match batch {
            Batch::Traces(request) if json => (Signal::Traces, serde_json::to_vec(request).unwrap_or_default()),
            Batch::Traces(request) => (Signal::Traces, request.encode_to_vec()),
            Batch::Metrics(request) if json => (Signal::Metrics, serde_json::to_vec(request).unwrap_or_default()),
            Batch::Metrics(request) => (Signal::Metrics, request.encode_to_vec()),
        };
        Body { bytes: bytes.into(), signal }
    }

    /// Sends a batch. Returns how many of its spans or measurements the receiver rejected.
    pub(super) async fn send(&mut self, body: &Body) -> Result<u64, ExportError> {
        match self {
            Self::Http(http) => http.send(body).await,
            Self::Grpc(grpc) => grpc.send(body).await,
            Self::File(file) => file.write(body.bytes.clone()).await.map(|()| 0),
        }
    }
}
