//! Where what is too long for a conversation is kept.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{Finished, deepagents, finish, run};
use crate::server::{Reply, Server};

/// A root directory, and a database beside it.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.root()).unwrap();
        place
    }

    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.0.path().join("root")
    }

    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.0.path().join("t.db")
    }

    /// The directory beside the database.
    pub(crate) fn files(&self) -> std::path::PathBuf {
        self.0.path().join("t.db.files")
    }

    pub(crate) fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.args(["-q", "--execute", "--sandbox", "unconfined", "--db"]).arg(self.database());
        command
    }

    pub(crate) fn threads(&self, args: &[&str]) -> Finished {
        finish(deepagents().args(["threads", "--db"]).arg(self.database()).args(args))
    }

    /// The IDs of all threads, the latest first.
    pub(crate) fn ids(&self) -> Vec<String> {
        let list: Value = serde_json::from_str(&self.threads(&["list", "--json"]).out).unwrap();
        list.as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
    }

    /// What a thread keeps of the call.
    pub(crate) fn kept(&self, thread: &str) -> Option<usize> {
        let place = self.files().join(thread).join("large_tool_results");
        let files: Vec<_> = fs::read_dir(place).ok()?.map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        Some(fs::read(&files[0]).unwrap().len())
    }
}

pub(crate) fn long_output() -> Reply {
    Reply::Call("execute", json!({"command": "seq 1 40000"}))
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The last result in a request.
pub(crate) fn result(server: &Server, request: usize) -> String {
    let messages = server.requests()[request].body["messages"].clone();
    messages.as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn long_results_are_kept_beside_the_database_for_their_thread_alone_and_go_with_it() {
    let place = Place::new();
    fs::write(place.root().join("own.txt"), "39999\n").unwrap();
    let find = || Reply::Call("grep", json!({"pattern": "39999"}));
    let server = Server::start([
        long_output(),
        find(),
        Reply::Text(vec!["Done."]),
        find(),
        Reply::Call("ls", json!({"path": "/"})),
        Reply::Text(vec!["Done."]),
    ]);
    let first = finish(place.run(&server).arg("Count"));
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(result(&server, 1).contains("It is in /large_tool_results/"), "{}", result(&server, 1));
    assert!(result(&server, 2).contains("/large_tool_results/") && result(&server, 2).contains("/own.txt"));
    assert_eq!(names(&place.root()), ["own.txt"], "the project has only its own files");
    let id = place.ids().remove(0);
    assert_eq!(place.kept(&id), Some(228_907));

    let second = finish(place.run(&server).arg("Look"));
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(!result(&server, 4).contains("large_tool_results") && result(&server, 4).contains("/own.txt"));
    assert!(!result(&server, 5).contains("large_tool_results"), "{}", result(&server, 5));

    let copy = place.threads(&["fork", &id]).out.trim().to_owned();
    assert_eq!(place.kept(&copy), Some(228_907), "a copied thread can still read its results");
    assert_eq!(place.threads(&["delete", &id]).code, Some(0));
    assert_eq!((place.kept(&id), place.kept(&copy)), (None, Some(228_907)));
    assert_eq!(place.threads(&["delete", &copy]).code, Some(0));
    assert!(names(&place.files()).is_empty());
}

#[test]
fn pruning_removes_what_is_left_of_threads_that_no_longer_exist() {
    let place = Place::new();
    let server = Server::start([long_output(), Reply::Text(vec!["Done."])]);
    assert_eq!(finish(place.run(&server).arg("Count")).code, Some(0));
    let files = place.files();
    for name in ["0123abcd", "somebody's notes"] {
        fs::create_dir_all(files.join(name).join("large_tool_results")).unwrap();
    }
    assert_eq!(place.threads(&["prune", "--all"]).code, Some(0));
    assert_eq!(names(&files), [&place.ids()[0], "somebody's notes"]);
}

#[test]
fn a_run_that_is_not_saved_leaves_no_long_result() {
    let place = Place::new();
    let scratch = tempfile::tempdir().unwrap();
    let server =
        Server::start([long_output(), Reply::Call("grep", json!({"pattern": "39999"})), Reply::Text(vec!["Done."])]);
    let mut command = run(&place.root(), &server.address);
    command.args(["-q", "--no-save", "--execute", "--sandbox", "unconfined", "Count"]);
    let done = finish(command.env("TMPDIR", scratch.path()));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(result(&server, 2).contains("/large_tool_results/"), "{}", result(&server, 2));
    assert_eq!((names(&place.root()), names(scratch.path())), (Vec::new(), Vec::new()));
}

#[test]
fn of_what_a_served_agent_keeps_each_thread_sees_its_own_and_nothing_outlives_it() {
    let served = crate::serving::Place::obeying();
    served.write("tokens", "ada the-token-of-ada-is-long\neve the-token-of-eve-is-long\n");
    // What an earlier version left in the root, for everybody.
    served.write("root/conversation_history/old.md", "ADAPRIVATE of long ago");
    let settings = "root = \"root\"\napprove = \"auto\"\n[auth]\ntokens = \"tokens\"\n[store]\nsqlite = \"kept.db\"\n";
    served.describe(settings);
    let serving = served.serve_project();
    let thread = |token: &str| {
        let (status, made) = serving.ask("POST", "/threads", token, &json!({}));
        assert_eq!(status, 200, "{made}");
        made["thread_id"].as_str().unwrap().to_owned()
    };
    let say = |token: &str, thread: &str, text: &str| {
        let input = json!({"messages": [{"role": "user", "content": text}]});
        let path = format!("/threads/{thread}/runs/wait");
        let (status, values) = serving.ask("POST", &path, token, &json!({"assistant_id": "one", "input": input}));
        assert_eq!(status, 200, "{values}");
        values["messages"].as_array().unwrap().iter().rev().nth(1).unwrap()["content"].to_string()
    };
    let (ada, eve) = ("the-token-of-ada-is-long", "the-token-of-eve-is-long");
    let (hers, other) = (thread(ada), thread(eve));
    say(ada, &hers, &"ADAPRIVATE ".repeat(30_000));
    let kept = served.path().join("kept.db.files");
    assert_eq!(names(&kept), [hers.as_str()]);
    assert_eq!(names(&served.path().join("root")), ["conversation_history"], "nothing is added to the root");
    let search = "call grep {\"pattern\": \"ADAPRIVATE\"}";
    assert!(say(ada, &hers, search).contains("/conversation_history/messages/"));
    let found = say(eve, &other, search);
    assert!(!found.contains("/conversation_history/"), "{found}");
    let found = say(eve, &other, "call glob {\"pattern\": \"/conversation_history/**\"}");
    assert!(!found.contains("messages/") && !found.contains("old.md"), "{found}");
    assert_eq!(serving.ask("DELETE", &format!("/threads/{hers}"), ada, &json!({})).0, 204);
    assert!(names(&kept).is_empty());
}
