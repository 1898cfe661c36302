//! The agent as an MCP server.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::program::{Start, deepagents, finish};
use crate::server::{Reply, Server};

/// A client of `deepagents mcp serve`.
struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Client {
    fn start(home: &Path, server: &Server, approve: &str) -> Self {
        let mut command = deepagents();
        command.env("HOME", home).args(["mcp", "serve", "--approve", approve, "--model", "test-model"]);
        command.args(["--base-url", &server.address, "--root"]).arg(home.join("root"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, to, from };
        let info = json!({"name": "test", "version": "1"});
        client.ask("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}));
        client
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        writeln!(self.to, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Gives the agent a task in a thread, and returns the result.
    fn task(&mut self, thread: Option<&str>) -> Value {
        let arguments = json!({"task": "Go on.", "thread": thread});
        self.ask("tools/call", &json!({"name": "agent", "arguments": arguments}))
    }

    fn end(mut self) {
        drop(self.to);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_task_goes_on_in_no_thread_whose_mode_allows_less_than_that_of_the_server() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("root")).unwrap();
    let server = Server::start([Reply::Text(vec!["One."]), Reply::Text(vec!["Two."])]);
    let mut client = Client::start(home.path(), &server, "deny");
    let begun = client.task(None);
    let thread =
        begun["result"]["structuredContent"]["thread"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    client.end();

    let mut client = Client::start(home.path(), &server, "auto");
    let refused = client.task(Some(&thread));
    let said = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(said.contains("in the mode `deny`") && said.contains("`--approve deny`"), "{said}");
    client.end();
    assert_eq!(server.requests().len(), 1);
    let listed = finish(deepagents().env("HOME", home.path()).args(["threads", "list", "--json"]));
    let threads: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(threads[0]["metadata"]["approve"], "deny", "{threads}");

    let mut client = Client::start(home.path(), &server, "deny");
    assert!(client.task(Some(&thread)).to_string().contains("Two."));
    client.end();
}
