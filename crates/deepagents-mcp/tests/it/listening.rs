//! List changes that a server of the newer protocol announces on a subscription stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_mcp::ServerConfig;
use deepagents_models::scripted::Turn;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::issuer::read;
use crate::script::{Script, agent, alone, echo, eventually, offered, one_call, results, run, text};

/// A server whose subscription streams end immediately. Each stream adds a tool.
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
async fn an_ended_change_stream_is_reopened_and_missed_changes_are_seen() {
    let (address, streams) = forgetful().await;
    let servers = alone(ServerConfig::http(address));
    servers.ready().await;
    eventually("another stream", || streams.load(Ordering::SeqCst) >= 3).await;
    let (agent, model) = crate::script::agent(&servers, [deepagents_models::scripted::Turn::text("Done.")]);
    agent.invoke("Go.").await.unwrap();
    servers.close().await;
    assert!(crate::script::offered(&model, 0).len() > 2, "{:?}", crate::script::offered(&model, 0));
}

#[tokio::test]
async fn an_updated_list_that_never_arrives_is_reported_and_awaited_only_once() {
    let silent = r#"say() { case "$1" in *'"tools":['*) [ -e mute ] && return ;; esac; printf '%s\n' "$1"; }"#;
    let changed = r#"touch mute; say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let call = format!("[ -e mute ] || {{ {changed}; }}\n{}", text("echoed"));
    let script = Script::new(&[echo()], call).at_start(silent);
    let servers = alone(script.config().start_timeout(Duration::from_secs(5)));
    let echo = || Turn::call("mcp__alpha__echo", json!({}));
    let (agent, model) = agent(&servers, [echo(), echo(), Turn::text("Done.")]);
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("echoed".to_owned(), false), ("echoed".to_owned(), false)]);
    assert_eq!(script.sent("tools/list"), 2, "once at the start, and once when it has changed");
    assert!(format!("{told:?}").contains("did not answer"), "{told:?}");
    assert_eq!(offered(&model, 2), ["mcp__alpha__echo"], "what was known stays");
}

#[tokio::test]
async fn a_partial_result_is_an_error() {
    let newer = r#"read -r line
say '{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"new","version":"1"},"ttlMs":0,"cacheScope":"private"}}'"#;
    let call = r#"say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"in_parts\",\"content\":[{\"type\":\"text\",\"text\":\"half\"}]}}""#;
    let script = Script::new(&[echo()], call).at_start(newer);
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    let (said, is_error) = results(&outcome).pop().unwrap_or_else(|| panic!("{told:?}"));
    assert!(is_error && said.contains("in_parts") && script.sent("initialize") == 0, "{said}");
}
