//! MCP servers in the program.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::program::{Finished, Start, deepagents, finish, finish_with, run, until};
use crate::server::{Reply, Server};
use crate::stream::Talk;
use crate::terminal::Terminal;

/// A server that answers each call of its only tool with `echoed it`, and writes its process ID to a file next to it.
pub(crate) const SERVER: &str = r#"echo $$ >> "$(dirname "$0")/pids"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}" ;;
    *'"method":"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"echo\",\"description\":\"$(cat "$(dirname "$0")/says")\",\"inputSchema\":{\"type\":\"object\"}}]}}" ;;
    *'"method":"tools/call"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"echoed it\"}]}}" ;;
    esac
done
"#;

/// A home, a project, and a server in a third directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "root", "server"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("server/run.sh"), SERVER).unwrap();
        fs::write(dir.path().join("server/says"), "Says it again.").unwrap();
        Self(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Adds the server to the project's configuration.
    fn in_project(self) -> Self {
        let config = json!({"mcpServers": {"alpha": {"command": "/bin/sh", "args": [self.at("server/run.sh")]}}});
        fs::write(self.at("root/.mcp.json"), config.to_string()).unwrap();
        self
    }

    fn mcp(&self, args: &[&str]) -> Finished {
        let mut command: Command = deepagents();
        finish(command.env("HOME", self.at("home")).current_dir(self.at("root")).arg("mcp").args(args))
    }

    /// Runs a model that calls the server's tool.
    fn call(&self, args: &[&str]) -> (Finished, Server) {
        let replies = [Reply::Call("mcp__alpha__echo", json!({})), Reply::Text(vec!["Done."])];
        let server = Server::start(replies);
        let mut command = run(&self.at("root"), &server.address);
        let finished = finish(command.env("HOME", self.at("home")).args(args).arg("Go."));
        (finished, server)
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.at("server/pids")).unwrap_or_default().lines().count()
    }
}

fn script(place: &Place) -> String {
    place.at("server/run.sh").display().to_string()
}

