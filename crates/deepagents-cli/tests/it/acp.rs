//! The program as an editor's agent: its threads are those of the terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::mcp::SERVER;
use crate::program::{Start, deepagents, finish, run, until};
use crate::server::{Reply, Server};

/// ID of a request whose response is not awaited.
const UNAWAITED: &str = "unawaited";

/// The program with an editor that allows everything.
struct Editor {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    updates: Vec<Value>,
}

fn acp(home: &Path, address: &str) -> Command {
    let mut command = deepagents();
    command.env("HOME", home).args(["acp", "--base-url", address, "--model", "test-model"]);
    command
}

#[allow(clippy::needless_pass_by_value, reason = "values are made where they are sent")]
impl Editor {
    fn start(home: &Path, address: &str) -> Self {
        Self::with(home, address, json!({}))
    }

    /// An editor with these capabilities.
    fn with(home: &Path, address: &str, capabilities: Value) -> Self {
        Self::of(&mut acp(home, address), capabilities)
    }

    /// An editor that starts this command.
    fn of(command: &mut Command, capabilities: Value) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut editor = Self { child, to, from, next: 0, updates: Vec::new() };
        editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        editor
    }

    /// Sends a request and reads up to its result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.answer(method, params)["result"].clone()
    }

    /// The same, but returns the whole response.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.to, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the program is still there");
            let message: Value = serde_json::from_str(&line).expect("nothing but JSON on stdout");
            match message["method"].as_str() {
                Some("session/update") => self.updates.push(message["params"]["update"].clone()),
                Some("session/request_permission") => {
                    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
                    writeln!(self.to, "{}", json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome})).unwrap();
                }
                Some(other) => panic!("{other} is not offered"),
                None if message["id"] == self.next => return message,
                // The response to the request that is not awaited.
                None if message["id"] == UNAWAITED => {}
                None => panic!("an answer to nothing: {message}"),
            }
        }
    }

    fn prompt(&mut self, session: &Value, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.call("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Disconnects.
    fn leave(mut self) {
        drop(self.to);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_conversation_moves_from_the_editor_to_the_terminal_and_back() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "from the editor"})),
        Reply::Text(vec!["Written."]),
        Reply::Text(vec!["From the terminal."]),
        Reply::Text(vec!["And back."]),
    ]);
    let mut editor = Editor::start(home.path(), &server.address);
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    assert_eq!(editor.prompt(&session, "Write a file.")["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(root.path().join("a.txt")).unwrap(), "from the editor");
    editor.leave();
    let id = session.as_str().unwrap();
    let listed = finish(deepagents().env("HOME", home.path()).args(["threads", "list"]));
    assert!(listed.out.contains(id) && listed.out.contains("Write a file."), "{listed:?}");
    let mut go_on = run(root.path(), &server.address);
    let done = finish(go_on.env("HOME", home.path()).args(["-q", "--continue", "Who is there?"]));
    assert_eq!(done.out, "From the terminal.\n", "{done:?}");
    let mut editor = Editor::start(home.path(), &server.address);
    editor.call("session/load", json!({"sessionId": id, "cwd": root.path(), "mcpServers": []}));
    let told = |kind: &str| -> Vec<Value> {
        let of_kind = editor.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        of_kind.map(|update| update["content"]["text"].clone()).collect()
    };
    assert_eq!(told("user_message_chunk"), ["Write a file.", "Who is there?"]);
    assert_eq!(told("agent_message_chunk"), ["Written.", "From the terminal."]);
    assert_eq!(editor.prompt(&session, "Still?")["stopReason"], "end_turn");
    editor.leave();
    let threads = finish(deepagents().env("HOME", home.path()).args(["threads", "list", "--json"])).out;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&threads).unwrap().len(), 1, "one thread for all of it");
}

#[test]
fn a_session_of_a_killed_process_can_continue_at_once() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([Reply::Hang, Reply::Text(vec!["Here."])]);
    let mut editor = Editor::start(home.path(), &server.address);
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "Go."}]);
    let request = json!({"jsonrpc": "2.0", "id": 99, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}});
    writeln!(editor.to, "{request}").unwrap();
    server.wait();
    let standing = || {
        let listed = finish(deepagents().env("HOME", home.path()).args(["threads", "list", "--json"])).out;
        serde_json::from_str::<Value>(&listed).unwrap()[0]["status"].clone()
    };
    assert_eq!(standing(), "running");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    assert_eq!(standing(), "interrupted");
    let mut editor = Editor::start(home.path(), &server.address);
    editor.call("session/resume", json!({"sessionId": session, "cwd": root.path(), "mcpServers": []}));
    assert_eq!(editor.prompt(&session, "Again.")["stopReason"], "end_turn");
    editor.leave();
}

