//! Servers configured in files, and their display.

use deepagents_core::event::MiddlewareEvent;
use deepagents_mcp::{ConfigFile, EntryError, FileError, McpServers, ServerConfig, ToolFilter};
use deepagents_models::scripted::Turn;
use serde_json::json;

use crate::script::{Script, agent, alone, echo, one_call, options, results, run, text};

fn lookup(name: &str) -> Option<String> {
    match name {
        "DOCS_KEY" => Some("sesame-0815".to_owned()),
        _ => None,
    }
}

fn entry(entry: &serde_json::Value) -> Result<ServerConfig, EntryError> {
    let file = ConfigFile::parse(&json!({"mcpServers": {"alpha": entry}}).to_string()).unwrap();
    file.servers[0].1.clone().unwrap().config(&lookup)
}

#[test]
fn another_programs_config_file_is_rejected_by_its_key() {
    for key in ["servers", "mcpservers", "mcp_servers"] {
        let refused = ConfigFile::parse(&json!({key: {"a": {"command": "x"}}}).to_string());
        assert_eq!(refused, Err(FileError::Key { key: key.to_owned() }));
    }
    let marked = ConfigFile::parse("\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}").unwrap();
    assert_eq!(marked.servers.len(), 1);
    assert!(ConfigFile::parse("{\"inputs\": []}").unwrap().servers.is_empty());
}

#[test]
fn all_unset_variables_are_named_and_no_values_are_shown() {
    let two = entry(&json!({"command": "${NO_A}", "args": ["${DOCS_KEY}"], "env": {"X": "${NO_B}", "Y": "${NO_A}"}}));
    let problem = two.unwrap_err().to_string();
    assert!(problem.contains("variables NO_A, NO_B are not set"), "{problem}");
    let one = entry(&json!({"url": "https://a.example/?k=${NO_A}", "oauth": {"clientSecret": "x"}}));
    assert_eq!(one.unwrap_err(), EntryError::Variable("NO_A".to_owned()));
    let address = entry(&json!({"url": "${DOCS_KEY}"})).unwrap_err().to_string();
    assert!(address.contains("${DOCS_KEY}") && !address.contains("sesame"), "{address}");
}

#[tokio::test]
async fn expanded_variable_values_appear_in_no_error() {
    let dies = Script::new(&[echo()], "echo \"bad key $KEY\" >&2; exit 3");
    let config = dies.config();
    let deepagents_mcp::TransportConfig::Stdio(stdio) = &config.transport else { panic!("a program") };
    let shell = format!("KEY=$0 exec /bin/sh {}", stdio.args[0]);
    let config = entry(&json!({"command": "/bin/sh", "args": ["-c", shell, "${DOCS_KEY}"]})).unwrap();
    let servers = alone(config);
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let said = &results(&outcome)[0].0;
    assert!(said.contains("bad key ***") && !said.contains("sesame"), "{said}");

    let refusing = "KEY=$0; echo \"what is $KEY\" >&2; exit 4";
    let config = entry(&json!({"command": "/bin/sh", "args": ["-c", refusing, "${DOCS_KEY}"]})).unwrap();
    // No server listens on this port.
    let address = ServerConfig::http("http://someone-else:pass-word-1@127.0.0.1:1/mcp?key=sesame%2D0815&x=1");
    let short = ServerConfig::http("http://me:pw@127.0.0.1:1/mcp?key=s3c&x=1");
    let servers = McpServers::new([("alpha", config), ("beta", address), ("gamma", short)], options());
    servers.ready().await;
    for status in servers.status() {
        let problem = status.problem().unwrap();
        let secrets = ["sesame", "pass-word-1", "someone-else", "s3c", "me:pw", "x=1"];
        let shows = secrets.iter().any(|secret| problem.contains(secret));
        assert!(!shows && problem.matches("http://").count() <= 1, "{problem}");
    }
    servers.close().await;
}

#[test]
fn a_server_description_shows_no_expanded_variable_values() {
    let program =
        entry(&json!({"command": "/bin/${DOCS_KEY}", "args": ["--key=${DOCS_KEY}"], "env": {"K": "${DOCS_KEY}"}}));
    let address = entry(&json!({"url": "https://someone-else:pass-word-1@a.example/${DOCS_KEY}/?key=sesame%2D0815"}));
    let short = format!("{:?}", ServerConfig::http("https://me:pw@a.example/mcp?key=s3c"));
    assert!(short.contains("a.example/mcp***") && !short.contains("pw"), "{short}");
    for config in [program.unwrap(), address.unwrap()] {
        let (whole, part) = (format!("{config:?}"), format!("{:?}", config.transport));
        assert!(whole.contains("***") && !whole.contains("sesame") && !whole.contains("pass-word"), "{whole}");
        assert!(!part.contains("pass-word") && !part.contains("%2D0815"), "{part}");
    }
}

#[tokio::test]
async fn filters_that_match_no_tool_are_reported_and_a_failure_once_on_one_line() {
    let script = Script::new(&[echo()], text("fine"));
    let filter = ToolFilter::new(Some(&["read_*"]), &[]).unwrap();
    let broken = ServerConfig::stdio("/no/such/program", ["x"]);
    let servers = McpServers::new([("alpha", script.config().tools(filter)), ("odd\nname", broken)], options());
    let (agent, _) = agent(&servers, [Turn::text("Done.")]);
    let (_, told) = run(&agent, "Go.").await;
    servers.close().await;
    let problems: Vec<&String> = told
        .iter()
        .filter_map(|event| match event {
            MiddlewareEvent::McpServer { problem, .. } => problem.as_ref(),
            _ => None,
        })
        .collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("alpha: `allowedTools` matches none")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("odd name could not be started")), "{problems:?}");
}
