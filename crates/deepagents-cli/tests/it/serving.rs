//! `deepagents serve` as a child process, and requests to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish};
use crate::server::{Reply, Server};

/// A directory and a model.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: Server,
}

/// The running server.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    lines: Receiver<String>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Place {
    /// A directory, and a model that always says hello.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), model: Server::by_rule(|_| Reply::Text(vec!["Hello."])) }
    }

    /// The same with a model that obeys `call NAME ARGUMENTS`.
    pub(crate) fn obeying() -> Self {
        let model = Server::by_rule(|request| {
            let last = request["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
            let text = last["content"].as_str().unwrap_or_default();
            match text.strip_prefix("call ").and_then(|call| call.split_once(' ')) {
                Some((name, arguments)) if last["role"] == "user" => {
                    Reply::Call(name.to_owned().leak(), serde_json::from_str(arguments).unwrap())
                }
                _ => Reply::Text(vec!["Done."]),
            }
        });
        Self { dir: tempfile::tempdir().unwrap(), model }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        // Atomically, as editors do.
        let fresh = self.dir.path().join("fresh");
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, file).unwrap();
    }

    /// Writes a `deepagents.toml` with an agent `one` that has the model, followed by `rest`.
    pub(crate) fn describe(&self, rest: &str) {
        let model = format!("model = \"test-model\"\nbase_url = {:?}\n", self.model.address);
        self.write("deepagents.toml", &format!("[agents.one]\n{model}{rest}"));
    }

    pub(crate) fn command(&self) -> Command {
        let home = self.dir.path().join("home");
        fs::create_dir_all(&home).unwrap();
        let mut command = deepagents();
        command.env("HOME", home).args(["serve", "--listen", "127.0.0.1:0"]);
        command
    }

    pub(crate) fn serve(&self, change: impl FnOnce(&mut Command) -> &mut Command) -> Serving {
        let mut command = self.command();
        change(&mut command);
        let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).start();
        let (sender, lines) = channel();
        let mut serving = Serving { child, address: String::new(), lines };
        let stderr = BufReader::new(serving.child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut before = Vec::new();
        let found = serving.lines.iter().find_map(|line| {
            let found = line.split_once(" at http://").map(|(_, rest)| rest.split(';').next().unwrap().to_owned());
            before.push(line);
            found
        });
        serving.address = found.unwrap_or_else(|| panic!("it does not serve: {before:?}"));
        serving
    }

    /// Serves `project`.
    pub(crate) fn serve_project(&self) -> Serving {
        self.serve(|command| command.arg(self.path()))
    }

    pub(crate) fn refused(&self) -> String {
        let done: Finished = finish(self.command().arg(self.path()));
        done.one_message().to_owned()
    }

    /// The system prompt of the last request.
    pub(crate) fn system(&self) -> String {
        let request = self.model.requests().pop().unwrap();
        request.body["messages"][0]["content"].to_string()
    }
}

impl Serving {
    pub(crate) fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = body.to_string();
        // HTTP/1.0, so that the response is not chunked.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\nx-api-key: {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    pub(crate) fn say(&self, agent: &str) -> Value {
        let input = json!({"messages": [{"role": "user", "content": "hi"}]});
        let (status, values) = self.ask("POST", "/runs/wait", "", &json!({"assistant_id": agent, "input": input}));
        assert_eq!(status, 200, "{values}");
        values
    }

    /// Has the agent make a tool call. Returns the final state.
    pub(crate) fn call(&self, agent: &str, name: &str, arguments: &Value) -> Value {
        let input = json!({"messages": [{"role": "user", "content": format!("call {name} {arguments}")}]});
        let (status, values) = self.ask("POST", "/runs/wait", "", &json!({"assistant_id": agent, "input": input}));
        assert_eq!(status, 200, "{values}");
        values
    }

    pub(crate) fn wait_for(&self, words: &str) {
        assert!(self.lines.iter().any(|line| line.contains(words)), "it ended without `{words}`");
    }
}
