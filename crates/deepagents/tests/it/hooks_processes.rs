//! Processes of hooks: broken, slow, with children, with endless output.

use deepagents::middleware::hooks::HookEvent;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::hooks::{Place, at, results, writing};

/// Whether a process has ended.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_broken_hook_is_reported_and_blocks_only_if_it_fails_closed() {
    for (command, problem) in [
        ("echo oops >&2; exit 1", "exit code 1: oops"),
        ("echo '{\"decision\": 7}'", "cannot be read"),
        ("echo '{\"decision\": \"perhaps\"}'", "has no meaning"),
        ("echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\"}}'", "asked about PreToolUse"),
        ("./no-such-program", "exit code 127"),
        ("kill -9 $$", "exit code 137"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", "more than a hook is allowed"),
    ] {
        let place = Place::new();
        let (outcome, told) = writing(&place, &at("PreToolUse", &[command])).await;
        assert_eq!(results(&outcome), ["Wrote /a.txt"], "{command}");
        assert!(told[0]["error"].as_str().unwrap().contains(problem), "{command}: {told:?}");
        let closed = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": command, "failClosed": true}]}]});
        let place = Place::new();
        let (outcome, _) = writing(&place, &closed).await;
        assert!(results(&outcome)[0].contains("is broken and has to agree"), "{command}");
        assert!(!place.path("a.txt").exists());
    }
}

#[tokio::test]
async fn a_hook_that_times_out_is_killed_with_its_child_processes() {
    // A busy machine may need longer than the shortest timeout to start the child process.
    for timeout in [0.3, 3.0, 30.0] {
        let place = Place::new();
        let command = "sleep 1000 & echo $! > child; sleep 1000";
        let hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": command, "timeout": timeout}]}]});
        let (_, told) = writing(&place, &hooks).await;
        assert!(told[0]["error"].as_str().unwrap().contains("timed out"));
        let Ok(child) = place.read("child").trim().parse() else { continue };
        while !is_gone(child) {
            tokio::task::yield_now().await;
        }
        return;
    }
    panic!("the child process did not start");
}

#[tokio::test]
async fn a_hook_ends_with_its_own_process_and_its_leftover_children_are_killed() {
    for held in ["", ">/dev/null", "2>/dev/null", ">/dev/null 2>&1"] {
        let place = Place::new();
        let command = format!("sleep 1000 {held} & echo $! > child; echo 'first\nsecond' >&2; exit 2");
        let hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": command, "timeout": 600}]}]});
        let (outcome, told) = writing(&place, &hooks).await;
        assert_eq!(results(&outcome), ["A hook does not allow this call: first\nsecond"], "{held}: {told:?}");
        let child: u32 = place.read("child").trim().parse().unwrap();
        while !is_gone(child) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_fail_closed_hook_agrees_with_an_object_or_empty_output() {
    for (answer, closed, written, told) in [
        ("checking", false, true, 0),
        ("[1]", false, true, 1),
        ("checking", true, false, 1),
        ("not json {", true, false, 1),
        ("[1]", true, false, 1),
        ("", true, true, 0),
        ("{}", true, true, 0),
    ] {
        let place = Place::new();
        let hook = json!({"type": "command", "command": format!("echo '{answer}'"), "failClosed": closed});
        let (_, said) = writing(&place, &json!({"PreToolUse": [{"hooks": [hook]}]})).await;
        assert_eq!((place.path("a.txt").exists(), said.len()), (written, told), "{answer} {closed}: {said:?}");
        assert!(said.iter().all(|said| said["error"].as_str().unwrap().contains("cannot be read")), "{said:?}");
    }
}

#[tokio::test]
async fn hooks_of_one_event_run_concurrently() {
    let place = Place::new();
    let meets = |own: &str, other: &str| format!("touch {own}; while ! test -e {other}; do sleep 0.01; done");
    let hooks = at("PreToolUse", &[&meets("one", "two"), &meets("two", "one")]);
    let (outcome, told) = writing(&place, &hooks).await;
    assert_eq!((results(&outcome), told.len()), (vec!["Wrote /a.txt".to_owned()], 0));
}

#[tokio::test]
async fn a_hook_with_endless_output_is_ended_at_once() {
    let place = Place::new();
    let runner = place.runner(&at("PreToolUse", &["yes", "yes >&2", "yes & exec sleep 500"]));
    let runs = runner.run(HookEvent::PreToolUse, json!({"tool_name": "Bash"}), CancellationToken::new()).await;
    for run in runs {
        assert_eq!(run.answer.unwrap_err(), "it printed more than a hook is allowed to", "{}", run.command);
    }
}
