//! Commands of a run that share one shell.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deepagents::fs::permissions::{AccessMode, CommandRule, Permissions};
use deepagents::fs::shell::{Confinement, LocalShell, SessionOptions, WithShell};
use deepagents::fs::{Backend, LocalBackend};
use deepagents::middleware::filesystem::{FilesystemOptions, exit_failure};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Decision, DeepAgent, DeepAgentBuilder, FinishReason, InterruptOn, InterruptPolicy, MemoryJournal, RunInput,
};
use serde_json::json;

use crate::{play, results};

fn workspace(folder: &Path) -> Arc<dyn Backend> {
    let shell = LocalShell::open(folder, Confinement::Unconfined).unwrap();
    Arc::new(WithShell::new(LocalBackend::open(folder).unwrap(), shell))
}

fn sharing<const N: usize>(startup: [&str; N]) -> FilesystemOptions {
    let startup = startup.map(str::to_owned).to_vec();
    FilesystemOptions { shell_session: Some(SessionOptions { startup }), ..FilesystemOptions::default() }
}

fn run(command: &str) -> Turn {
    Turn::call("execute", json!({"command": command}))
}

fn agent(folder: &Path, script: Vec<Turn>) -> DeepAgentBuilder {
    DeepAgent::builder().model(ScriptedModel::new(script)).backend(workspace(folder)).files(sharing([]))
}

/// Waits until a process has ended; otherwise the test times out.
async fn gone(pid: &str) {
    let lives = || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        status.is_ok_and(|status| !status.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
    };
    while lives() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_model_is_told_when_its_shell_starts_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    let script = [
        run("cd below; echo $begun"),
        run("basename \"$PWD\"; (exit 2)"),
        Turn::call("execute", json!({"command": "echo printed; sleep 1000", "timeout": 3})),
        run("basename \"$PWD\" | grep -c below"),
        run("exit 3"),
        Turn::call("execute", json!({"command": "one=1", "restart": true})),
        Turn::call("execute", json!({"command": "echo [$one]", "restart": true})),
        Turn::text("Done."),
    ];
    let (outcome, model) = play(script, |b| b.backend(workspace(folder.path())).files(sharing(["begun=yes"]))).await;
    let told: Vec<_> = results(&outcome).into_iter().map(|(text, error)| format!("{error}: {text}")).collect();
    insta::assert_snapshot!("shell_session", told.join("\n---\n"));
    // Observers see which commands failed, whatever text follows.
    let results = results(&outcome);
    let failures: Vec<_> = results.iter().map(|(text, _)| exit_failure("execute", text)).collect();
    let (two, one, three) = (Some("exit code 2"), Some("exit code 1"), Some("exit code 3"));
    assert_eq!(failures, [None, two, None, one, three, None, None]);
    let names: Vec<_> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(names.iter().any(|name| name == "execute") && !names.iter().any(|name| name == "command_output"));
}

#[tokio::test]
async fn a_sub_agent_and_the_next_run_each_get_their_own_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = vec![
        run("mine=1"),
        Turn::call("task", json!({"subagent_type": "other", "description": "Look."})),
        run("echo [$mine] [$other]"),
        Turn::text("Done."),
        run("echo [$mine]"),
        Turn::text("Done."),
    ];
    let below = ScriptedModel::new([run("other=1; echo [$mine] > seen"), Turn::text("Looked.")]);
    let agent = agent(folder.path(), script)
        .journal(MemoryJournal::new())
        .sub_agent(SubAgentSpec::new("other", "Looks.").model(below))
        .build()
        .unwrap();
    let first = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert!(results(&first)[2].0.starts_with("[1] []\n"), "{:?}", results(&first));
    assert_eq!(std::fs::read_to_string(folder.path().join("seen")).unwrap(), "[]\n");
    let second = agent.invoke(RunInput::new("Again.").thread("t")).await.unwrap();
    let last = results(&second).pop().unwrap().0;
    assert!(last.starts_with("[]\n") && last.contains("a new shell began"), "{last}");
}

#[tokio::test]
async fn a_shell_ends_with_its_run_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let leave = "sleep 1000 & echo $! > pid.new; mv pid.new pid";
    let agent_of = |script| agent(folder.path(), script).build().unwrap();
    let pid = || std::fs::read_to_string(&file).unwrap();
    agent_of(vec![run(leave), Turn::text("Done.")]).invoke("Go.").await.unwrap();
    gone(&pid()).await;

    std::fs::remove_file(&file).unwrap();
    let cancelled = agent_of(vec![run(leave), Turn::text("Late.").delay(Duration::from_secs(10_000))]);
    let going = cancelled.run("Go.");
    let cancel = going.canceller();
    let watch = async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (outcome, ()) = futures_util::future::join(going.outcome(), watch).await;
    drop(outcome);
    gone(&pid()).await;

    let failed = agent_of(vec![run(leave)]);
    failed.invoke("Go.").await.unwrap_err();
    drop(failed);
    gone(&pid()).await;
}

#[tokio::test]
async fn a_shell_survives_waiting_for_a_decision_and_ends_with_the_resumed_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = vec![
        run("mine=1; sleep 1000 & echo $!"),
        run("echo [$mine]; touch went-on"),
        Turn::text("Late.").delay(Duration::from_secs(10_000)),
    ];
    let asked = InterruptPolicy::new().before("execute", InterruptOn::any());
    let agent = agent(folder.path(), script).journal(MemoryJournal::new()).interrupt_on(asked).build().unwrap();
    let asks = agent.run(RunInput::new("Go.").thread("t")).outcome().await.unwrap();
    assert_eq!(asks.stop, FinishReason::Interrupted);
    let id = asks.action_requests()[0].id.clone();
    let asks = agent.run(RunInput::resume("t").decide(id, Decision::Approve)).outcome().await.unwrap();
    assert_eq!(asks.stop, FinishReason::Interrupted);
    let pid = results(&asks)[0].0.lines().next().unwrap().to_owned();

    let id = asks.action_requests()[0].id.clone();
    let going = agent.run(RunInput::resume("t").decide(id, Decision::Approve));
    let cancel = going.canceller();
    let watch = async {
        while !folder.path().join("went-on").exists() {
            tokio::task::yield_now().await;
        }
        while agent.threads().unwrap().state("t").await.unwrap().messages().len() < 5 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (ended, ()) = futures_util::future::join(going.outcome(), watch).await;
    let ended = ended.unwrap();
    assert_eq!(ended.stop, FinishReason::Cancelled);
    assert!(results(&ended)[1].0.starts_with("[1]\n"), "{:?}", results(&ended));
    gone(&pid).await;
}

#[test]
fn a_shared_shell_is_rejected_with_command_rules_or_without_commands() {
    let folder = tempfile::tempdir().unwrap();
    let denied = CommandRule::new(AccessMode::Deny, ["rm *"]);
    let rules = Permissions::default().with_commands([denied], AccessMode::Allow).unwrap();
    let judged = agent(folder.path(), Vec::new()).permissions(rules).build().unwrap_err().to_string();
    let none = DeepAgent::builder().model(ScriptedModel::new([])).files(sharing([])).build().unwrap_err().to_string();
    for why in [judged, none] {
        assert!(why.contains("commands cannot share a shell here"), "{why}");
    }
}
