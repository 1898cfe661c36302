//! Commands with network access.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};
use crate::tools::{answers, call, tools};

/// A server of one text. Returns its port.
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
fn commands_reach_only_allowed_hosts() {
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
fn an_invalid_host_pattern_is_a_usage_error() {
    for args in [&["--execute", "--allow-host", "https://example.org/"][..], &["--allow-host", "example.org"]] {
        let finished = finish(deepagents().arg("run").args(args).arg("Fetch"));
        assert_eq!((finished.code, finished.out.as_str()), (Some(2), ""), "{finished:?}");
        assert!(finished.err.contains("--allow-host") || finished.err.contains("--execute"), "{finished:?}");
    }
}

#[test]
fn a_command_sees_the_users_toolchains_and_the_named_variables() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = home.path().canonicalize().unwrap();
    let script = |path: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(".cargo/bin/cargo", "#!/bin/sh\necho cargo $RUSTUP_HOME; cat $HOME/.cargo/registry/index\n");
    script(".cargo/credentials.toml", "t0ken");
    script(".cargo/registry/index", "crates\n");
    script(".rustup/settings.toml", "");
    script(".ssh/id", "t0ken");
    let path = format!("{}/.cargo/bin:/usr/bin:/bin", home.display());
    let run = |args: &[&str], text: &str| {
        let mut command = tools(root.path());
        command.args(args).env("HOME", &home).env("PATH", &path).env("SEEN", "seen").env("OTHER", "other");
        answers(&finish_with(&mut command, &call("execute", &json!({"command": text})))).remove(0).0
    };
    let text = run(&["--env", "SEEN", "--env", "OWN=own"], "cargo; echo $SEEN $OTHER $OWN");
    if text.contains("there is none") {
        return skip("sandbox", text);
    }
    assert_eq!(text, format!("cargo {}/.rustup\ncrates\nseen own\n[exit code 0]", home.display()));
    let secrets = format!("cat {0}/.cargo/credentials.toml {0}/.ssh/id; ls -a {0} {0}/.cargo", home.display());
    let text = run(&[], &secrets);
    assert!(!text.contains("t0ken") && !text.contains("ssh\n") && !text.contains("credentials.toml\n"), "{text}");
    // Writes go to a copy of the cache, which is discarded.
    let write = "echo more >> ~/.cargo/registry/index && cat ~/.cargo/registry/index; echo x > ~/.cargo/registry/new";
    let index = home.join(".cargo/registry/index");
    let text = run(&[], write);
    assert!(text.contains("crates\nmore"), "{text}");
    assert_eq!(std::fs::read_to_string(&index).unwrap(), "crates\n");
    run(&["--share-caches"], write);
    assert_eq!(std::fs::read_to_string(&index).unwrap(), "crates\nmore\n");
    assert!(home.join(".cargo/registry/new").exists());
    assert!(
        !run(&["--share-caches"], &format!("echo x > {}/.cargo/bin/cargo", home.display())).contains("exit code 0")
    );
}

#[test]
fn a_sandbox_may_be_read_only_or_disabled() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(root.path().join("a"), "text").unwrap();
    let run = |args: &[&str], text: &str| {
        let mut command = tools(root.path());
        command.args(args).env("HOME", home.path());
        answers(&finish_with(&mut command, &call("execute", &json!({"command": text})))).remove(0).0
    };
    let text = run(&["--sandbox", "read-only"], "cat a; echo x > b; rm -f a; mkdir c; echo s > /tmp/s && cat /tmp/s");
    if text.contains("there is none") {
        return skip("sandbox", text);
    }
    assert!(text.starts_with("text") && text.contains("s\n[exit code 0]"), "{text}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    let outside = format!("echo x > {}/outside", home.path().display());
    assert!(!run(&["--sandbox", "workspace"], &outside).contains("exit code 0"));
    assert!(run(&["--sandbox", "unconfined"], &outside).contains("exit code 0"));
    assert!(home.path().join("outside").exists());
}

#[test]
fn command_options_without_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (args, told) in [
        (&["--env", "X=1"][..], "--execute"),
        (&["--share-caches"], "--execute"),
        (&["--sandbox", "unconfined", "--allow-host", "example.org"], "only affects a sandbox"),
        (&["--execute", "--env", "NOT_SET_ANYWHERE"], "is not set"),
        (&["--execute", "--env", "=x"], "NAME=VALUE"),
    ] {
        let mut command = deepagents();
        command.args(["explain", "--root"]).arg(dir.path()).args(args);
        let finished = finish(&mut command);
        assert!(finished.code != Some(0) && finished.err.contains(told), "{finished:?}");
    }
}
