//! Work that is graded before a run counts as done, and loop detection.

use serde_json::json;

use crate::program::{deepagents, finish, run};
use crate::server::{Reply, Server};

const MISSING: &str = r#"{"result": "needs_revision", "explanation": "It does not rhyme.",
    "criteria": [{"name": "rhymes", "passed": false, "gap": "no rhyme"}]}"#;
const MET: &str =
    r#"{"result": "satisfied", "explanation": "Good.", "criteria": [{"name": "rhymes", "passed": true}]}"#;

#[test]
fn a_run_continues_until_its_goal_is_met() {
    let server = Server::start(["Roses.", MISSING, "Roses, noses.", MET].map(|text| Reply::Text(vec![text])));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "--goal", "It rhymes.", "Write"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "Roses, noses.\n"), "{finished:?}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn redaction_applies_to_the_goal_too() {
    let judged =
        r#"{"result": "satisfied", "explanation": "To ann@example.org.", "criteria": [{"name": "c", "passed": true}]}"#;
    let server = Server::start([Reply::Text(vec!["Written."]), Reply::Text(vec![judged])]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    let finished =
        finish(command.args(["--json", "--redact", "email", "--goal", "It is to ann@example.org.", "Write"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.out.contains("ann@") && finished.out.contains("To [REDACTED_EMAIL]."), "{finished:?}");
    assert!(server.requests().iter().all(|request| !request.body.to_string().contains("ann@")));
}

#[test]
fn an_unmet_goal_fails_the_run_and_says_what_is_missing() {
    let replies = ["One.", MISSING, "Two.", MISSING, "Three.", MISSING];
    let server = Server::start(replies.map(|text| Reply::Text(vec![text])));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "--goal", "It rhymes.", "Write"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), "Three.\n"), "{finished:?}");
    assert!(finished.err.contains("the goal is not met after 3 judgements; missing: rhymes"), "{finished:?}");
}

#[test]
fn judge_costs_are_included_in_the_summary_and_the_timeline() {
    let server = Server::start(["Roses.", MISSING, "Roses, noses.", MET].map(|text| Reply::Text(vec![text])));
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = run(dir.path(), &server.address);
    let finished = finish(command.env("HOME", home.path()).args(["--goal", "It rhymes.", "Write"]));
    let last = finished.out.lines().last().unwrap();
    assert!(last.contains(" · 4 model calls · "), "{finished:?}");
    let (tokens, thread) = (last.split(" tokens in").next().unwrap(), last.rsplit(' ').next().unwrap());
    let mut command = deepagents();
    command.env("HOME", home.path()).args(["threads", "show", "--timeline", thread]);
    let shown = finish(&mut command);
    let beside = shown.out.lines().find(|line| line.contains("outside the conversation")).unwrap_or_default();
    assert!(beside.contains(" in"), "{shown:?}");
    assert!(shown.out.contains(&format!("in all {tokens} in")), "{tokens}: {shown:?}");
    assert_eq!(shown.out.matches("  chat ").count(), 2, "{shown:?}");
}

#[test]
fn a_verdict_without_criteria_is_reported_by_its_explanation() {
    let judged = r#"{"result": "needs_revision", "explanation": "It is dull.", "criteria": []}"#;
    let replies = (0..3).flat_map(|_| ["Roses.", judged, judged]);
    let server = Server::start(replies.map(|text| Reply::Text(vec![text])));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--goal", "It is fun.", "Write"]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("the goal is not met after 3 judgements; It is dull."), "{finished:?}");
    assert!(!(finished.err.clone() + &finished.out).contains("not met yet ()"), "{finished:?}");
}

#[test]
fn an_empty_goal_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), "http://127.0.0.1:9").args(["--goal", "  ", "Write"]));
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.err.contains("say what the result must achieve"), "{finished:?}");
}

#[test]
fn a_run_that_repeats_itself_is_stopped_without_an_answer() {
    let server = Server::start((0..10).map(|_| Reply::Call("ls", json!({"path": "/"}))));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "List"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), ""), "{finished:?}");
    assert!(finished.err.contains("the agent repeated itself without progress"), "{finished:?}");
    assert_eq!(server.requests().len(), 10);
}
