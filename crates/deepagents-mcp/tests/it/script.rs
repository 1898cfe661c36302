//! Servers that are shell scripts, and agents that use them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use deepagents_core::agent::Agent;
use deepagents_core::event::{EventKind, MiddlewareEvent};
use deepagents_core::run::{Outcome, RunInput};
use deepagents_mcp::{McpOptions, McpServers, ServerConfig};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server that is a shell script. Writes its process ID and every line it receives to files.
pub(crate) struct Script {
    dir: TempDir,
    tools: Value,
    on_call: String,
    /// Further capabilities, and responses by method.
    capabilities: Vec<String>,
    answers: Vec<(String, Value)>,
    start: String,
    end: String,
}

/// A tool that returns its text.
pub(crate) fn echo() -> Value {
    json!({"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}})
}

/// Shell code that answers a call with a text, in which shell variables are expanded.
pub(crate) fn text(text: &str) -> String {
    format!(
        r#"say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}""#
    )
}

impl Script {
    /// A server with these tools that runs `on_call` for each call.
    pub(crate) fn new(tools: &[Value], on_call: impl Into<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (tools, on_call) = (json!(tools), on_call.into());
        let (capabilities, answers) = (Vec::new(), Vec::new());
        Self { dir, tools, on_call, capabilities, answers, start: String::new(), end: String::new() }
    }

    /// Adds a capability, with the results of its methods.
    pub(crate) fn capable(mut self, of: &str, answers: &[(&str, Value)]) -> Self {
        self.capabilities.push(of.to_owned());
        self.answers.extend(answers.iter().map(|(method, result)| ((*method).to_owned(), result.clone())));
        self
    }

    /// Runs shell code at the start.
    pub(crate) fn at_start(mut self, shell: &str) -> Self {
        self.start = shell.to_owned();
        self
    }

    /// Runs shell code once stdin is closed.
    pub(crate) fn at_end(mut self, shell: &str) -> Self {
        self.end = shell.to_owned();
        self
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes the tool list.
    pub(crate) fn list(&self, tools: &[Value]) {
        fs::write(self.file("tools.json"), json!(tools).to_string()).unwrap();
    }

    pub(crate) fn config(&self) -> ServerConfig {
        if !self.file("tools.json").exists() {
            fs::write(self.file("tools.json"), self.tools.to_string()).unwrap();
        }
        let dir = self.dir.path().display();
        let capabilities: String = self.capabilities.iter().map(|of| format!(",\\\"{of}\\\":{{}}")).collect();
        let mut cases = String::new();
        for (number, (method, result)) in self.answers.iter().enumerate() {
            fs::write(self.file(&format!("answer{number}")), result.to_string()).unwrap();
            let answer = format!(r#""{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$(cat answer{number})}}""#);
            cases += &format!("    *'\"method\":\"{method}\"'*) say {answer} ;;\n");
        }
        let script = format!(
            r#"cd '{dir}'
echo $$ >> pids
say() {{ printf '%s\n' "$1"; }}
{start}
while IFS= read -r line; do
    printf '%s\n' "$line" >> sent
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"server/discover"'*) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32601,\"message\":\"unknown\"}}}}" ;;
    *'"method":"initialize"'*) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{\"tools\":{{\"listChanged\":true}}{capabilities}}},\"serverInfo\":{{\"name\":\"script\",\"version\":\"1\"}}}}}}" ;;
    *'"method":"tools/list"'*) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"tools\":$(cat tools.json)}}}}" ;;
    *'"method":"tools/call"'*)
        {on_call}
        ;;
{cases}    esac
done
{end}
"#,
            start = self.start,
            on_call = self.on_call,
            end = self.end,
        );
        fs::write(self.file("server.sh"), script).unwrap();
        ServerConfig::stdio("/bin/sh", [self.file("server.sh").display().to_string()])
    }

    /// The IDs of the processes started.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let pids = fs::read_to_string(self.file("pids")).unwrap_or_default();
        pids.lines().map(|line| line.trim().parse().unwrap()).collect()
    }

    /// How often it received a method.
    pub(crate) fn sent(&self, method: &str) -> usize {
        let sent = fs::read_to_string(self.file("sent")).unwrap_or_default();
        sent.lines().filter(|line| line.contains(&format!("\"method\":\"{method}\""))).count()
    }
}

/// Options with the `PATH` for programs.
pub(crate) fn options() -> McpOptions {
    let path = std::env::var("PATH").unwrap_or_default();
    McpOptions { env: [("PATH".to_owned(), path)].into(), ..McpOptions::default() }
}

/// A set with one server, named `alpha`.
pub(crate) fn alone(config: ServerConfig) -> McpServers {
    McpServers::new([("alpha", config)], options())
}

/// An agent with a scripted model, and the model.
pub(crate) fn agent(servers: &McpServers, turns: impl IntoIterator<Item = Turn>) -> (Agent, ScriptedModel) {
    let model = ScriptedModel::new(turns);
    (Agent::builder(model.clone()).middleware(servers.clone()).build().unwrap(), model)
}

/// Calls `mcp__alpha__TOOL` and finishes.
pub(crate) fn one_call(tool: &str, args: Value) -> [Turn; 2] {
    [Turn::call(format!("mcp__alpha__{tool}"), args), Turn::text("Done.")]
}

/// Runs an agent to the end. Returns the outcome and the middleware events.
pub(crate) async fn run(agent: &Agent, input: impl Into<RunInput>) -> (Outcome, Vec<MiddlewareEvent>) {
    let mut run = agent.run(input);
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(event) = event.kind {
            told.push(event);
        }
    }
    (run.outcome().await.unwrap(), told)
}

/// The tool results, each with whether it is an error.
pub(crate) fn results(outcome: &Outcome) -> Vec<(String, bool)> {
    let messages = outcome.messages().iter();
    messages
        .filter_map(|message| match &**message {
            deepagents_core::message::Message::Tool(result) => Some((message.text(), result.is_error)),
            _ => None,
        })
        .collect()
}

/// The names of the tools offered in a request.
pub(crate) fn offered(model: &ScriptedModel, request: usize) -> Vec<String> {
    model.requests()[request].tools.iter().map(|tool| tool.name.clone()).collect()
}

/// Whether a process is alive. A zombie is not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Polls until a condition holds.
pub(crate) async fn eventually(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what} does not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
