//! Servers start concurrently and use little memory.

use std::process::Command;

use deepagents_mcp::{McpServers, ServerConfig, ServerState};
use serde_json::{Value, json};

use crate::issuer::read;
use crate::script::{Script, echo, options, text};

/// Maximum memory per connected server, in bytes.
const MAX_BYTES_PER_SERVER: u64 = 1 << 20;
/// Number of servers connected for the measurement.
const SERVERS: usize = 20;

#[tokio::test]
async fn ten_servers_start_concurrently() {
    let meeting = tempfile::tempdir().unwrap();
    let place = meeting.path().join("there");
    // Each server responds only once all are running, so sequential starts would hang.
    let waits =
        format!("echo here >> '{0}'; while [ \"$(wc -l < '{0}')\" -lt 10 ]; do sleep 0.02; done", place.display());
    let scripts: Vec<Script> = (0..10).map(|_| Script::new(&[echo()], text("echoed")).at_start(&waits)).collect();
    let named = scripts.iter().enumerate().map(|(number, script)| (format!("s{number}"), script.config()));
    let servers = McpServers::new(named, options());
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    assert!(status.iter().all(|server| server.state == ServerState::Connected), "{status:?}");
    assert_eq!(status.iter().map(|server| server.tools.len()).sum::<usize>(), 10);
}

/// A tool list of realistic size.
fn tools() -> Vec<Value> {
    let properties = json!({"path": {"type": "string", "description": "Where it is."}, "depth": {"type": "integer"}});
    let tool = |number: usize| {
        json!({
            "name": format!("tool_{number}"),
            "description": "Looks at what is there, and says so in a few sentences. ".repeat(8),
            "inputSchema": {"type": "object", "properties": properties, "required": ["path"]},
        })
    };
    (0..12).map(tool).collect()
}

/// The memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn connected(servers: Vec<ServerConfig>) -> McpServers {
    let count = servers.len();
    let named = servers.into_iter().enumerate().map(|(number, config)| (format!("s{number}"), config));
    let servers = McpServers::new(named, options());
    servers.ready().await;
    assert_eq!(servers.tools().names().count(), 12 * count, "{:?}", servers.status());
    servers
}

/// Measures a case in a child process, which runs this test again.
fn measured(name: &str, servers: impl AsyncFn(usize) -> Vec<ServerConfig>) {
    const ROLE: &str = "A_PROCESS_THAT_IS_MEASURED";
    let name = format!("cost::{name}");
    if std::env::var_os(ROLE).is_none() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let told = program.args([&name, "--exact", "--nocapture"]).env(ROLE, "1").output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // After this, everything shared by all servers is allocated.
        let first = connected(servers(1).await).await;
        let before = memory();
        let others = connected(servers(SERVERS).await).await;
        let each = memory().saturating_sub(before) / SERVERS as u64;
        first.close().await;
        others.close().await;
        assert!(each <= MAX_BYTES_PER_SERVER, "a connected server takes {} kB", each >> 10);
    });
}

#[test]
fn a_connected_process_takes_little_client_memory() {
    let scripts = std::sync::Mutex::new(Vec::new());
    measured("a_connected_process_takes_little_client_memory", async |count| {
        let made: Vec<Script> = (0..count).map(|_| Script::new(&tools(), text("echoed"))).collect();
        let configs = made.iter().map(Script::config).collect();
        scripts.lock().unwrap().extend(made);
        configs
    });
}

#[test]
fn a_connected_address_takes_little_client_memory() {
    measured("a_connected_address_takes_little_client_memory", async |count| {
        let mut configs = Vec::new();
        for _ in 0..count {
            configs.push(ServerConfig::http(listening().await));
        }
        configs
    });
}

/// The URL of a stateless server with these tools.
async fn listening() -> String {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(request) = read(&mut stream).await else { continue };
            let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
            let result = match body["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
                }),
                Some("tools/list") => json!({"tools": tools()}),
                _ => Value::Null,
            };
            let (status, answer) = match (body["id"].is_null(), result.is_null()) {
                (true, _) => ("202 Accepted", String::new()),
                (_, true) => {
                    let error = json!({"code": -32601, "message": "unknown"});
                    ("200 OK", json!({"jsonrpc": "2.0", "id": body["id"], "error": error}).to_string())
                }
                _ => ("200 OK", json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string()),
            };
            let length = answer.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}
