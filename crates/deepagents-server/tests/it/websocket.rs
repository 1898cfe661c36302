//! A client's side of a WebSocket.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, soon};

/// The WebSocket for the events of a thread.
pub(crate) struct Socket(pub(crate) TcpStream);

impl Socket {
    pub(crate) async fn open(client: &Client, thread: &str) -> Self {
        let mut socket = TcpStream::connect(client.url.strip_prefix("http://").unwrap()).await.unwrap();
        let token = client.token.as_deref().unwrap_or_default();
        let upgrade = format!(
            "GET /threads/{thread}/stream/events HTTP/1.1\r\nhost: localhost\r\nx-api-key: {token}\r\n\
             connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(upgrade.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon(socket.read_u8()).await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"));
        Self(socket)
    }

    /// Sends a text frame. Its mask is zero.
    pub(crate) async fn write(&mut self, text: &Value) {
        let text = text.to_string().into_bytes();
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        let head = [0x81, 0xfe, length[0], length[1], 0, 0, 0, 0];
        let frame: Vec<u8> = head.into_iter().chain(text).collect();
        self.0.write_all(&frame).await.unwrap();
    }

    /// Reads a frame and parses its text.
    pub(crate) async fn read(&mut self) -> Value {
        let mut head = [0; 2];
        soon(self.0.read_exact(&mut head)).await.unwrap();
        let length = match head[1] {
            126 => usize::from(self.0.read_u16().await.unwrap()),
            127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut text = vec![0; length];
        soon(self.0.read_exact(&mut text)).await.unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Sends a command and returns its response and the events received before it.
    pub(crate) async fn command(&mut self, command: &Value) -> (Value, Vec<Value>) {
        self.write(command).await;
        let mut events = Vec::new();
        loop {
            let read = self.read().await;
            if read["type"] != "event" {
                return (read, events);
            }
            events.push(read);
        }
    }
}
