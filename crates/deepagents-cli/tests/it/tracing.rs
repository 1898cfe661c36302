//! Traces of runs: to a file, to a receiver, to model servers, and from the log.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, run, until};
use crate::server::{Reply, Server};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir }
    }

    fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.dir.path().join("root"), &server.address);
        command.arg("--db").arg(self.dir.path().join("t.db"));
        command
    }

    fn show(&self, args: &[&str]) -> Finished {
        let db = self.dir.path().join("t.db");
        let list = finish(deepagents().args(["threads", "list", "--json", "--db"]).arg(&db));
        let id = serde_json::from_str::<Value>(&list.out).unwrap()[0]["id"].as_str().unwrap().to_owned();
        finish(deepagents().args(["threads", "show", &id, "--db"]).arg(db).args(args))
    }
}

fn writes() -> Vec<Reply> {
    let call = |name: &str| Reply::Call("write_file", json!({"file_path": name, "content": "s3cr3t"}));
    vec![call("/a.txt"), Reply::Text(vec!["Written."])]
}

/// The spans of a file or of requests.
fn spans(lines: &str) -> Vec<Value> {
    let requests = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let scopes = requests.flat_map(|request| request["resourceSpans"][0]["scopeSpans"].as_array().unwrap().clone());
    scopes.flat_map(|scope| scope["spans"].as_array().unwrap().clone()).collect()
}

fn root(spans: &[Value]) -> &Value {
    spans.iter().find(|span| span["name"].as_str().unwrap().starts_with("invoke_agent")).unwrap()
}

/// An OTLP receiver that accepts every request and returns the bodies.
fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (send, bodies) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (send, mut stream) = (send.clone(), stream.unwrap());
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let (mut length, mut line) = (0, String::new());
                    while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line != "\r\n" {
                        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    if line.is_empty() {
                        return;
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let _ = send.send(String::from_utf8(body).unwrap());
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
                }
            });
        }
    });
    (address, bodies)
}

