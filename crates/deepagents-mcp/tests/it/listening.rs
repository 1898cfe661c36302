//! Changes of lists that a server of the newer protocol tells on a stream of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents_mcp::ServerConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::issuer::read;
use crate::script::{alone, eventually};

/// A server whose streams of notices end at once. With each of them it has one more tool.
async fn forgetful() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let streams = Arc::new(AtomicUsize::new(0));
    let counted = streams.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, counted.clone()));
        }
    });
    (address, streams)
}

async fn answer(mut stream: TcpStream, streams: Arc<AtomicUsize>) {
    let Some(request) = read(&mut stream).await else { return };
    let Ok(message) = serde_json::from_str::<Value>(&request.body) else { return };
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}})
        }
        "tools/list" => {
            let tool = |number: usize| json!({"name": format!("tool{number}"), "inputSchema": {"type": "object"}});
            json!({"tools": (0..=streams.load(Ordering::SeqCst)).map(tool).collect::<Vec<_>>()})
        }
        "subscriptions/listen" => {
            streams.fetch_add(1, Ordering::SeqCst);
            let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
            let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
            let known =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}data: {known}\n\n").as_bytes()).await;
            return;
        }
        _ => {
            let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            return;
        }
    };
    let mut whole = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    whole.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": whole}).to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").as_bytes()).await;
}

#[tokio::test]
async fn a_stream_of_changes_that_ends_is_asked_for_again_and_what_changed_meanwhile_is_seen() {
    let (address, streams) = forgetful().await;
    let servers = alone(ServerConfig::http(address));
    servers.ready().await;
    eventually("another stream", || streams.load(Ordering::SeqCst) >= 3).await;
    let (agent, model) = crate::script::agent(&servers, [deepagents_models::scripted::Turn::text("Done.")]);
    agent.invoke("Go.").await.unwrap();
    servers.close().await;
    assert!(crate::script::offered(&model, 0).len() > 2, "{:?}", crate::script::offered(&model, 0));
}
