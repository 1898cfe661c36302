//! Damaged descriptions are read, or refused with the name of the file, whatever they contain.

use std::fs;
use std::path::Path;

use clap::Parser;
use proptest::prelude::*;

use super::Project;
use crate::args::{Cli, Command};

const TOML: &str = r#"
[server]
listen = "127.0.0.1:0"
origins = ["https://app.example.com"]

[auth.jwt]
issuer = "https://id.example.com"
audience = ["agents"]

[limits]
usd_per_day = 2.5

[agents.writer]
description = "Writes."
model = "openai:gpt-4.1"
system_prompt = "You write."
approve = "ask"
headers = { x-team = "blue" }
permissions = [{ operations = ["write"], paths = ["/notes/**"], mode = "allow" }]
commands = { sandbox = "workspace", allow_hosts = ["example.com"], env = ["LANG=C"] }
mcp_servers.time = { command = "uvx", args = ["mcp-server-time"], env = { TZ = "${TZ:-UTC}" } }
"#;

const AGENT: &str = r#"{"name": "worker", "description": "Works.", "runtime": {"model": {"model_id": "openai:gpt-4.1"}}, "backend": {"type": "default"}}"#;

const TOOLS: &str = r#"{"tools": [{"name": "search", "mcp_server_url": "https://mcp.example.com/mcp", "mcp_server_name": "web"}],
    "interrupt_config": {"https://mcp.example.com/mcp::search::web": true}}"#;

/// A range of a text, as fractions of its length, and its replacement.
fn damage() -> impl Strategy<Value = (f64, f64, String)> {
    let pieces = [
        "",
        "\"",
        "'",
        "\"\"\"",
        "[",
        "]",
        "{",
        "}",
        "[[",
        "=",
        ".",
        ",",
        "\n",
        "#",
        "\\",
        "\\u0000",
        "\u{202e}",
        "é",
        "\0",
        "1e999",
        "-1",
        "18446744073709551616",
        "nan",
        "inf",
        "null",
        "true",
        "${",
        "${HOME}",
        "../..",
        "~",
        "/",
        "*",
        "**{",
        "agents.writer = 1\n",
        "[agents.writer]\n",
        "layout = \".\"\n",
        "{{{{{{{{{{{{",
        "1979-05-27T07:32:00Z",
    ];
    (0.0..1.0, 0.0..0.2, prop_oneof![prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), ".{0,6}"])
}

fn damaged(text: &str, (from, length, piece): &(f64, f64, String)) -> String {
    let chars: Vec<char> = text.chars().collect();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "shares of a short text"
    )]
    let at = |share: f64| ((chars.len() as f64 * share) as usize).min(chars.len());
    let (from, to) = (at(*from), at(from + length));
    chars[..from].iter().copied().chain(piece.chars()).chain(chars[to..].iter().copied()).collect()
}

/// Reads what is served from a place; an error must name the place.
fn read(place: &Path) {
    let cli = Cli::try_parse_from([Path::new("deepagents"), Path::new("serve"), place]).unwrap();
    let Some(Command::Serve(args)) = cli.command else { panic!("it serves") };
    if let Err(error) = Project::read(&args) {
        let (told, directory) = (format!("{error:#}"), place.display().to_string());
        assert!(told.contains(&directory), "{directory} is not named: {told}");
    }
}

proptest! {
    #[test]
    fn a_damaged_deepagents_toml_loads_or_is_rejected_by_name(damages in prop::collection::vec(damage(), 1..4)) {
        let place = tempfile::tempdir().unwrap();
        let text = damages.iter().fold(TOML.to_owned(), |text, damage| damaged(&text, damage));
        fs::write(place.path().join("deepagents.toml"), text).unwrap();
        read(place.path());
    }

    #[test]
    fn a_damaged_layout_loads_or_is_rejected_by_name(agent in prop::collection::vec(damage(), 0..3), tools in prop::collection::vec(damage(), 0..3)) {
        let place = tempfile::tempdir().unwrap();
        let broken = |text: &str, damages: &[_]| damages.iter().fold(text.to_owned(), |text, damage| damaged(&text, damage));
        fs::write(place.path().join("agent.json"), broken(AGENT, &agent)).unwrap();
        fs::write(place.path().join("tools.json"), broken(TOOLS, &tools)).unwrap();
        fs::write(place.path().join("AGENTS.md"), "You work.").unwrap();
        read(place.path());
    }
}

#[test]
fn the_undamaged_project_files_load() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("deepagents.toml"), TOML).unwrap();
    let described = |place: &Path| {
        let cli = Cli::try_parse_from([Path::new("deepagents"), Path::new("serve"), place]).unwrap();
        let Some(Command::Serve(args)) = cli.command else { panic!("it serves") };
        Project::read(&args).map(|project| project.agents[0].name.clone()).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(described(place.path()), Ok("writer".to_owned()));
    let place = tempfile::tempdir().unwrap();
    for (name, text) in [("agent.json", AGENT), ("tools.json", TOOLS), ("AGENTS.md", "You work.")] {
        fs::write(place.path().join(name), text).unwrap();
    }
    assert_eq!(described(place.path()), Ok("worker".to_owned()));
}
