//! Tasks and messages that start with a slash.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Start, deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};

struct Place {
    dir: tempfile::TempDir,
}

fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

impl Place {
    /// A command of the user, one of the directory, and a skill of the user.
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        put(
            &place.home().join(".deepagents/commands/git/fix.md"),
            "---\ndescription: >\n  Fixes\nargument-hint: [issue] [when]\n---\nFix issue $1: $ARGUMENTS\n",
        );
        put(&place.root().join(".deepagents/commands/tidy.md"), "Tidy up.\n");
        let skill = "---\nname: pdf\ndescription: |\n  Reads\n  them.\n---\nSteps of pdf.\n";
        put(&place.home().join(".deepagents/skills/pdf/SKILL.md"), skill);
        place
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.env("HOME", self.home()).args(["-q", "--no-save"]);
        command
    }

    /// The request of a run without the system prompt.
    fn told(&self, args: &[&str], stdin: &str) -> String {
        let server = Server::start([Reply::Text(vec!["Done."])]);
        let done = finish_with(self.run(&server).args(args), stdin);
        assert_eq!(done.code, Some(0), "{done:?}");
        said(&server.requests()[0].body)
    }
}

fn said(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    messages.map(|message| message["content"].to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_task_naming_a_file_command_sends_that_commands_message() {
    let place = Place::new();
    assert!(place.told(&["/git:fix 42 soon"], "").contains("Fix issue 42: 42 soon"));
    let piped = place.told(&["--stdin", "/git:fix 42"], "+ a line\n");
    assert!(piped.contains(r"Fix issue 42: 42\n\n+ a line"), "{piped}");
    assert!(place.told(&["-"], "/git:fix 42\n").contains("Fix issue 42: 42"));
    assert!(place.told(&["--trust", "/tidy"], "").contains("Tidy up."));
}

#[test]
fn a_slash_text_that_names_no_command_is_sent_unchanged() {
    let place = Place::new();
    for text in ["/etc/hosts is broken", "/fix 42", "/", "/git:fix/42 is odd"] {
        assert!(place.told(&[text], "").contains(&json!(text).to_string().trim_matches('"').to_owned()), "{text}");
    }
}

#[test]
fn a_project_command_without_consent_is_refused() {
    let (place, server) = (Place::new(), Server::start([]));
    let refused = finish(place.run(&server).arg("/tidy"));
    assert!(refused.one_message().contains("/tidy comes from this directory"), "{refused:?}");
}

#[test]
fn a_task_naming_a_skill_uses_it_and_an_unknown_skill_is_refused() {
    let place = Place::new();
    let told = place.told(&["/skill:pdf Read the report"], "");
    assert!(told.contains("Read the report") && told.contains("Steps of pdf."), "{told}");
    assert!(!told.contains("/skill:"), "{told}");
    let told = place.told(&["/skill:pdf"], "");
    assert!(told.contains("Use the skill pdf.") && told.contains("Steps of pdf."), "{told}");
    let refused = finish(place.run(&Server::start([])).arg("/skill:pdg Read it"));
    assert!(refused.wrong_usage().contains("there is no skill `pdg`; the skills are: pdf"), "{refused:?}");
}

#[test]
fn conversation_messages_can_name_commands_and_skills_too() {
    let (place, server) = (Place::new(), Server::start(["One.", "Two."].map(|word| Reply::Text(vec![word]))));
    let mut command = run(&place.root(), &server.address);
    command.env("HOME", place.home()).args(["--json", "--input-format", "stream-json"]);
    let lines = ["/skill:pdg", "/tidy", "/git:fix 7", "/skill:pdf Read it"];
    let input: String = lines.map(|text| format!("{}\n", json!({"type": "user", "text": text}))).concat();
    let done = finish_with(&mut command, &input);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("no skill `pdg`") && done.err.contains("/tidy comes from this directory"), "{done:?}");
    let told = server.requests().iter().map(|request| said(&request.body)).collect::<Vec<_>>();
    assert!(told[0].contains("Fix issue 7: 7") && !told[0].contains("Steps of pdf."), "{told:?}");
    assert!(told.last().unwrap().contains("Read it") && told.last().unwrap().contains("Steps of pdf."), "{told:?}");
}

#[test]
fn an_editor_can_list_and_use_file_commands_and_skills() {
    let (place, server) = (Place::new(), Server::start([Reply::Text(vec!["Done."])]));
    let mut command = deepagents();
    command.env("HOME", place.home()).args(["acp", "--base-url", &server.address, "--model", "test-model"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let (mut to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut messages = from.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let (mut next, listed) = (0, RefCell::new(Value::Null));
    let mut call = |method: &str, params: Value| {
        next += 1;
        writeln!(to, "{}", json!({"jsonrpc": "2.0", "id": next, "method": method, "params": params})).unwrap();
        for message in messages.by_ref() {
            let update = &message["params"]["update"];
            if update["sessionUpdate"] == "available_commands_update" {
                *listed.borrow_mut() = update["availableCommands"].clone();
            }
            if message["id"] == next && message["method"].is_null() {
                return message["result"].clone();
            }
        }
        panic!("the program has ended")
    };
    call("initialize", json!({"protocolVersion": 1}));
    let session = call("session/new", json!({"cwd": place.root(), "mcpServers": []}))["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "/git:fix '4 2' soon"}]);
    call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    // The list follows the response to `session/new` at some time.
    while listed.borrow().is_null() {
        call("session/list", json!({}));
    }
    let listed = listed.borrow().clone();
    let about = |name: &str| listed.as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(about("git:fix").unwrap()["input"]["hint"], "[issue] [when]", "{listed}");
    assert_eq!(about("pdf").unwrap()["description"], "Reads them.", "{listed}");
    assert!(about("tidy").is_none(), "{listed}");
    assert!(said(&server.requests()[0].body).contains("Fix issue 4 2: '4 2' soon"));
    drop(to);
    child.wait().unwrap();
}
