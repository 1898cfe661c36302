//! Commands of an agent: in the background, and under rules.

use std::path::Path;
use std::sync::Arc;

use deepagents::fs::permissions::{AccessMode, CommandRule, Permissions};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, LocalBackend};
use deepagents::middleware::filesystem::{BackgroundCommands, FilesystemOptions};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Decision, DeepAgent, EventKind, MemoryJournal, MiddlewareEvent, RunInput};
use futures_util::StreamExt;
use serde_json::json;

use crate::{play, results};

fn workspace(folder: &Path) -> Arc<dyn Backend> {
    let shell = LocalShell::open(folder, Confinement::Unconfined).unwrap();
    Arc::new(WithShell::new(LocalBackend::open(folder).unwrap(), shell))
}

fn options(background_commands: BackgroundCommands) -> FilesystemOptions {
    FilesystemOptions { background_commands, ..FilesystemOptions::default() }
}

fn start(command: &str) -> Turn {
    Turn::call("execute", json!({"command": command, "background": true}))
}

/// Whether a process is alive, zombies excluded.
fn lives(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

const WRITE_PID: &str = "echo $$ > pid.new; mv pid.new pid; exec sleep 1000";
const READ_PID: &str = "while [ ! -e pid ]; do sleep 0.01; done; cat pid";

#[tokio::test]
async fn a_command_keeps_running_while_the_agent_does_other_things() {
    let folder = tempfile::tempdir().unwrap();
    let script = [
        start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3"),
        Turn::call("command_output", json!({"id": "command-1"})),
        Turn::call("write_file", json!({"file_path": "/go", "content": ""})),
        Turn::call("command_output", json!({"id": "command-1", "wait": 60})),
        Turn::call("command_output", json!({"id": "command-1"})),
        Turn::text("Done."),
    ];
    let (outcome, _) =
        play(script, |b| b.backend(workspace(folder.path())).files(options(BackgroundCommands::EndWithRun))).await;
    let answers = results(&outcome);
    assert_eq!(answers[0].0, "[command-1 goes on in the background]");
    assert!(answers[1].0.ends_with("[command-1 goes on]"), "{}", answers[1].0);
    let told = format!("{}{}", answers[1].0, answers[3].0);
    assert!(told.contains("one\n") && answers[3].0.ends_with("two\n[exit code 3]"), "{answers:?}");
    assert!(answers[4].1 && answers[4].0.contains("there are none"), "{}", answers[4].0);
}

#[tokio::test]
async fn a_background_command_is_stopped_by_its_tool_or_at_the_end_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = [
        start("echo first; exec sleep 1000"),
        Turn::call("stop_command", json!({"id": "command-1"})),
        start(WRITE_PID),
        Turn::call("execute", json!({"command": READ_PID})),
        Turn::text("Done."),
    ];
    let (outcome, _) =
        play(script, |b| b.backend(workspace(folder.path())).files(options(BackgroundCommands::EndWithRun))).await;
    let answers = results(&outcome);
    assert!(answers[1].0.ends_with("[command-1 was stopped]") && !answers[1].1, "{}", answers[1].0);
    let pid = answers[3].0.lines().next().unwrap();
    assert!(pid.parse::<u32>().is_ok() && !lives(pid), "{pid} is still there");
}

#[tokio::test]
async fn a_kept_command_stays_available_to_the_thread_and_ends_with_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([
        start(WRITE_PID),
        Turn::call("execute", json!({"command": READ_PID})),
        Turn::text("Started."),
        Turn::call("command_output", json!({"id": "command-1"})),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .journal(MemoryJournal::new())
        .backend(workspace(folder.path()))
        .files(options(BackgroundCommands::EndWithAgent))
        .build()
        .unwrap();
    agent.invoke(RunInput::new("Start it.").thread("t")).await.unwrap();
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert!(lives(pid.trim()));
    let outcome = agent.invoke(RunInput::new("Look.").thread("t")).await.unwrap();
    let answers = results(&outcome);
    assert!(answers.last().unwrap().0.ends_with("[command-1 goes on]"), "{answers:?}");
    drop((agent, outcome));
    let gone = async {
        while lives(pid.trim()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
}

#[tokio::test]
async fn disabled_background_commands_are_not_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    let script = [start("echo x"), Turn::text("Done.")];
    let (outcome, model) = play(script, |b| b.backend(workspace(folder.path()))).await;
    let request = &model.requests()[0];
    assert!(request.tools.iter().all(|tool| !tool.name.ends_with("_command") && tool.name != "command_output"));
    let execute = request.tools.iter().find(|tool| tool.name == "execute").unwrap();
    assert!(!format!("{execute:?}").contains("background"));
    assert!(results(&outcome)[0].1);
}

#[tokio::test]
async fn commands_a_rule_asks_about_wait_and_denied_ones_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let rules = [CommandRule::new(AccessMode::Deny, ["touch denied"]), CommandRule::new(AccessMode::Ask, ["touch"])];
    let rules = Permissions::default().with_commands(rules, AccessMode::Allow).unwrap();
    let model = ScriptedModel::new([
        Turn::call("execute", json!({"command": "echo free && env touch denied"})),
        Turn::call("execute", json!({"command": "sh -c 'touch asked'"})),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .journal(MemoryJournal::new())
        .backend(workspace(folder.path()))
        .permissions(rules)
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let question = outcome.action_requests().into_iter().next().expect("a question");
    assert_eq!(question.tool, "execute");
    assert!(!folder.path().join("asked").exists() && !folder.path().join("denied").exists());
    let outcome = agent.invoke(RunInput::resume("t").decide(question.id, Decision::Approve)).await.unwrap();
    let answers = results(&outcome);
    assert!(answers[0].1 && answers[0].0.contains("the rule `touch denied`"), "{answers:?}");
    assert!(!answers[1].1 && folder.path().join("asked").exists(), "{answers:?}");
    assert!(!folder.path().join("denied").exists());
}

#[tokio::test]
async fn a_background_commands_output_and_end_are_events() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([
        start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3"),
        Turn::call("execute", json!({"command": "touch go"})),
        Turn::call("command_output", json!({"id": "command-1", "wait": 60})),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .backend(workspace(folder.path()))
        .files(options(BackgroundCommands::EndWithRun))
        .build()
        .unwrap();
    let events: Vec<EventKind> = agent.run("Go.").map(|event| event.kind).collect().await;
    let (mut printed, mut ends) = (String::new(), Vec::new());
    for event in events {
        match event {
            EventKind::Middleware(MiddlewareEvent::CommandOutput { command, text }) => {
                assert_eq!(command, "command-1");
                printed += &text;
            }
            EventKind::Middleware(MiddlewareEvent::CommandEnded { command, end }) => ends.push((command, end)),
            _ => {}
        }
    }
    assert_eq!(printed, "one\ntwo\n");
    assert_eq!(ends, [("command-1".to_owned(), "exit code 3".to_owned())]);
}