#[test]
fn a_run_writes_its_spans_to_a_new_file_without_message_contents() {
    let place = Place::new();
    let (server, file) = (Server::start(writes()), place.dir.path().join("trace.jsonl"));
    let ran = finish(place.run(&server).arg("--trace").arg(&file).arg("Write it down"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = fs::read_to_string(&file).unwrap();
    let mut names: Vec<_> = spans(&text).iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["chat test-model", "chat test-model", "execute_tool write_file", "invoke_agent agent"]);
    assert!(!text.contains("s3cr3t") && !text.contains("Write it down"), "{text}");

    let server = Server::start(writes());
    let again = finish(place.run(&server).arg("--trace").arg(&file).arg("Write it down"));
    assert!(again.wrong_usage().contains("exists already"), "{again:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn standard_variables_export_telemetry_and_propagate_the_trace_to_the_model() {
    let place = Place::new();
    let (server, (address, bodies)) = (Server::start(writes()), receiver());
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut command = place.run(&server);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    command.env("TRACEPARENT", parent).env("OTEL_PROPAGATORS", "tracecontext").env("OTEL_SERVICE_NAME", "notes");
    let ran = finish(command.arg("Write it down"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let bodies: Vec<String> = bodies.try_iter().collect();
    let traces: Vec<_> = bodies.iter().filter(|body| body.contains("resourceSpans")).cloned().collect();
    let spans = spans(&traces.join("\n"));
    assert_eq!(spans.len(), 4, "{bodies:?}");
    assert!(traces[0].contains("notes"));
    assert_eq!(
        (&root(&spans)["traceId"], &root(&spans)["parentSpanId"]),
        (&json!("4bf92f3577b34da6a3ce929d0e0e4736"), &json!("00f067aa0ba902b7"))
    );
    assert!(bodies.iter().any(|body| body.contains("gen_ai.client.token.usage")), "{bodies:?}");
    for request in server.requests() {
        let told = request.head.iter().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
        let id = told.split('-').nth(2).unwrap();
        assert!(spans.iter().any(|span| span["spanId"] == id && span["name"] == "chat test-model"), "{told}");
    }
}

#[test]
fn without_the_variables_no_trace_context_is_sent_to_the_models_server() {
    let place = Place::new();
    let server = Server::start(writes());
    finish(place.run(&server).env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").arg("Go"));
    assert!(server.requests().iter().all(|request| !request.head.iter().any(|line| line.starts_with("traceparent"))));
}

#[test]
fn an_unreachable_collector_does_not_end_a_run_and_lost_spans_are_reported() {
    let place = Place::new();
    let server = Server::start(writes());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = place.run(&server);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{nobody}")).env("OTEL_EXPORTER_OTLP_TIMEOUT", "100");
    let ran = finish(command.arg("Write it down"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Written.") && ran.err.contains("4 spans were lost"), "{ran:?}");
    // Exit does not wait longer even if the variables allow it.
    let mut command = place.run(&server);
    let ran = finish(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{nobody}")).arg("--continue"));
    assert!(ran.err.contains(&format!("cannot be reached: http://{nobody}: ")), "{ran:?}");
    let mut command = place.run(&server);
    let ran = finish(command.env("OTEL_TRACES_EXPORTER", "console").arg("--continue"));
    assert!(ran.code == Some(0) && ran.err.contains("OTEL_TRACES_EXPORTER=console"), "{ran:?}");
    let wrong =
        finish(place.run(&server).env("OTEL_TRACES_SAMPLER", "perhaps").env("OTEL_TRACES_EXPORTER", "otlp").arg("Go"));
    assert!(wrong.one_message().contains("OTEL_TRACES_SAMPLER"), "{wrong:?}");
}

#[test]
fn a_resumed_run_links_to_the_killed_one_even_under_another_parent_trace() {
    let place = Place::new();
    let (one, other) = (place.dir.path().join("one.jsonl"), place.dir.path().join("other.jsonl"));
    let call = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}));
    let server = Server::start([call, Reply::Hang, Reply::Text(vec!["Written."])]);
    let mut first = place.run(&server);
    first.env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").arg("--trace").arg(&one);
    let mut child = first.arg("Write it down").stdout(Stdio::null()).stderr(Stdio::null()).start();
    // Finished spans are soon in the file, even if the run continues.
    let is_written = |text: String| text.ends_with('\n') && spans(&text).len() == 2;
    until("two spans", || fs::read_to_string(&one).is_ok_and(is_written).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let before = spans(&fs::read_to_string(&one).unwrap());
    let chat = before.iter().find(|span| span["name"] == "chat test-model").unwrap();

    let mut second = place.run(&server);
    second.env("TRACEPARENT", "00-11112222333344445555666677778888-1111222233334444-01");
    let ran = finish(second.args(["--continue", "--trace"]).arg(&other));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = spans(&fs::read_to_string(other).unwrap());
    let link = &root(&after)["links"][0];
    assert_eq!((&link["traceId"], &link["spanId"]), (&chat["traceId"], &chat["parentSpanId"]), "{after:?}");
    assert_eq!(root(&after)["traceId"], "11112222333344445555666677778888");
}

#[test]
fn the_timeline_of_a_thread_is_derived_from_its_log() {
    let place = Place::new();
    let server = Server::start(writes());
    finish(place.run(&server).arg("Write it down"));
    let shown = place.show(&["--timeline"]);
    let names: Vec<&str> = shown.out.lines().map(|line| line.trim().split("  ").next().unwrap()).collect();
    assert_eq!(
        names[1..],
        ["", "agent", "chat test-model", "tool write_file", "chat test-model", "", names[7]],
        "{shown:?}"
    );
    assert!(names[7].starts_with("in all "), "{shown:?}");
    let json: Value = serde_json::from_str(&place.show(&["--timeline", "--json"]).out).unwrap();
    assert_eq!(json[0]["run"].as_array().unwrap().len(), 4, "{json}");
}
