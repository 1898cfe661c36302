//! Commands, whose changes a rewind leaves in place.

use deepagents::fs::permissions::{AccessMode, CommandRule, Permissions};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::{Decision, InterruptOn, InterruptPolicy};

use super::*;

#[tokio::test]
async fn a_rewind_counts_the_commands_that_were_run_and_not_those_that_were_refused() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one")]).await;
    let run = |command: &str| Turn::call("execute", json!({"command": command}));
    let rules = [CommandRule::new(AccessMode::Deny, ["touch denied"])];
    let rules = Permissions::default().with_commands(rules, AccessMode::Allow).unwrap();
    let shell = LocalShell::open(world.dir.path(), Confinement::Unconfined).unwrap();
    let agent = world
        .builder([run("touch made"), run("touch rejected"), run("touch answered"), run("touch denied")])
        .backend(WithShell::new(world.files.clone(), shell))
        .permissions(rules)
        .interrupt_on(InterruptPolicy::new().before("execute", InterruptOn::any()))
        .build()
        .unwrap();
    let mut outcome = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let respond = Decision::Respond { message: "No need.".to_owned() };
    for decision in [Decision::Approve, Decision::Reject { message: None }, respond, Decision::Approve] {
        let id = outcome.action_requests()[0].id.clone();
        outcome = agent.invoke(RunInput::resume("t").decide(id, decision)).await.unwrap();
        if outcome.action_requests().is_empty() {
            break;
        }
    }
    assert!(world.read("made").is_some());
    assert!(["rejected", "answered", "denied"].iter().all(|file| world.read(file).is_none()));
    let done = world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(done.commands, 1);
}