#[test]
fn a_session_stays_with_its_live_process_however_often_others_prompt_it() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (open, gate) = std::sync::mpsc::channel();
    let server = Server::start([Reply::Gated("Still", gate, " here.".to_owned())]);
    let mut first = Editor::start(home.path(), &server.address);
    let session = first.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "Go."}]);
    first.next += 1;
    let request = json!({"jsonrpc": "2.0", "id": first.next, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}});
    writeln!(first.to, "{request}").unwrap();
    server.wait();
    for _ in 0..2 {
        let mut other = Editor::start(home.path(), &server.address);
        other.call("session/load", json!({"sessionId": session, "cwd": root.path(), "mcpServers": []}));
        assert_eq!(other.prompt(&session, "Mine?"), Value::Null, "it is refused");
        let refused = other.answer("session/delete", json!({"sessionId": session}))["error"].clone();
        assert!(refused["code"] == -32602 && refused["data"].to_string().contains("in use by"), "{refused}");
        other.leave();
    }
    open.send(()).unwrap();
    let answer = loop {
        let mut line = String::new();
        assert_ne!(first.from.read_line(&mut line).unwrap(), 0, "the program is still there");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == first.next {
            break message;
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    first.leave();
}

#[test]
fn root_is_not_accepted_on_the_acp_command_line() {
    let home = tempfile::tempdir().unwrap();
    let refused = finish(acp(home.path(), "http://localhost:1/v1").args(["--root", "/tmp"]));
    assert!(refused.wrong_usage().contains("the editor names the directory"));
}

#[test]
fn user_settings_choose_the_model_for_an_editor() {
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = home.path().join(".deepagents");
    std::fs::create_dir(&own).unwrap();
    let settings = format!("model = \"of-the-settings\"\nbase_url = \"{}\"\n", server.address);
    std::fs::write(own.join("config.toml"), settings).unwrap();
    let mut command = deepagents();
    let mut editor = Editor::of(command.env("HOME", home.path()).arg("acp"), json!({}));
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
    assert_eq!(server.requests()[0].body["model"], "of-the-settings");
    editor.leave();
}

#[test]
fn a_malformed_line_gets_a_parse_error_and_the_editor_session_continues() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([Reply::Text(vec!["Still here."])]);
    let mut editor = Editor::start(home.path(), &server.address);
    let noise: Vec<u8> = (0..=u8::MAX).filter(|byte| *byte != b'\n').collect();
    for (line, about) in [
        (b"{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \"caf\xe9\"}".as_slice(), "not UTF-8"),
        (&noise, "not UTF-8"),
        (b"{\"jsonrpc\"", "ends too early"),
    ] {
        editor.to.write_all(&[b"\n\r\n", line, b"\n"].concat()).unwrap();
        let mut answer = String::new();
        editor.from.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)), "{answer}");
        assert!(answer["error"]["data"].to_string().contains(about), "{answer}");
    }
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    assert_eq!(editor.prompt(&session, "Who is there?")["stopReason"], "end_turn");
    editor.to.write_all(b"{\"jsonrpc\": \"2.0\", \"id\": 9, \"meth").unwrap();
    editor.leave();
}

#[test]
fn a_signal_ends_the_sessions_and_everything_they_started() {
    for signal in ["TERM", "INT", "HUP"] {
        let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ended = json!({"SessionEnd": [{"hooks": [{"type": "command", "command": "cat > ended"}]}]});
        std::fs::create_dir_all(home.path().join(".deepagents")).unwrap();
        std::fs::write(home.path().join(".deepagents/hooks.json"), json!({"hooks": ended}).to_string()).unwrap();
        let server = Server::start([]);
        let mut editor = Editor::start(home.path(), &server.address);
        // A server that never responds and ignores signals.
        let stays = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 1; done";
        let stubborn = json!({"name": "stubborn", "command": "/bin/sh", "args": ["-c", stays], "env": []});
        let params = json!({"cwd": root.path(), "mcpServers": [stubborn]});
        let session = editor.call("session/new", params)["sessionId"].clone();
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "Hi."}]});
        let request = json!({"jsonrpc": "2.0", "id": 99, "method": "session/prompt", "params": prompt});
        writeln!(editor.to, "{request}").unwrap();
        let file = root.path().join("pid");
        let pid = || std::fs::read_to_string(&file).unwrap_or_default().trim().parse::<u32>().ok();
        let stubborn = until("the server's process ID", pid);
        let kill = Command::new("kill").args(["-s", signal, &editor.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert_eq!(editor.child.wait().unwrap().code(), Some(0), "{signal}");
        // A process that was killed takes a moment to end.
        until(&format!("the end of the server after {signal}"), || {
            let state = std::fs::read_to_string(format!("/proc/{stubborn}/stat")).unwrap_or_default();
            let is_gone = state.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'));
            is_gone.then_some(())
        });
        let told: Value = serde_json::from_slice(&std::fs::read(root.path().join("ended")).unwrap()).unwrap();
        assert_eq!((&told["session_id"], &told["reason"]), (&session, &json!("exit")), "{signal}");
    }
}

