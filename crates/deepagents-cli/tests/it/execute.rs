//! Commands that reach the network.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{deepagents, finish, run};
use crate::server::{Reply, Server};

/// A server of one text, and its port.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(stream.try_clone().unwrap()).lines();
            head.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n");
        }
    });
    port
}

#[test]
fn commands_reach_the_hosts_that_are_allowed_and_no_others() {
    let report: Value = serde_json::from_str(&finish(deepagents().args(["doctor", "--json"])).out).unwrap();
    if report["sandbox"]["level"] == "none" {
        return skip("sandbox", &report["sandbox"]);
    }
    if !["/bin/curl", "/usr/bin/curl"].iter().any(|path| std::path::Path::new(path).exists()) {
        return skip("curl", "commands find none");
    }
    let parts = report["sandbox"]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["name"] == "allow-list of hosts" && part["available"] == true), "{report}");
    let (allowed, other) = (page(), page());
    let text = format!("curl -sS http://localhost:{allowed}/; curl -sS http://localhost:{other}/");
    let server = Server::start([Reply::Call("execute", json!({"command": text})), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let mut program = run(dir.path(), &server.address);
    let finished = finish(
        program
            .args(["--no-save", "--execute", "--allow-host", "example.org", "--allow-host"])
            .args([&format!("localhost:{allowed}"), "Fetch"]),
    );
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let told = server.requests()[1].body.to_string();
    assert!(told.contains(&format!("page\\nlocalhost:{other} is not on the list")), "{told}");
    assert!(told.contains(&format!("[refused, since commands may not reach it: localhost:{other}]")), "{told}");
}

#[test]
fn what_names_no_host_is_wrong_usage() {
    for args in [&["--execute", "--allow-host", "https://example.org/"][..], &["--allow-host", "example.org"]] {
        let finished = finish(deepagents().arg("run").args(args).arg("Fetch"));
        assert_eq!((finished.code, finished.out.as_str()), (Some(2), ""), "{finished:?}");
        assert!(finished.err.contains("--allow-host") || finished.err.contains("--execute"), "{finished:?}");
    }
}
