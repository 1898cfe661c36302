//! Whose files are those of a conversation, and what removes them.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use deepagents::core::journal::Journal;
use deepagents_persist::Sqlite;
use serde_json::{Map, json};

use crate::artifacts::{Place, long_output, names, result};
use crate::program::{Start, deepagents, finish, run, until};
use crate::server::{Reply, Server};
use crate::terminal::Terminal;

fn done() -> Reply {
    Reply::Text(vec!["Done."])
}

/// Creates threads as a program of the library's users may.
fn create(database: &Path, threads: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Sqlite::open(database).await.unwrap();
        for thread in threads {
            journal.threads().set_metadata(thread, Map::new()).await.unwrap();
        }
    });
}

#[test]
fn threads_with_slashes_in_their_names_or_long_ones_have_files_of_their_own() {
    let place = Place::new();
    let long = "x".repeat(300);
    let threads = ["ada/one", "ada/two", &long];
    create(&place.database(), &threads);
    for thread in threads {
        let find = Reply::Call("grep", json!({"pattern": "39999"}));
        let server = Server::start([find, long_output(), done()]);
        let kept = finish(place.run(&server).args(["--resume", thread, "Count"]));
        assert_eq!(kept.code, Some(0), "{kept:?}");
        assert!(!result(&server, 1).contains("large_tool_results"), "{}", result(&server, 1));
    }
    assert_eq!(names(&place.root()), Vec::<String>::new());
    let kept = names(&place.files());
    assert_eq!((kept.len(), &kept[..2]), (3, &["ada%2fone".to_owned(), "ada%2ftwo".to_owned()][..]), "{kept:?}");
    assert_eq!(place.threads(&["prune", "--all"]).code, Some(0));
    assert_eq!(names(&place.files()), kept, "what threads still have is not garbage");
    assert_eq!(place.threads(&["delete", "ada/one", &long]).code, Some(0));
    assert_eq!(names(&place.files()), ["ada%2ftwo"]);
}

#[test]
fn a_background_task_has_the_files_of_its_conversation_which_outlive_it() {
    let place = Place::new();
    let server = Server::by_rule(|body| {
        let messages = body["messages"].to_string();
        match messages.matches("\"tool_calls\"").count() {
            0 if messages.contains("COUNT the birds") => long_output(),
            0 => {
                let args = json!({"description": "COUNT the birds", "subagent_type": "general-purpose"});
                Reply::Call("start_async_task", args)
            }
            _ => done(),
        }
    });
    let ended = finish(place.run(&server).args(["--background", "--wait-background", "Go"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let id = place.ids().remove(0);
    assert_eq!((names(&place.files()), place.kept(&id)), (vec![id.clone()], Some(228_907)));
    let listed = place.threads(&["list", "--json", "--parent", &id]).out;
    let task = serde_json::from_str::<serde_json::Value>(&listed).unwrap()[0]["id"].as_str().unwrap().to_owned();
    assert!(task.starts_with(&format!("{id}/")), "{task}");
    let copy = place.threads(&["fork", &task]).out.trim().to_owned();
    assert_eq!(place.kept(&copy), Some(228_907));
    assert_eq!(place.threads(&["delete", &task]).code, Some(0));
    assert_eq!(place.kept(&id), Some(228_907));
    assert_eq!(place.threads(&["delete", &id, &copy]).code, Some(0));
    assert_eq!(names(&place.files()), Vec::<String>::new());
}

#[test]
fn a_database_reached_by_a_link_has_one_directory_of_files_which_agents_do_not_see() {
    let place = Place::new();
    let inside = place.root().join("data");
    fs::create_dir(&inside).unwrap();
    // The file does not exist yet.
    std::os::unix::fs::symlink(inside.join("real.db"), place.database()).unwrap();
    let look = || Reply::Call("ls", json!({"path": "/data"}));
    let server = Server::start([long_output(), look(), done(), long_output(), look(), done()]);
    assert_eq!(finish(place.run(&server).arg("Count")).code, Some(0));
    let mut directly = run(&place.root(), &server.address);
    directly.args(["-q", "--execute", "--sandbox", "unconfined", "--db"]).arg(inside.join("real.db"));
    assert_eq!(finish(directly.arg("Count")).code, Some(0));
    assert_eq!(names(&inside.join("real.db.files")).len(), 2);
    assert_eq!(names(place.database().parent().unwrap()), ["root", "t.db"]);
    for request in [2, 5] {
        assert!(!result(&server, request).contains("real.db"), "{}", result(&server, request));
    }
}

#[test]
fn leftovers_of_deleted_threads_are_removed_once_an_editor_or_the_screens_have_started() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start([]);
    let files = home.path().join(".deepagents/threads.db.files");
    let left = files.join("0123abcd/large_tool_results");
    let options = ["--base-url", &server.address, "--model", "test-model"];
    fs::create_dir_all(&left).unwrap();
    let mut editor = deepagents();
    editor.env("HOME", home.path()).arg("acp").args(options);
    let mut child = editor.stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    until("the removal", || (names(&files) == [".last-cleanup"]).then_some(()));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));

    fs::create_dir_all(&left).unwrap();
    fs::remove_file(files.join(".last-cleanup")).unwrap();
    let mut screens = deepagents();
    screens.env("HOME", home.path()).env("TERM", "xterm-256color").args(options).arg("--root").arg(root.path());
    let mut terminal = Terminal::start(&mut screens);
    terminal.wait_for("test-model");
    until("the removal", || (names(&files) == [".last-cleanup"]).then_some(()));
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_thread_that_cannot_be_deleted_keeps_neither_the_others_nor_the_report_about_them() {
    let place = Place::new();
    create(&place.database(), &["one", "two", "three"]);
    fs::create_dir(place.files()).unwrap();
    // No directory that could be removed.
    fs::write(place.files().join("two"), "").unwrap();
    let deleted = place.threads(&["delete", "one", "two", "three"]);
    assert_eq!((deleted.code, deleted.out.as_str()), (Some(1), "deleted one\ndeleted three\n"), "{deleted:?}");
    assert!(deleted.err.contains("the large results of thread `two` cannot be removed"), "{deleted:?}");
    assert_eq!(place.ids(), ["two"]);
}

#[test]
fn what_an_unsaved_run_keeps_is_hidden_from_it_and_gone_even_after_a_second_ctrl_c() {
    let place = Place::new();
    let scratch = place.root().join("scratch");
    fs::create_dir(&scratch).unwrap();
    // More than a pipe holds, so that the program blocks and the first signal cannot end it.
    let text = "x".repeat(4 << 20).leak();
    let look = Reply::Call("ls", json!({"path": "/scratch"}));
    let server = Server::start([long_output(), look, Reply::Text(vec![text])]);
    let mut command = run(&place.root(), &server.address);
    command.args(["-q", "--no-save", "--execute", "--sandbox", "unconfined", "Count"]);
    let mut child = command.env("TMPDIR", &scratch).stdout(Stdio::piped()).start();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(names(&scratch).len(), 1);
    assert!(!result(&server, 2).contains("/scratch/"), "{}", result(&server, 2));
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        // Signals in quick succession may be merged.
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    };
    assert_eq!((code, names(&scratch)), (Some(130), Vec::new()));
}
