//! The display of subagents' work.

use serde_json::json;

use crate::program::{finish, run};
use crate::server::{Reply, Server};

#[test]
fn sub_agent_text_todos_and_tools_are_shown_indented() {
    let server = Server::start([
        Reply::Call("task", json!({"description": "Count the files", "subagent_type": "general-purpose"})),
        Reply::Call("write_todos", json!({"todos": [{"content": "look around", "status": "in_progress"}]})),
        Reply::Call("ls", json!({"path": "/"})),
        Reply::Call("write_todos", json!({"todos": [{"content": "look around", "status": "completed"}]})),
        Reply::Text(vec!["There are ", "none.\nNone ", "at all."]),
        Reply::Text(vec!["No files."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Count"));
    let expected = "\
▸ general-purpose: Count the files
  Todos 0/1
    ◐ look around
  ✓ ls /
  Todos 1/1
    ☑ look around
  There are none.
  None at all.

✓ task Count the files

No files.
";
    assert!(finished.out.starts_with(expected), "{finished:?}\n{}", finished.out);
    assert_eq!(finished.code, Some(0));
}

#[test]
fn project_and_user_files_define_sub_agents_and_broken_ones_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let put = |root: &std::path::Path, name: &str, text: &str| {
        let agents = root.join(".deepagents/agents");
        std::fs::create_dir_all(&agents).unwrap();
        std::fs::write(agents.join(name), text).unwrap();
    };
    put(dir.path(), "reviewer.md", "---\ndescription: Reviews here.\n---\nYou review.\n");
    put(dir.path(), "broken.md", "---\ndescription: d\ncolour: red\n---\n");
    put(home.path(), "reviewer.md", "---\ndescription: Reviews everywhere.\n---\n");
    put(home.path(), "bad.md", "---\ndescription: d\ncolour: red\n---\n");
    put(home.path(), "helper.md", "---\ndescription: Helps everywhere.\n---\n");
    let server = Server::start([
        Reply::Call("task", json!({"description": "Look", "subagent_type": "reviewer"})),
        Reply::Text(vec!["Looks good."]),
        Reply::Text(vec!["Done."]),
        Reply::Text(vec!["Alone."]),
    ]);
    let finished = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["--trust", "Go"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("Skipped /.deepagents/agents/broken.md: unknown field `colour`"), "{finished:?}");
    assert!(finished.err.contains("Skipped ~/.deepagents/agents/bad.md: unknown field `colour`"), "{finished:?}");
    let requests = server.requests();
    let task = |at: usize| requests[at].body["tools"].to_string();
    assert!(task(0).contains("- reviewer: Reviews here.") && task(0).contains("- helper: Helps everywhere."));
    assert!(!task(0).contains("Reviews everywhere."));
    assert!(requests[1].body["messages"].to_string().contains("You review."));
    finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["--no-agents", "Go"]));
    assert!(!server.requests()[3].body["tools"].to_string().contains("reviewer"));
}

#[test]
fn a_long_sub_agent_answer_is_shown_shortened() {
    let words = (1..=50).map(|line| format!("line {line}\n")).collect::<String>().leak();
    let server = Server::start([
        Reply::Call("task", json!({"description": "Tell", "subagent_type": "general-purpose"})),
        Reply::Text(vec![words]),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Go"));
    assert!(finished.out.contains("  line 20\n  … 30 more lines\n\n✓ task Tell\n"), "{}", finished.out);
}

#[test]
fn a_permanently_failed_sub_agent_is_not_reported_as_retrying() {
    let server = Server::start([
        Reply::Call("task", json!({"description": "Look", "subagent_type": "general-purpose"})),
        Reply::Status(401, json!({"error": {"message": "not you"}})),
        Reply::Text(vec!["Alone then."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Go"));
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    assert!(finished.out.contains("▸ general-purpose: Look\n  ✗ not authorised: not you (HTTP 401)\n"), "{finished:?}");
    assert!(finished.out.contains("✗ task Look  sub-agent general-purpose failed"), "{finished:?}");
}