#[test]
fn an_unavailable_server_is_reported_to_an_editor_without_notices() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let mut editor = Editor::start(home.path(), &server.address);
    let broken = json!({"name": "broken", "command": "/no/such/program", "args": [], "env": []});
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": [broken]}))["sessionId"].clone();
    assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
    let said = |update: &&Value| update["sessionUpdate"] == "agent_message_chunk";
    let said: Vec<String> = editor.updates.iter().filter(said).map(ToString::to_string).collect();
    assert!(
        said.iter().any(|said| said.contains("MCP server broken") && said.contains("/no/such/program")),
        "{said:?}"
    );
    editor.leave();
}

/// A server that records its input in a file and ignores signals.
fn stubborn(place: &Path) -> Value {
    let server = SERVER.replace(
        "while IFS= read -r line; do",
        "while IFS= read -r line; do echo \"$line\" >> \"$(dirname \"$0\")/told\"",
    );
    let file = place.join("run.sh");
    std::fs::write(&file, format!("trap '' TERM INT HUP\n{server}while :; do sleep 1; done\n")).unwrap();
    std::fs::write(place.join("says"), "Says it again.").unwrap();
    json!({"name": "alpha", "command": "/bin/sh", "args": [file], "env": []})
}

#[test]
fn servers_may_ask_the_user_only_if_the_editor_has_forms() {
    for (capabilities, asks) in [(json!({"elicitation": {"form": {}}}), true), (json!({}), false)] {
        let (home, root, place) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start([Reply::Text(vec!["Hello."])]);
        let mut editor = Editor::with(home.path(), &server.address, capabilities);
        let params = json!({"cwd": root.path(), "mcpServers": [stubborn(place.path())]});
        let session = editor.call("session/new", params)["sessionId"].clone();
        assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
        let begin = until("a message to the server", || {
            let told = std::fs::read_to_string(place.path().join("told")).unwrap_or_default();
            let mut whole = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            whole.find(|message| message["method"] == "initialize")
        });
        assert_eq!(begin["params"]["capabilities"]["elicitation"].is_object(), asks, "{begin}");
        editor.leave();
    }
}

#[test]
fn a_session_closed_and_reloaded_at_once_has_working_servers() {
    let (home, root, place) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let call = || Reply::Call("mcp__alpha__echo", json!({}));
    let server = Server::start([call(), Reply::Text(vec!["One."]), call(), Reply::Text(vec!["Two."])]);
    let mut editor = Editor::start(home.path(), &server.address);
    let mut params = json!({"cwd": root.path(), "mcpServers": [stubborn(place.path())]});
    let session = editor.call("session/new", params.clone())["sessionId"].clone();
    params["sessionId"] = session.clone();
    assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
    let close = json!({"jsonrpc": "2.0", "id": UNAWAITED, "method": "session/close", "params": {"sessionId": session}});
    writeln!(editor.to, "{close}").unwrap();
    editor.call("session/load", params);
    assert_eq!(editor.prompt(&session, "And now?")["stopReason"], "end_turn");
    let told = server.requests().last().unwrap().body["messages"].to_string();
    assert_eq!(told.matches("echoed it").count(), 2, "{told}");
    editor.leave();
}

#[test]
fn a_session_uses_the_model_and_effort_chosen_in_it_and_keeps_them_when_loaded() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([]);
    let mut command = deepagents();
    let command = command.env("HOME", home.path()).env("OPENAI_API_KEY", "k");
    let command = command.args(["acp", "--base-url", server.address.as_str(), "--model", "openai:gpt-5.2"]);
    let mut editor = Editor::of(command, json!({}));
    let mut params = json!({"cwd": root.path(), "mcpServers": []});
    let session = editor.call("session/new", params.clone())["sessionId"].clone();
    for (id, value) in [("model", "openai:gpt-5.4-mini"), ("effort", "low")] {
        let set = json!({"sessionId": session, "configId": id, "value": value});
        assert!(editor.call("session/set_config_option", set)["configOptions"].is_array());
    }
    // The prompt fails because the server has no answer, but the thread is stored before.
    editor.prompt(&session, "Hi.");
    let request = &server.requests()[0].body;
    assert_eq!(request["reasoning"]["effort"], "low", "{request}");
    assert!(request.get("reasoning_effort").is_none(), "{request}");
    params["sessionId"] = session;
    let loaded = editor.call("session/load", params);
    let set: Vec<&Value> =
        loaded["configOptions"].as_array().unwrap().iter().map(|option| &option["currentValue"]).collect();
    assert_eq!(set, ["ask", "openai:gpt-5.4-mini", "low"]);
    editor.leave();
}

