//! A run whose spans and metrics are exported to a receiver on a thread of this process. The receiver's work is part of
//! the figure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use deepagents::otel::{Endpoint, ExportConfig, Protocol, TraceOptions, Tracer};

/// Creates a tracer and a receiver that accepts everything.
pub(crate) fn tracer() -> Result<Tracer> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || take(stream));
        }
    });
    let endpoint = |path: &str| Some(Endpoint::new(Protocol::HttpProtobuf, format!("http://{address}/v1/{path}")));
    let config = ExportConfig { traces: endpoint("traces"), metrics: endpoint("metrics"), ..ExportConfig::default() };
    Ok(Tracer::new(config, TraceOptions::default())?)
}

/// Reads requests and answers each.
fn take(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut length, mut line) = (0_u64, String::new());
        while reader.read_line(&mut line).ok()? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
        }
        if line.is_empty() {
            return None;
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}
