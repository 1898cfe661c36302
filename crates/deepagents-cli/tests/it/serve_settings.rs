//! Every setting of a `deepagents.toml`.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::mcp::SERVER;
use crate::server::{Reply, Server};
use crate::serving::{Place, Serving};

/// The last tool result.
fn result(values: &Value) -> String {
    let messages = values["messages"].as_array().unwrap();
    let result = messages.iter().rev().find(|message| message["type"] == "tool");
    result.unwrap_or_else(|| panic!("no call was made: {values}"))["content"].to_string()
}

/// The names of the tools in the last request.
fn offered(place: &Place) -> Vec<String> {
    let request = place.model.requests().pop().unwrap();
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

/// The status line and headers of a response.
fn head(serving: &Serving, request: &str) -> String {
    use std::io::{BufRead, BufReader};
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    write!(stream, "{request}\r\nconnection: close\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    lines.map(|line| line.to_ascii_lowercase() + "\n").collect()
}

#[test]
fn model_settings_reach_the_model() {
    let place = Place::obeying();
    place.describe(
        "effort = \"low\"\nmax_answer_tokens = 321\nheaders = { \"x-team\" = \"blue\" }\nsystem_prompt = \"You sail.\"\n",
    );
    place.serve_project().say("one");
    let request = place.model.requests().pop().unwrap();
    assert!(request.head.iter().any(|line| line == "x-team: blue"), "{:?}", request.head);
    let body = request.body.to_string();
    assert!(body.contains("321") && body.contains("\"low\"") && body.contains("You sail."), "{body}");
}

#[test]
fn calls_written_as_text_are_made_when_the_project_file_says_so() {
    let mut place = Place::obeying();
    place.model = Server::by_rule(|request| match request["messages"].as_array().and_then(|all| all.last()) {
        Some(last) if last["role"] == "tool" => Reply::Text(vec!["Done."]),
        _ => Reply::Text(vec![r#"<tool_call>{"name": "ls", "arguments": {"path": "/"}}</tool_call>"#]),
    });
    let calls = |rest: &str| {
        place.describe(rest);
        let said = place.serve_project().say("one");
        said["messages"].as_array().unwrap().iter().filter(|message| message["type"] == "tool").count()
    };
    assert_eq!((calls(""), calls("text_tool_calls = true\n")), (0, 1));
}

#[test]
fn disabled_features_are_not_offered() {
    let place = Place::obeying();
    place.describe("");
    place.write("AGENTS.md", "The mast is green.");
    let all = {
        let serving = place.serve_project();
        serving.say("one");
        offered(&place)
    };
    assert!(["write_todos", "task"].iter().all(|name| all.iter().any(|tool| tool == name)), "{all:?}");
    place.describe("todos = false\nsub_agents = false\nmemory = false\nskills = false\nhooks = false\ntrust = true\n");
    place.serve_project().say("one");
    let few = offered(&place);
    assert!(!few.iter().any(|tool| tool == "write_todos"), "{few:?}");
    assert!(!place.system().contains("The mast is green."), "{}", place.system());
    place.describe("trust = true\n");
    place.serve_project().say("one");
    assert!(place.system().contains("The mast is green."), "{}", place.system());
}

#[test]
fn file_changes_are_asked_about_made_or_refused_as_configured() {
    let place = Place::obeying();
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    let agent = |name: &str| format!("[agents.{name}]\napprove = \"{name}\"\n{model}");
    place.describe(&format!("{}{}{}", agent("ask"), agent("auto"), agent("deny")));
    let serving = place.serve_project();
    let write = |name: &str| json!({"file_path": format!("/{name}.txt"), "content": "x"});
    let asked = serving.call("ask", "write_file", &write("ask"));
    assert_eq!(asked["__interrupt__"][0]["value"]["action_requests"][0]["name"], "write_file", "{asked}");
    serving.call("auto", "write_file", &write("auto"));
    let refused = serving.call("deny", "write_file", &write("deny"));
    assert!(refused.get("__interrupt__").is_none(), "{refused}");
    assert!(result(&refused).contains("reject") || result(&refused).contains("den"), "{refused}");
    let made = ["ask", "auto", "deny"].map(|name| place.path().join(format!("{name}.txt")).exists());
    assert_eq!(made, [false, true, false]);
}

#[test]
fn rules_apply_and_an_agent_may_have_its_own_root() {
    let place = Place::obeying();
    place.write("secret/key", "hush");
    place.write("open/key", "hello");
    place.write("below/own", "mine");
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    let below = format!("[agents.below]\nroot = \"below\"\n{model}");
    place.describe(&format!(
        "permissions = [{{ mode = \"deny\", operations = [\"read\"], paths = [\"/secret/**\"] }}]\n{below}"
    ));
    let serving = place.serve_project();
    let read = |agent: &str, path: &str| result(&serving.call(agent, "read_file", &json!({"file_path": path})));
    assert!(read("one", "/open/key").contains("hello"));
    assert!(!read("one", "/secret/key").contains("hush"));
    assert!(read("below", "/own").contains("mine"));
    assert!(!read("below", "/open/key").contains("hello"));
}

#[test]
fn commands_run_when_configured_with_the_configured_variables() {
    let place = Place::obeying();
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    place.describe(&format!(
        "[agents.runs]\napprove = \"auto\"\n{model}commands = {{ sandbox = \"unconfined\", env = [\"SHIP=Fram\", \"PORT\"] }}\n"
    ));
    let serving = place.serve(|command| command.arg(place.path()).env("PORT", "Oslo").env("OTHER", "none"));
    let done = serving.call("runs", "execute", &json!({"command": "echo $SHIP $PORT [$OTHER] $(pwd)"}));
    let here = fs::canonicalize(place.path()).unwrap();
    assert!(result(&done).contains(&format!("Fram Oslo [] {}", here.display())), "{done}");
    serving.say("one");
    assert!(!offered(&place).iter().any(|tool| tool == "execute"));
}

#[test]
fn tool_servers_belong_to_the_agents_that_name_them() {
    let place = Place::obeying();
    place.write("tools/run.sh", SERVER);
    place.write("tools/says", "Says it again.");
    let script = place.path().join("tools/run.sh");
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    let named = format!("mcp_servers = {{ alpha = {{ command = \"/bin/sh\", args = [{:?}] }} }}\n", script.display());
    let config = json!({"mcpServers": {"beta": {"command": "/bin/sh", "args": [script]}}});
    place.write("beta.json", &config.to_string());
    let of_a_file = format!("[agents.beta]\nmcp_config = \"beta.json\"\napprove = \"auto\"\n{model}");
    place.describe(&format!("[agents.alpha]\napprove = \"auto\"\n{model}{named}{of_a_file}"));
    let serving = place.serve_project();
    for name in ["alpha", "beta"] {
        let done = serving.call(name, &format!("mcp__{name}__echo"), &json!({}));
        assert!(result(&done).contains("echoed it"), "{done}");
        assert_eq!(offered(&place).iter().filter(|tool| tool.starts_with("mcp__")).count(), 1);
    }
    serving.say("one");
    assert!(!offered(&place).iter().any(|tool| tool.starts_with("mcp__")));
}

#[test]
fn hosts_origins_and_the_audit_log_are_as_configured() {
    let place = Place::obeying();
    place.describe(
        "[server]\nhosts = [\"agents.example.com\"]\norigins = [\"https://app.example.com\"]\naudit = \"audit.log\"\n",
    );
    let serving = place.serve_project();
    let info = |head_lines: &str| head(&serving, &format!("GET /info HTTP/1.1\r\n{head_lines}"));
    assert!(info("host: agents.example.com").starts_with("http/1.1 200"));
    assert!(!info("host: evil.example.com").starts_with("http/1.1 200"));
    let allowed = info("host: localhost\r\norigin: https://app.example.com");
    assert!(allowed.contains("access-control-allow-origin: https://app.example.com"), "{allowed}");
    let other = info("host: localhost\r\norigin: https://evil.example.com");
    assert!(!other.contains("access-control-allow-origin"), "{other}");
    let (_, thread) = serving.ask("POST", "/threads", "", &json!({}));
    let thread = thread["thread_id"].as_str().unwrap();
    serving.ask("DELETE", &format!("/threads/{thread}"), "", &json!({}));
    let noted = fs::read_to_string(place.path().join("audit.log")).unwrap();
    assert!(noted.lines().any(|line| line.contains("DELETE") && line.contains(thread)), "{noted}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(place.path().join("audit.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner can read who did what");
    }
    // The requests with a foreign `Host` and a foreign `Origin`.
    assert_eq!(noted.lines().filter(|line| line.contains("/info") && line.contains("403")).count(), 2, "{noted}");
}

#[test]
fn a_missing_webhook_secret_is_reported_and_threads_use_the_configured_store() {
    let place = Place::obeying();
    place.describe("[server]\nwebhook_secret_env = \"NO_SUCH_SECRET\"\n");
    assert!(place.refused().contains("NO_SUCH_SECRET"));
    place.describe("[store]\npostgres_env = \"NO_SUCH_DATABASE\"\n");
    assert!(place.refused().contains("NO_SUCH_DATABASE"));
    if let Ok(url) = std::env::var("DEEPAGENTS_TEST_POSTGRES") {
        place.describe("[store]\npostgres_env = \"DATABASE\"\n");
        let serve = || place.serve(|command| command.arg(place.path()).env("DATABASE", &url));
        let (_, thread) = serve().ask("POST", "/threads", "", &json!({}));
        let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
        assert_eq!(serve().ask("GET", &path, "", &json!({})).0, 200);
    } else {
        deepagents_testing::skip::skip(
            "postgres",
            "DEEPAGENTS_TEST_POSTGRES names no server; .ci/postgres.sh starts one",
        );
    }
}

#[test]
fn a_configured_token_issuer_requires_authentication() {
    let place = Place::obeying();
    let issuer = Server::by_rule(|_| unreachable!("nobody asks it for anything but keys"));
    let address = issuer.address.trim_end_matches("/v1").to_owned();
    place.describe(&format!("[auth.jwt]\nissuer = {address:?}\naudience = [\"agents\"]\nkeys = \"{address}/keys\"\n"));
    let serving = place.serve_project();
    assert_eq!(serving.ask("GET", "/info", "", &json!({})).0, 401);
    assert_eq!(serving.ask("GET", "/ok", "", &json!({})).0, 200);
}