#[test]
fn a_projects_servers_start_in_an_editor_whose_agent_trusts_the_project() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = home.path().join("run.sh");
    std::fs::write(&script, SERVER).unwrap();
    std::fs::write(home.path().join("says"), "Says it again.").unwrap();
    let config = json!({"mcpServers": {"alpha": {"command": "/bin/sh", "args": [script]}}});
    std::fs::write(root.path().join(".mcp.json"), config.to_string()).unwrap();
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let mut editor = Editor::of(acp(home.path(), &server.address).arg("--trust"), json!({}));
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
    assert!(server.requests()[0].body["tools"].to_string().contains("mcp__alpha__echo"));
    editor.leave();
}

#[test]
fn an_unusable_directory_is_refused_with_advice_for_an_editor() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(root.path().join("file"), "").unwrap();
    std::fs::create_dir(home.path().join(".deepagents")).unwrap();
    let server = Server::start([]);
    let mut editor = Editor::start(home.path(), &server.address);
    for (cwd, why) in [
        (root.path().join("missing"), "does not exist"),
        (root.path().join("file"), "is not a directory"),
        (home.path().join(".deepagents"), "belongs to this program"),
    ] {
        let refused = editor.answer("session/new", json!({"cwd": cwd, "mcpServers": []}))["error"].clone();
        let said = refused["data"].as_str().unwrap();
        assert!(refused["code"] == -32602 && said.contains(why) && !said.contains("--root"), "{said}");
    }
    editor.leave();
}

#[test]
fn a_session_keeps_its_mode_in_the_terminal() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "unasked"}));
    let server = Server::start([Reply::Text(vec!["Hello."]), write]);
    let mut editor = Editor::start(home.path(), &server.address);
    let session = editor.call("session/new", json!({"cwd": root.path(), "mcpServers": []}))["sessionId"].clone();
    editor.prompt(&session, "hi");
    editor.leave();
    let mut go_on = run(root.path(), &server.address);
    let asked = finish(go_on.env("HOME", home.path()).args(["--continue", "Write a file."]));
    assert!(asked.code == Some(1) && asked.err.contains("? write_file /a.txt"), "{asked:?}");
    assert!(!root.path().join("a.txt").exists());
}

/// Starts an HTTP+SSE MCP server with one tool, and returns the address of its event stream.
fn older_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let events: Arc<Mutex<Option<TcpStream>>> = Arc::default();
    let answer = move |mut stream: TcpStream, events: &Mutex<Option<TcpStream>>| {
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") && from.read_line(&mut head).unwrap() > 0 {
            let last = head.lines().last().unwrap().to_lowercase();
            length = last.strip_prefix("content-length:").map_or(length, |bytes| bytes.trim().parse().unwrap());
        }
        let is_open = head.to_lowercase().contains("x-key: key-1");
        if head.starts_with("GET /sse") && is_open {
            // Locked until the stream is there: the first message may come as soon as its address is known.
            let mut events = events.lock().unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
            write!(stream, "event: endpoint\ndata: /messages\n\n").unwrap();
            *events = Some(stream);
            return;
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).unwrap();
        let is_taken = head.starts_with("POST /messages") && is_open;
        let status = if is_taken { "202 Accepted" } else { "405 Method Not Allowed" };
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        if !is_taken {
            return;
        }
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "older", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "echoed it"}]}),
            _ => return,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        write!(events.lock().unwrap().as_mut().unwrap(), "data: {answer}\n\n").unwrap();
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, events) = (answer, events.clone());
            std::thread::spawn(move || answer(stream.unwrap(), &events));
        }
    });
    format!("http://{address}/sse")
}

#[test]
fn an_editor_may_bring_servers_of_the_transport_before_streamable_http() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let headers = json!([{"name": "X-Key", "value": "key-1"}]);
    for kind in ["sse", "http"] {
        let server = Server::start([Reply::Call("mcp__alpha__echo", json!({})), Reply::Text(vec!["Done."])]);
        let mut editor = Editor::start(home.path(), &server.address);
        let offered = editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(offered["agentCapabilities"]["mcpCapabilities"]["sse"], true, "{offered}");
        let older = json!({"type": kind, "name": "alpha", "url": older_server(), "headers": headers});
        let session =
            editor.call("session/new", json!({"cwd": root.path(), "mcpServers": [older]}))["sessionId"].clone();
        assert_eq!(editor.prompt(&session, "Hi.")["stopReason"], "end_turn");
        let told = server.requests().last().unwrap().body["messages"].to_string();
        assert!(told.contains("echoed it"), "{kind}: {told}");
        editor.leave();
    }
}
