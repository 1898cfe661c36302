//! Work that is judged before a run counts as done, and a run that repeats itself.

use serde_json::json;

use crate::program::{finish, run};
use crate::server::{Reply, Server};

const MISSING: &str = r#"{"result": "needs_revision", "explanation": "It does not rhyme.",
    "criteria": [{"name": "rhymes", "passed": false, "gap": "no rhyme"}]}"#;
const MET: &str =
    r#"{"result": "satisfied", "explanation": "Good.", "criteria": [{"name": "rhymes", "passed": true}]}"#;

#[test]
fn a_run_goes_on_until_its_goal_is_met() {
    let server = Server::start(["Roses.", MISSING, "Roses, noses.", MET].map(|text| Reply::Text(vec![text])));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "--goal", "It rhymes.", "Write"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "Roses, noses.\n"), "{finished:?}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn what_is_hidden_is_hidden_in_the_goal_too() {
    let verdict =
        r#"{"result": "satisfied", "explanation": "To ann@example.org.", "criteria": [{"name": "c", "passed": true}]}"#;
    let server = Server::start([Reply::Text(vec!["Written."]), Reply::Text(vec![verdict])]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    let finished =
        finish(command.args(["--json", "--redact", "email", "--goal", "It is to ann@example.org.", "Write"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.out.contains("ann@") && finished.out.contains("To [REDACTED_EMAIL]."), "{finished:?}");
    assert!(server.requests().iter().all(|request| !request.body.to_string().contains("ann@")));
}

#[test]
fn a_run_whose_goal_is_not_met_fails_and_says_what_is_missing() {
    let replies = ["One.", MISSING, "Two.", MISSING, "Three.", MISSING];
    let server = Server::start(replies.map(|text| Reply::Text(vec![text])));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "--goal", "It rhymes.", "Write"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), "Three.\n"), "{finished:?}");
    assert!(finished.err.contains("the goal is not met after 3 judgements; missing: rhymes"), "{finished:?}");
}

#[test]
fn a_run_that_repeats_itself_is_stopped_and_has_no_answer() {
    let server = Server::start((0..10).map(|_| Reply::Call("ls", json!({"path": "/"}))));
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "List"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), ""), "{finished:?}");
    assert!(finished.err.contains("the agent repeated itself without progress"), "{finished:?}");
    assert_eq!(server.requests().len(), 10);
}
