//! What sub-agents do, as it is shown.

use serde_json::json;

use crate::program::{finish, run};
use crate::server::{Reply, Server};

#[test]
fn words_todos_and_tools_of_a_sub_agent_are_shown_indented() {
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