/// The last tool result in the requests.
fn last_result(server: &Server) -> String {
    let requests = server.requests();
    let body = &requests.last().unwrap().body;
    body["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

#[test]
fn a_server_can_be_added_tested_used_and_removed() {
    let place = Place::new();
    let added = place.mcp(&["add", "alpha", "--env", "TOKEN=hush-hush", "--", "/bin/sh", &script(&place)]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(place.mcp(&["add", "alpha", "--", "x"]).wrong_usage().contains("already has a server `alpha`"));
    assert!(place.mcp(&["login", "alpha"]).wrong_usage().contains("alpha is a program"));
    let shown = place.mcp(&["get", "alpha"]);
    assert!(
        shown.out.contains("/bin/sh") && shown.out.contains("TOKEN") && !shown.out.contains("hush-hush"),
        "{shown:?}"
    );
    let tried = place.mcp(&["test", "alpha"]);
    assert!(tried.code == Some(0) && tried.out.contains("mcp__alpha__echo"), "{tried:?}");
    let listed = place.mcp(&["list"]);
    assert!(listed.out.contains("alpha") && listed.out.contains("connected, 1 tool, about "), "{listed:?}");

    let (finished, server) = place.call(&[]);
    assert_eq!((finished.code, finished.out.contains("Done.")), (Some(0), true), "{finished:?}");
    assert!(last_result(&server).contains("echoed it"));

    // From now on, the token cost of its tools is known.
    let mut explain = deepagents();
    explain.env("HOME", place.at("home")).args(["explain", "--model", "openai:gpt-5.2", "--json", "--root"]);
    let explained = finish(explain.arg(place.at("root")));
    let explained: serde_json::Value = serde_json::from_str(&explained.out).unwrap();
    let known = &explained["servers"][0];
    assert!(known["name"] == "alpha" && known["tools"] == 1 && known["tokens"].as_u64() > Some(5), "{explained}");

    assert_eq!(place.mcp(&["remove", "alpha"]).code, Some(0));
    assert_eq!(place.mcp(&["remove", "alpha"]).code, Some(2));
    assert!(place.mcp(&["list"]).out.contains("no MCP servers"));
}

#[test]
fn options_may_follow_an_address_but_after_a_program_they_belong_to_it() {
    let place = Place::new();
    let file = || -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(place.at("home/.deepagents/.mcp.json")).unwrap()).unwrap()
    };
    // The example from the help.
    let help = place.mcp(&["--help"]).out;
    let example = help.lines().find(|line| line.contains("mcp add docs ")).unwrap().trim();
    let mut shell = Command::new("sh");
    let program = format!("deepagents() {{ {} \"$@\"; }}; {example}", env!("CARGO_BIN_EXE_deepagents"));
    let added = finish(shell.env("HOME", place.at("home")).args(["-c", &program]).stdin(Stdio::null()));
    assert_eq!(added.code, Some(0), "{added:?}");
    let (address, token) = ("https://docs.example.com/mcp", "Bearer ${DOCS_TOKEN}");
    let docs = json!({"type": "http", "url": address, "headers": {"Authorization": token}});
    assert_eq!(file()["mcpServers"]["docs"], docs);

    let more = ["add", "asks", "--header", "A: b", address, "--sampling", "ask", "--header", "C: d"];
    assert_eq!(place.mcp(&more).code, Some(0));
    let headers = json!({"A": "b", "C": "d"});
    let asks = json!({"type": "http", "url": address, "headers": headers, "sampling": "ask"});
    assert_eq!(file()["mcpServers"]["asks"], asks);

    assert_eq!(place.mcp(&["add", "bare", "prog", "--header", "x", "-e", "A=b"]).code, Some(0));
    assert_eq!(file()["mcpServers"]["bare"], json!({"command": "prog", "args": ["--header", "x", "-e", "A=b"]}));
    let other = place.mcp(&["add", "odd", "ftp://docs.example.com"]);
    assert!(other.wrong_usage().contains("`ftp://docs.example.com` is not the address"), "{other:?}");
    for (name, target, words) in [
        ("", "prog", "a server needs a name"),
        ("odd", "localhost:3000/mcp", "is not the address"),
        ("odd", "http://", "`http://` is not the address of a server"),
        ("odd", "https://a b/mcp", "`https://a b/mcp` is not the address of a server"),
    ] {
        let wrong = place.mcp(&["add", name, target]);
        assert!(wrong.wrong_usage().contains(words), "{wrong:?}");
    }
    assert_eq!(place.mcp(&["add", "variable", "https://${HOST}/mcp"]).code, Some(0));
    assert_eq!(place.mcp(&["add", "loud", "HTTPS://docs.example.com/mcp?token=sk-q"]).code, Some(0));
    let shown = place.mcp(&["get", "loud"]).out;
    assert!(shown.contains("HTTPS://docs.example.com/mcp?…") && !shown.contains("sk-q"), "{shown}");
    let wrong = place.mcp(&["add", "odd", address, "--colour", "red"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--colour"), "{wrong:?}");
}

#[test]
fn concurrently_added_servers_are_all_kept_and_the_file_keeps_its_mode() {
    let place = Place::new();
    let file = place.at("home/.deepagents/.mcp.json");
    assert_eq!(place.mcp(&["add", "first", "--", "x"]).code, Some(0));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let add = |number: usize| {
        let mut command = deepagents();
        command.env("HOME", place.at("home")).args(["mcp", "add", &format!("s{number}"), "--", "x"]);
        command.stdout(Stdio::null()).start()
    };
    let all: Vec<_> = (0..6).map(add).collect();
    assert!(all.into_iter().all(|mut one| one.wait().unwrap().success()));
    let described: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(described["mcpServers"].as_object().unwrap().len(), 7, "{described}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_projects_link_cannot_cause_a_change_to_a_user_file() {
    let place = Place::new();
    let file = place.at("home/.claude.json");
    fs::write(&file, "{}").unwrap();
    std::os::unix::fs::symlink(&file, place.at("root/.mcp.json")).unwrap();
    let mut command = deepagents();
    command.env("HOME", place.at("home")).current_dir(place.at("root"));
    let refused = finish(command.args(["mcp", "add", "x", "--scope", "project", "https://a.example/mcp"]));
    assert!(refused.one_message().contains("is a link out of the project"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn a_servers_file_may_begin_with_a_byte_order_mark_and_may_not_be_a_pipe() {
    let place = Place::new();
    let file = place.at("root/.mcp.json");
    fs::write(&file, "\u{feff}{\"mcpServers\": {}}").unwrap();
    let add = |name| place.mcp(&["add", name, "--scope", "project", "https://a.example/mcp"]);
    assert_eq!(add("alpha").code, Some(0));
    assert!(place.mcp(&["get", "beta"]).code == Some(2) && fs::read_to_string(&file).unwrap().contains("alpha"));
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert!(add("beta").one_message().contains("is not a regular file"));
}

#[test]
fn consent_to_the_tools_of_a_conversation_over_lines_is_remembered() {
    let place = Place::new().in_project();
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let mut command = run(&place.at("root"), &server.address);
    command.env("HOME", place.at("home")).args(["--trust", "--json", "--input-format", "stream-json"]);
    let done = finish_with(&mut command, "{\"type\":\"user\",\"text\":\"Hi.\"}\n");
    assert_eq!(done.code, Some(0), "{done:?}");
    let known = finish(deepagents().env("HOME", place.at("home")).args(["trust", "list"]));
    assert!(known.out.contains("echo"), "{known:?}");
}

#[test]
fn consent_to_the_tools_of_the_screens_is_remembered() {
    let place = Place::new().in_project();
    let server = Server::start([Reply::Text(vec!["Hello", "."])]);
    let mut command = deepagents();
    command.env("HOME", place.at("home")).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    command.args(["--trust", "--base-url", &server.address, "--model", "test-model", "--root"]).arg(place.at("root"));
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("hello\r");
    terminal.wait_for("Hello.");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen:?}");
    let known = finish(deepagents().env("HOME", place.at("home")).args(["trust", "list"]));
    assert!(known.out.contains("echo"), "{known:?}");
    // The screens do not store consent to the server itself.
    place.call(&["--trust"]);

    // A tool that has changed is used if the command line agrees to it.
    fs::write(place.at("server/says"), "Sends it to somebody else.").unwrap();
    fs::remove_dir_all(place.at("home/.deepagents/cache")).unwrap();
    for (trust, is_used) in [(&[][..], false), (&["--trust"][..], true)] {
        let server = Server::start([Reply::Call("mcp__alpha__echo", json!({})), Reply::Text(vec!["Done", "."])]);
        let mut command = deepagents();
        command.env("HOME", place.at("home")).env("TERM", "xterm-256color").env("NO_COLOR", "1").args(trust);
        command.args(["--approve", "auto", "--base-url", &server.address, "--model", "test-model", "--root"]);
        let mut terminal = Terminal::start(command.arg(place.at("root")));
        terminal.wait_for("test-model");
        terminal.type_in("hello\r");
        terminal.wait_for("Done.");
        terminal.type_in("/quit\r");
        terminal.end();
        assert_eq!(last_result(&server).contains("echoed it"), is_used);
    }
}

#[test]
fn an_agent_keeps_its_servers_until_another_one_is_built() {
    let place = Place::new();
    let own = place.at("home/.deepagents");
    fs::create_dir_all(&own).unwrap();
    let define = |argument: &str| {
        let alpha = json!({"command": "/bin/sh", "args": [place.at("server/run.sh"), argument]});
        fs::write(own.join(".mcp.json"), json!({"mcpServers": {"alpha": alpha}}).to_string()).unwrap();
    };
    let call = || Reply::Call("mcp__alpha__echo", json!({}));
    let said = |text| Reply::Text(vec![text]);
    let server = Server::start([call(), said("Once."), call(), said("Twice."), call(), said("Thrice.")]);
    let mut command = deepagents();
    command.env("HOME", place.at("home")).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    command.args(["--approve", "auto", "--base-url", &server.address, "--model", "test-model", "--root"]);
    define("one");
    let mut terminal = Terminal::start(command.arg(place.at("root")));
    terminal.wait_for("test-model");
    terminal.type_in("hello\r");
    terminal.wait_for("Once.");
    define("two");
    terminal.type_in("/mcp\r");
    terminal.wait_for("alpha: connected");
    fs::write(own.join("prices.json"), "not prices").unwrap();
    terminal.type_in("/reload\r");
    terminal.wait_for("stays");
    terminal.type_in("hello\r");
    terminal.wait_for("Twice.");
    assert!(last_result(&server).contains("echoed it"), "{}", last_result(&server));
    fs::remove_file(own.join("prices.json")).unwrap();
    terminal.type_in("/reload\r");
    // It waits for the agent.
    terminal.type_in("hello\r");
    terminal.wait_for("Thrice.");
    assert!(last_result(&server).contains("echoed it"), "{}", last_result(&server));
    assert_eq!(place.starts(), 2, "each server is started once");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_tool_that_changes_while_the_program_runs_is_left_out() {
    let place = Place::new().in_project();
    place.call(&["--trust"]);
    let revoke = ["trust", "revoke", "--source", "mcp__alpha__echo"];
    let revoked = finish(deepagents().env("HOME", place.at("home")).args(revoke).arg(place.at("root")));
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let call = || Reply::Call("mcp__alpha__echo", json!({}));
    let server = Server::start([call(), Reply::Text(vec!["One."]), call(), Reply::Text(vec!["Two."])]);
    let mut talk = Talk::start(&place.at("root"), &place.at("home"), &server, &[]);
    talk.user("Once.");
    talk.until("run_finished");
    assert!(server.requests()[1].body["messages"].to_string().contains("echoed it"));
    // The server ends, and its next start describes the tool otherwise.
    fs::write(place.at("server/says"), "Sends it to somebody else.").unwrap();
    let pids = fs::read_to_string(place.at("server/pids")).unwrap();
    let pid = pids.lines().last().unwrap();
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    // Once the program has waited for the process, it knows that the server has ended.
    let lives = |pid| Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success();
    until("the end of the server", || (!lives(pid)).then_some(()));
    talk.user("And again.");
    talk.until("run_finished");
    talk.end();
    let last = last_result(&server);
    assert!(last.contains("has changed since you agreed to it"), "{last}");
}

#[test]
fn a_project_server_starts_only_after_consent_and_not_once_changed() {
    let place = Place::new().in_project();
    let (left_out, _) = place.call(&[]);
    assert!(left_out.err.contains("alpha") && left_out.err.contains("--trust"), "{left_out:?}");
    assert_eq!(place.starts(), 0);

    let (once, server) = place.call(&["--trust-project-mcp"]);
    assert_eq!(once.code, Some(0), "{once:?}");
    assert!(last_result(&server).contains("echoed it"));
    let starts = place.starts();
    place.call(&[]);
    assert_eq!(place.starts(), starts);

    // Consent is remembered.
    place.call(&["--trust"]);
    let (again, server) = place.call(&[]);
    assert!(last_result(&server).contains("echoed it"), "{again:?}");

    // The tool changes its description.
    fs::write(place.at("server/says"), "Sends it to somebody else.").unwrap();
    fs::remove_dir_all(place.at("home/.deepagents/cache")).unwrap();
    let (changed, server) = place.call(&[]);
    assert!(!last_result(&server).contains("echoed it"));
    assert!(
        changed.err.contains("has changed since you agreed to it")
            || changed.out.contains("has changed since you agreed to it"),
        "{changed:?}"
    );

    // Renewed consent applies from now on.
    place.call(&["--trust"]);
    let (agreed, server) = place.call(&[]);
    assert!(last_result(&server).contains("echoed it"), "{agreed:?}");

    // The file now configures another program.
    fs::write(place.at("root/.mcp.json"), json!({"mcpServers": {"alpha": {"command": "/bin/false"}}}).to_string())
        .unwrap();
    let (other, _) = place.call(&[]);
    assert!(other.err.contains("left out") && other.err.contains("alpha"), "{other:?}");
}

#[test]
fn consent_to_a_server_shows_what_it_is_given_including_your_variables() {
    let place = Place::new();
    let config = json!({"mcpServers": {
        "docs": {"url": "https://docs.example/${TEAM:-all}", "headers": {"X-Id": "${ANTHROPIC_API_KEY}", "Y": "plain"}},
        "fmt": {"command": "true", "args": ["-v"], "env": {"LD_PRELOAD": "./evil.so"}, "cwd": "sub", "sampling": "allow"},
    }});
    fs::write(place.at("root/.mcp.json"), config.to_string()).unwrap();
    let mut command = deepagents();
    let shown = finish(command.env("HOME", place.at("home")).current_dir(place.at("root")).args(["trust", "show"]));
    let out = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "the address https://docs.example/${TEAM:-all}",
        "the header X-Id as ${ANTHROPIC_API_KEY}",
        "the header Y as plain",
        "your variable ANTHROPIC_API_KEY for its headers.X-Id",
        "your variable TEAM for its url",
        "the command true -v",
        "the directory sub",
        "the variable LD_PRELOAD as ./evil.so",
        "the use of the model",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
}

#[test]
fn a_servers_project_files_are_part_of_the_consent_and_protected_from_changes() {
    let place = Place::new();
    fs::create_dir(place.at("root/tools")).unwrap();
    fs::copy(place.at("server/run.sh"), place.at("root/tools/run.sh")).unwrap();
    fs::copy(place.at("server/says"), place.at("root/tools/says")).unwrap();
    let config = json!({"mcpServers": {"alpha": {"command": "/bin/sh", "args": ["tools/run.sh"]}}});
    fs::write(place.at("root/.mcp.json"), config.to_string()).unwrap();
    place.call(&["--trust"]);
    let (agreed, server) = place.call(&[]);
    assert!(last_result(&server).contains("echoed it"), "{agreed:?}");

    // The model writes it, and nobody can be asked.
    let replies = ["/tools/run.sh", "/tools/other.sh"]
        .map(|path| Reply::Call("write_file", json!({"file_path": path, "content": "exit 1\n"})));
    let server = Server::start(replies.into_iter().chain([Reply::Text(vec!["Done."])]));
    let mut command = run(&place.at("root"), &server.address);
    let written = finish(command.env("HOME", place.at("home")).args(["--approve", "auto", "Go."]));
    assert_eq!(fs::read_to_string(place.at("root/tools/run.sh")).unwrap(), SERVER, "{written:?}");
    assert!(place.at("root/tools/other.sh").exists(), "{written:?}");

    // The program has changed.
    fs::write(place.at("root/tools/run.sh"), format!("{SERVER}# changed\n")).unwrap();
    let (changed, server) = place.call(&[]);
    assert!(changed.err.contains("left out") && changed.err.contains("alpha"), "{changed:?}");
    assert!(!last_result(&server).contains("echoed it"));
}

#[test]
fn large_tool_sets_are_searched_before_they_are_offered_on_request() {
    let place = Place::new().in_project();
    let tools: Vec<_> = (0..200)
        .map(|n| {
            let (name, what) = if n == 137 { ("echo".to_owned(), "Repeats a word".to_owned()) } else { (format!("t{n}"), format!("Number {n}")) };
            json!({"name": name, "description": format!("{what} of many, which weigh something."), "inputSchema": {"type": "object"}})
        })
        .collect();
    fs::write(place.at("server/tools"), json!(tools).to_string()).unwrap();
    let one = "[{\\\"name\\\":\\\"echo\\\",\\\"description\\\":\\\"$(cat \"$(dirname \"$0\")/says\")\\\",\\\"inputSchema\\\":{\\\"type\\\":\\\"object\\\"}}]";
    let script = SERVER.replace(one, "$(cat \"$(dirname \"$0\")/tools\")");
    assert_ne!(script, SERVER);
    fs::write(place.at("server/run.sh"), script).unwrap();
    let run_with = |args: &[&str]| {
        let server = Server::start([
            Reply::Call("tool_search", json!({"query": "repeat a word"})),
            Reply::Call("mcp__alpha__echo", json!({})),
            Reply::Text(vec!["Done."]),
        ]);
        let mut command = run(&place.at("root"), &server.address);
        let finished = finish(command.env("HOME", place.at("home")).args(args).args(["--trust-project-mcp", "Go."]));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let offered = |at: usize| server.requests()[at].body["tools"].to_string();
        (offered(0), offered(1), last_result(&server))
    };
    let (first, second, result) = run_with(&["--tool-search"]);
    assert!(first.contains("tool_search") && !first.contains("mcp__alpha__"), "{first}");
    assert!(second.contains("mcp__alpha__echo") && !second.contains("mcp__alpha__t136"), "{second}");
    assert!(result.contains("echoed it"), "{result}");
    let (first, ..) = run_with(&[]);
    assert!(first.contains("mcp__alpha__echo") && first.contains("mcp__alpha__t136") && !first.contains("tool_search"));
    fs::create_dir_all(place.at("home/.deepagents")).unwrap();
    fs::write(place.at("home/.deepagents/config.toml"), "tool_search = true\n").unwrap();
    assert!(!run_with(&[]).0.contains("mcp__alpha__"));
}

#[test]
fn server_calls_are_refused_when_nothing_may_be_changed() {
    let place = Place::new().in_project();
    let (denied, server) = place.call(&["--trust-project-mcp", "--approve", "deny"]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    assert!(!last_result(&server).contains("echoed it"));
}

#[test]
fn a_read_only_hint_of_a_project_server_counts_only_after_consent_to_it() {
    let place = Place::new().in_project();
    let hint = "\"annotations\":{\"readOnlyHint\":true},";
    let schema = "\\\"inputSchema";
    let with_hints = SERVER.replace(schema, &format!("$(cat \"$(dirname \"$0\")/hints\" 2>/dev/null){schema}"));
    assert_ne!(with_hints, SERVER);
    fs::write(place.at("server/run.sh"), with_hints).unwrap();
    place.call(&["--trust"]);
    // The hint was missing when the user gave consent.
    fs::write(place.at("server/hints"), hint).unwrap();
    fs::remove_dir_all(place.at("home/.deepagents/cache")).unwrap();
    let (changed, server) = place.call(&["--approve", "deny"]);
    assert!(!last_result(&server).contains("echoed it") && changed.err.contains("only reads"), "{changed:?}");

    for agreed in ["--trust-project-mcp", "--trust"] {
        let (called, server) = place.call(&[agreed, "--approve", "deny"]);
        assert!(last_result(&server).contains("echoed it"), "{called:?}");
    }
    let (called, server) = place.call(&["--approve", "deny"]);
    assert!(last_result(&server).contains("echoed it"), "{called:?}");
}

#[test]
fn an_unusable_named_config_file_stops_the_program_before_any_request() {
    let place = Place::new();
    fs::write(place.at("mcp.json"), "{\n  oops\n}").unwrap();
    let file = place.at("mcp.json").display().to_string();
    let (refused, server) = place.call(&["--mcp-config", &file]);
    assert!(refused.wrong_usage().contains("line 2"), "{refused:?}");
    assert!(server.requests().is_empty());
    let (missing, _) = place.call(&["--mcp-config", "/no/such/file"]);
    assert!(missing.wrong_usage().contains("/no/such/file"));
}

#[test]
fn unusable_entries_are_named_and_the_others_work() {
    let place = Place::new();
    let config = json!({"mcpServers": {
        "alpha": {"command": "/bin/sh", "args": [place.at("server/run.sh")]},
        "nothing": {"note": "x"},
        "needy": {"command": "x", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}},
    }});
    fs::create_dir_all(place.at("home/.deepagents")).unwrap();
    fs::write(place.at("home/.deepagents/.mcp.json"), config.to_string()).unwrap();
    let (finished, server) = place.call(&[]);
    assert!(last_result(&server).contains("echoed it"));
    for word in ["nothing", "needy", "NOT_SET_ANYWHERE"] {
        assert!(finished.err.contains(word), "{finished:?}");
    }
    assert!(!Path::new(&place.at("root/.deepagents")).exists());
}

#[test]
fn a_changed_tool_is_asked_about_again_at_a_terminal() {
    let place = Place::new().in_project();
    place.call(&["--trust"]);
    fs::write(place.at("server/says"), "Sends it to somebody else.").unwrap();
    fs::remove_dir_all(place.at("home/.deepagents/cache")).unwrap();
    let server = Server::start([Reply::Call("mcp__alpha__echo", json!({})), Reply::Text(vec!["Done."])]);
    let mut command = run(&place.at("root"), &server.address);
    let mut terminal = Terminal::start(command.env("HOME", place.at("home")).args(["--approve", "auto", "Go."]));
    terminal.wait_for("somebody else");
    terminal.press_until("y\n", "Done.");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(last_result(&server).contains("echoed it"), "{seen}");
    assert!(!seen.contains("is left out"), "{seen}");
    assert!(seen.contains("its new description: ") && !seen.contains("asks for its new"), "{seen}");
}

#[test]
fn a_served_agent_with_files_can_run_its_commands_in_one_shell() {
    let call = |text: &str| Reply::Call("execute", json!({"command": text}));
    let server =
        Server::start([call("mkdir below; cd below; one=1"), call("echo $one > made"), Reply::Text(vec!["Done."])]);
    let place = Place::new();
    let mut command: Command = deepagents();
    command.env("HOME", place.at("home")).args(["mcp", "serve", "--files", "--approve", "auto"]);
    command.args([
        "--sandbox",
        "unconfined",
        "--shell-session",
        "--model",
        "test-model",
        "--base-url",
        &server.address,
    ]);
    let mut child = command.arg("--root").arg(place.at("root")).stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let info = json!({"name": "test", "version": "1"});
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let mut request = |id: u64, method: &str, params: serde_json::Value| -> serde_json::Value {
        writeln!(to, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    request(1, "initialize", initialize);
    let done = request(2, "tools/call", json!({"name": "agent", "arguments": {"task": "Make it."}}));
    assert!(done["result"]["content"].to_string().contains("Done."), "{done}");
    assert_eq!(fs::read_to_string(place.at("root/below/made")).unwrap(), "1\n");
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn client_mistakes_are_named_and_a_question_it_cannot_ask_is_a_rejection() {
    let write = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
    let server = Server::start([write, Reply::Text(vec!["It is over."])]);
    let place = Place::new();
    let mut command: Command = deepagents();
    command.env("HOME", place.at("home")).args(["mcp", "serve", "--approve", "ask", "--model", "test-model"]);
    command.args(["--base-url", &server.address, "--root"]).arg(place.at("root"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let info = json!({"name": "test", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
    let mut request = |id: u64, method: &str, params: serde_json::Value| -> serde_json::Value {
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            request["params"] = params;
        }
        writeln!(to, "{request}").unwrap();
        loop {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            let message: serde_json::Value = serde_json::from_str(&line).unwrap();
            if message["method"] != "elicitation/create" {
                return message;
            }
            let error = json!({"code": -32603, "message": "no window"});
            writeln!(to, "{}", json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).unwrap();
        }
    };
    request(1, "initialize", initialize);
    for (id, params) in [
        (2, json!({"arguments": {"task": "x"}})),
        (3, serde_json::Value::Null),
        (4, json!({"name": "agent", "arguments": [1]})),
    ] {
        assert_eq!(request(id, "tools/call", params)["error"]["code"], -32602);
    }
    assert_eq!(request(5, "tools/burn", json!({}))["error"]["code"], -32601);
    let done = request(6, "tools/call", json!({"name": "agent", "arguments": {"task": "Write."}}));
    assert!(done["result"]["content"].to_string().contains("It is over."), "{done}");
    let listed = finish(deepagents().env("HOME", place.at("home")).args(["threads", "list", "--json"]));
    let threads: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let noted = &threads[0]["metadata"];
    assert_eq!(
        (&noted["title"], &noted["approve"], &noted["model"]),
        (&json!("Write."), &json!("ask"), &json!("custom:test-model"))
    );
    assert_eq!(noted["root"], json!(place.at("root").canonicalize().unwrap()));
    assert!(!place.at("root/a.txt").exists());
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn files_a_server_loads_need_consent_and_are_protected_however_named() {
    let place = Place::new();
    let put = |name: &str, text: &str| {
        fs::create_dir_all(place.at(name).parent().unwrap()).unwrap();
        fs::write(place.at(name), text).unwrap();
    };
    let write = |args: &[&str], path: &str| {
        let call = Reply::Call("write_file", json!({"file_path": path, "content": "evil"}));
        // An existing file must be read before it is overwritten.
        let read = Reply::Call("read_file", json!({"file_path": path}));
        let server = Server::start([read, call, Reply::Text(vec!["Done."])]);
        let mut command = run(&place.at("root"), &server.address);
        let done = finish(command.env("HOME", place.at("home")).args(args).arg("Go."));
        let text = fs::read_to_string(place.at("root").join(path.trim_start_matches('/'))).unwrap_or_default();
        (text == "evil", done)
    };
    for name in ["tools/server.py", "pkg/mod/__main__.py", "pkg/mod/part.py", "js/index.js"] {
        put(&format!("root/{name}"), "");
    }
    for name in ["js/serve.js", "js/lint.js"] {
        put(&format!("root/{name}"), "");
    }
    let scripts = json!({"serve": "npm run start", "start": "node js/serve.js", "lint": "node js/lint.js"});
    put("root/package.json", &json!({"scripts": scripts}).to_string());
    let servers = json!({"mcpServers": {
        "a": {"command": "sh", "args": ["-c", "cd tools && exec python3 server.py"]},
        "b": {"command": "python3", "args": ["-m", "pkg.mod"]},
        "c": {"command": "npm", "args": ["run", "serve"]},
    }});
    // The user's own servers, and those of a named file.
    put("home/.deepagents/.mcp.json", &servers.to_string());
    let named = json!({"mcpServers": {"d": {"command": "node", "args": [place.at("root/js")]}}});
    put("home/named.json", &named.to_string());
    let file = place.at("home/named.json").display().to_string();
    for path in ["/tools/server.py", "/pkg/mod/__main__.py", "/package.json", "/js/serve.js"] {
        let (changed, done) = write(&[], path);
        assert!(!changed, "{path}: {done:?}");
    }
    assert!(!write(&["--mcp-config", &file], "/js/index.js").0);
    // Files next to programs may be what the agent works on.
    for path in ["/src/json.py", "/other.json", "/js/index.js", "/js/lint.js", "/pkg/mod/part.py", "/tools/more.py"] {
        let (changed, done) = write(&[], path);
        assert!(changed, "{path}: {done:?}");
    }

    // Consent covers the files next to the program.
    fs::remove_file(place.at("home/.deepagents/.mcp.json")).unwrap();
    let servers = json!({"mcpServers": {
        "e": {"command": "python3", "args": ["tools/server.py"]},
        "f": {"command": "npm", "args": ["run", "serve"]},
    }});
    put("root/.mcp.json", &servers.to_string());
    let hash = |place: &Place| {
        let shown =
            finish(deepagents().env("HOME", place.at("home")).args(["trust", "show", "--json"]).arg(place.at("root")));
        serde_json::from_str::<serde_json::Value>(&shown.out).unwrap()[0]["item"]["sha256"].clone()
    };
    let shown = finish(deepagents().env("HOME", place.at("home")).args(["trust", "show"]).arg(place.at("root"))).out;
    assert_eq!(shown.matches("not all of which are checked for changes").count(), 1, "{shown}");
    let before = hash(&place);
    put("root/tools/notes.txt", "kept by the server");
    assert_eq!(hash(&place), before);
    let write = |path: &str| {
        let call = Reply::Call("write_file", json!({"file_path": path, "content": "evil"}));
        let server = Server::start([call, Reply::Text(vec!["Done."])]);
        finish(run(&place.at("root"), &server.address).env("HOME", place.at("home")).args(["--no-mcp", "Go."]))
    };
    write("/tools/part.py");
    // The file is written, but the server needs new consent before it starts again.
    assert!(place.at("root/tools/part.py").exists());
    assert_ne!(hash(&place), before);
    fs::remove_file(place.at("root/tools/part.py")).unwrap();
    assert_eq!(hash(&place), before);
    put("root/tools/json.py", "evil");
    assert_ne!(hash(&place), before);
}
