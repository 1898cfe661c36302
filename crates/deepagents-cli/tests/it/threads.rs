//! Threads that outlive the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, run};
use crate::server::{Reply, Server};

/// A root directory and a place for threads.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.arg("--db").arg(self.dir.path().join("t.db"));
        command
    }

    fn threads(&self, args: &[&str]) -> Finished {
        finish(deepagents().args(["threads", "--db"]).arg(self.dir.path().join("t.db")).args(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let finished = self.threads(args);
        serde_json::from_str(&finished.out).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
    }

    /// The IDs of all threads, the latest first.
    fn ids(&self) -> Vec<String> {
        let list = self.json(&["list", "--json"]);
        list.as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn text(words: &'static str) -> Reply {
    Reply::Text(vec![words])
}

#[test]
fn continue_resumes_the_directorys_latest_thread() {
    let (place, other) = (Place::new(), Place::new());
    let server = Server::start([text("Hello Ada."), text("elsewhere"), text("You are Ada.")]);
    let first = finish(place.run(&server).arg("I am Ada"));
    assert!(first.out.trim_end().contains(&format!("· thread {}", place.ids()[0])), "{first:?}");
    let mut elsewhere = run(&other.root(), &server.address);
    finish(elsewhere.arg("--db").arg(place.dir.path().join("t.db")).arg("I am elsewhere"));
    let second = finish(place.run(&server).args(["-q", "--continue", "Who am I?"]));
    assert_eq!(second.out, "You are Ada.\n", "{second:?}");
    let request = server.requests()[2].body.to_string();
    assert!(request.contains("I am Ada") && request.contains("Hello Ada.") && !request.contains("elsewhere"));
    // Without a database, and with one that has only threads of other directories.
    let (empty, db) = (Place::new(), place.dir.path().join("t.db"));
    for command in [&mut empty.run(&server), run(&empty.root(), &server.address).arg("--db").arg(db)] {
        let nothing = finish(command.args(["--continue", "x"]));
        assert!(nothing.wrong_usage().contains("this directory has no thread to continue"), "{nothing:?}");
    }
}

#[test]
fn a_resumed_run_shows_the_whole_todo_list_after_one_change() {
    let place = Place::new();
    let todos = |first: &str| {
        let items = [("look", first), ("act", "completed"), ("rest", "completed")];
        let items = items.map(|(content, status)| json!({"content": content, "status": status}));
        Reply::Call("write_todos", json!({ "todos": items }))
    };
    // The second text answers the reminder about open todos.
    let server =
        Server::start([todos("in_progress"), text("Soon."), text("Later."), todos("completed"), text("Done.")]);
    finish(place.run(&server).arg("Plan"));
    let second = finish(place.run(&server).args(["--continue", "Go on"]));
    assert!(second.out.starts_with("Todos 3/3\n  ☑ look\n\nDone."), "{second:?}");
}

#[test]
fn resume_accepts_an_id_prefix_and_rejects_unknown_ids() {
    let place = Place::new();
    let server = Server::start([text("one"), text("two")]);
    finish(place.run(&server).arg("First"));
    let id = place.ids()[0].clone();
    let beginning: String = id.chars().take(4).collect();
    let second = finish(place.run(&server).args(["-q", "--resume", &beginning, "Second"]));
    assert_eq!(second.out, "two\n", "{second:?}");
    assert_eq!(place.ids().len(), 1);
    let unknown = finish(place.run(&server).args(["--resume", "zzz", "x"]));
    assert!(unknown.wrong_usage().contains("there is no thread `zzz`"));
    let unnamed = finish(place.run(&server).args(["--resume", "", "x"]));
    assert!(unnamed.wrong_usage().contains("the id of the thread is empty"), "{unnamed:?}");
    let nowhere = place.threads(&["rewind", &id]);
    assert!(nowhere.wrong_usage().contains("say how far to go back"), "{nowhere:?}");
}

#[test]
fn resuming_a_finished_run_shows_its_answer_without_a_model_call() {
    let place = Place::new();
    let server = Server::start([text("The answer.")]);
    finish(place.run(&server).arg("First"));
    let id = place.ids()[0].clone();
    let quiet = finish(place.run(&server).args(["-q", "--resume", &id]));
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "The answer.\n", ""), "{quiet:?}");
    let shown = finish(place.run(&server).args(["--resume", &id]));
    assert!(shown.code == Some(0) && shown.out.starts_with("The answer.\n\n"), "{shown:?}");
    assert!(shown.err.contains("has ended with this result"), "{shown:?}");
    let lines = finish(place.run(&server).args(["--json", "--resume", &id]));
    let events: Vec<Value> = lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(
        (lines.code, &last["type"], &last["stop"]),
        (Some(0), &json!("run_finished"), &json!("done")),
        "{lines:?}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_resuming_process_shows_an_answer_that_was_already_stored() {
    let place = Place::new();
    let server = Server::start([text("The answer.")]);
    finish(place.run(&server).arg("First"));
    let history = place.threads(&["show", &place.ids()[0], "--history"]).out;
    let last = history.split_whitespace().next().unwrap().to_owned();
    // As after a kill between the model response and the end of its run.
    let fork = place.threads(&["fork", &place.ids()[0], "--at", &last]).out.trim().to_owned();
    let shown = finish(place.run(&server).args(["--resume", &fork]));
    assert!(shown.code == Some(0) && shown.out.starts_with("The answer.\n\n"), "{shown:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_killed_run_can_be_resumed_at_once() {
    let place = Place::new();
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"})),
        Reply::Hang,
        text("All is done."),
    ]);
    let mut child = place.run(&server).arg("Write a.txt").stdout(Stdio::null()).start();
    server.wait();
    server.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    // The server still handles the request of the killed process, and gives up once the connection closes.
    let id = place.ids()[0].clone();
    let listed = place.threads(&["list"]).out;
    assert!(listed.contains("interrupted") && !listed.contains("running"), "{listed}");
    let finished = finish(place.run(&server).args(["-q", "--resume", &id]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "All is done.\n"), "{finished:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[2].body.to_string().contains("Wrote /a.txt"), "the finished call is not made again");
}

#[test]
fn an_earlier_position_shows_nothing_that_came_later() {
    let place = Place::new();
    let task = json!({"description": "Look", "subagent_type": "general-purpose"});
    let server = Server::start([Reply::Call("task", task), text("Looked."), text("Done.")]);
    finish(place.run(&server).arg("Go"));
    let id = place.ids()[0].clone();
    let agents = |args: &[&str]| {
        let args = [&["show", &id, "--json"], args].concat();
        place.json(&args)["sub_agents"].as_array().unwrap().len()
    };
    assert_eq!((agents(&[]), agents(&["--at", "3"])), (1, 0));
    assert_eq!(place.threads(&["rewind", &id, "0", "--files", "no"]).code, Some(0));
    let rest = finish(place.run(&server).arg("--continue"));
    assert!(rest.one_message().contains("say what to do next"), "{rest:?}");
}

#[test]
fn pruning_all_threads_spares_the_active_ones() {
    let (open, gate) = channel();
    let place = Place::new();
    let server = Server::start([text("one"), Reply::Gated("Still", gate, " mine.".to_owned())]);
    finish(place.run(&server).arg("Go"));
    let done = place.ids()[0].clone();
    let busy = place.run(&server).args(["-q", "Go"]).stdout(Stdio::piped()).start();
    server.wait();
    server.wait();
    let id = place.ids().into_iter().find(|id| *id != done).unwrap();
    let pruned = place.threads(&["prune", "--all"]);
    assert_eq!((pruned.code, pruned.out.lines().count()), (Some(0), 2), "{pruned:?}");
    let skipped = format!("{id}  skipped: it is in use by process {} on this machine", busy.id());
    assert!(pruned.out.contains(&skipped), "{pruned:?}");
    assert!(pruned.out.contains(&format!("{done}  ")) && pruned.out.contains(" bytes"), "{pruned:?}");
    let refused = place.threads(&["prune", &id]);
    assert!(refused.one_message().ends_with("wait for it to finish"), "{refused:?}");
    open.send(()).unwrap();
    assert!(busy.wait_with_output().unwrap().status.success());
}

#[test]
fn pruning_all_threads_reports_damaged_ones_and_prunes_the_others() {
    let place = Place::new();
    let server = Server::start([text("one"), text("two")]);
    finish(place.run(&server).arg("First"));
    let damaged = place.ids()[0].clone();
    finish(place.run(&server).arg("Second"));
    let whole = place.ids().into_iter().find(|id| *id != damaged).unwrap();
    let database = rusqlite::Connection::open(place.dir.path().join("t.db")).unwrap();
    for table in ["event", "snapshot"] {
        let broken = format!("UPDATE {table} SET body = '{{' WHERE thread = (SELECT key FROM thread WHERE id = ?1)");
        database.execute(&broken, [&damaged]).unwrap();
    }
    drop(database);
    let pruned = place.threads(&["prune", "--all"]);
    assert_eq!((pruned.code, pruned.out.lines().count()), (Some(0), 2), "{pruned:?}");
    assert!(pruned.out.contains(&format!("{damaged}  skipped: record ")), "{pruned:?}");
    assert!(pruned.out.contains(&format!("{whole}  ")) && pruned.out.contains(" bytes"), "{pruned:?}");
    assert!(place.threads(&["prune", &damaged]).one_message().contains("cannot be read"));
    let twice = place.threads(&["prune", &whole, &whole]);
    assert_eq!((twice.code, twice.out.lines().count()), (Some(0), 1), "{twice:?}");
}

#[test]
fn a_killed_but_unreaped_process_counts_as_gone() {
    let place = Place::new();
    let server = Server::start([Reply::Hang, text("All is done.")]);
    let mut child = place.run(&server).arg("Go").stdout(Stdio::null()).start();
    server.wait();
    child.kill().unwrap();
    let ended = WaitId::Pid(Pid::from_child(&child));
    rustix::process::waitid(ended, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let finished = finish(place.run(&server).args(["-q", "--continue"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "All is done.\n"), "{finished:?}");
    child.wait().unwrap();
}

#[test]
fn a_thread_stays_with_its_live_process_however_often_others_try_to_resume_it() {
    let (open, gate) = channel();
    let place = Place::new();
    let server = Server::start([Reply::Gated("Still", gate, " mine.".to_owned())]);
    let first = place.run(&server).args(["-q", "--approve", "deny", "Go"]).stdout(Stdio::piped()).start();
    server.wait();
    let id = place.ids()[0].clone();
    let noted = place.json(&["list", "--json"])[0]["metadata"].clone();
    for task in [Some("And?"), None, Some("And?"), None] {
        let mut other = run(&place.root(), "http://127.0.0.1:1/v1");
        other.arg("--db").arg(place.dir.path().join("t.db")).args(["-q", "--approve", "auto", "--resume", &id]);
        let refused = finish(other.args(task));
        let owner = format!("is in use by process {} on this machine; wait", first.id());
        assert!(refused.one_message().contains(&owner), "{refused:?}");
    }
    assert_eq!(place.json(&["list", "--json"])[0]["metadata"], noted, "who is refused notes nothing");
    open.send(()).unwrap();
    let first: Finished = first.wait_with_output().unwrap().into();
    assert_eq!((first.code, first.out.as_str()), (Some(0), "Still mine.\n"), "{first:?}");
}

#[test]
fn no_save_stores_nothing() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start([text("one"), text("two")]);
    let dir = tempfile::tempdir().unwrap();
    let unsaved = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["--no-save", "Go"]));
    assert!(unsaved.code == Some(0) && !unsaved.out.contains("thread"), "{unsaved:?}");
    assert!(!home.path().join(".deepagents").exists());
    finish(run(dir.path(), &server.address).env("HOME", home.path()).arg("Go"));
    assert!(home.path().join(".deepagents/threads.db").exists());
    let listed = finish(deepagents().env("HOME", home.path()).args(["threads", "list"]));
    assert_eq!(listed.out.lines().count(), 1, "{listed:?}");
}

#[test]
fn a_nonzero_exit_is_shown_as_a_failure_though_not_an_error_for_the_model() {
    let place = Place::new();
    let commands = ["true", "for i in $(seq 9000); do echo line $i of many; done; exit 3"];
    let calls = commands.map(|command| Reply::Call("execute", json!({"command": command})));
    let server = Server::start(calls.into_iter().chain([text("Done.")]));
    let shown = finish(place.run(&server).args(["--sandbox", "unconfined", "Go"])).out;
    let shown: Vec<_> = shown.lines().filter(|line| line.contains(" execute ")).map(str::to_owned).collect();
    assert_eq!(
        shown,
        ["✓ execute true", "✗ execute for i in $(seq 9000); do echo line $i of many; done; exit 3  exit code 3"]
    );
    let id = place.ids()[0].clone();
    let later = place.threads(&["show", &id]).out;
    assert!(shown.iter().all(|line| later.lines().any(|later| later == line)), "{later}");
    let history = place.threads(&["show", &id, "--history"]).out;
    assert!(history.contains("✓ execute") && history.contains("✗ execute"), "{history}");
    assert!(!server.requests()[2].body.to_string().contains("is_error\":true"));
}

#[test]
fn a_thread_can_be_listed_shown_and_exported() {
    let place = Place::new();
    let server =
        Server::start([Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"})), text("Written.")]);
    finish(place.run(&server).arg("Write a.txt, please"));
    let id = place.ids()[0].clone();
    let list = place.threads(&["list"]).out;
    assert!(list.starts_with(&id) && list.contains("ended") && list.contains("Write a.txt, please"), "{list}");
    let shown = place.threads(&["show", &id]).out;
    let (_, said) = shown.split_once('\n').unwrap();
    assert_eq!(said, "\n> Write a.txt, please\n✓ write_file /a.txt\n\nWritten.\n");
    let json = place.json(&["show", &id, "--json"]);
    assert_eq!(json["state"]["messages"].as_array().unwrap().len(), 4, "{json}");
    let export = place.json(&["export", &id]);
    assert_eq!(export["records"].as_array().unwrap().len() as u64, export["thread"]["end"].as_u64().unwrap());
    assert_eq!(export["thread"]["metadata"]["title"], "Write a.txt, please");
}

#[test]
fn an_interrupted_answer_is_shown_without_the_note_to_the_model() {
    let place = Place::new();
    let server = Server::start([text("Half of it.\n\n[The user interrupted this answer here.]")]);
    finish(place.run(&server).arg("Go"));
    let shown = place.threads(&["show", &place.ids()[0]]).out;
    assert!(shown.ends_with("\n> Go\n\nHalf of it.\n· interrupted\n"), "{shown}");
}

#[test]
fn a_thread_title_is_redacted_and_redaction_continues_on_resume() {
    let place = Place::new();
    let server = Server::start([text("One."), text("Two."), text("Three.")]);
    finish(place.run(&server).args(["--redact", "email", "Write to carol@example.com"]));
    let id = place.ids()[0].clone();
    let export = place.json(&["export", &id]);
    assert_eq!(export["thread"]["metadata"]["title"], "Write to [REDACTED_EMAIL]");
    assert!(!export.to_string().contains("carol@"), "{export}");
    // A later version may store a detector that this one does not know.
    let database = rusqlite::Connection::open(place.dir.path().join("t.db")).unwrap();
    let later = "UPDATE thread SET metadata = replace(metadata, '\"email\"', '\"voice\",\"email\"')";
    assert_eq!(database.execute(later, []), Ok(1));
    drop(database);
    let more = finish(place.run(&server).args(["--continue", "And to dave@example.com from 10.1.2.3"]));
    assert!(more.err.contains("keeps redacting as before: --redact email"), "{more:?}");
    let asked = server.requests()[1].body.to_string();
    assert!(!asked.contains("dave@") && asked.contains("10.1.2.3"), "{asked}");
    // An explicit `--redact` silences the note about the stored one.
    let other = finish(place.run(&server).args(["--continue", "--redact", "ip", "And from 10.1.2.4"]));
    assert!(!other.err.contains("--redact"), "{other:?}");
    assert!(!server.requests()[2].body.to_string().contains("10.1.2.4"));
}

#[test]
fn a_thread_can_be_copied_rewound_pruned_and_deleted() {
    let place = Place::new();
    let server = Server::start([text("one"), text("two"), text("three")]);
    finish(place.run(&server).arg("First"));
    finish(place.run(&server).args(["--continue", "Second"]));
    let id = place.ids()[0].clone();
    let history = place.json(&["show", &id, "--history", "--json"]);
    let positions: Vec<u64> = history.as_array().unwrap().iter().map(|c| c["position"].as_u64().unwrap()).collect();
    let end_of_first = history
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["run"] == history.as_array().unwrap().last().unwrap()["run"])
        .map(|c| c["position"].as_u64().unwrap())
        .max()
        .unwrap();
    assert!(positions[0] > end_of_first, "{history}");
    let told = place.threads(&["show", &id, "--history"]).out;
    let of = |words: &str| told.lines().position(|line| line.ends_with(words)).unwrap_or_else(|| panic!("{told}"));
    assert!(of("  two") < of("  > Second") && of("  > Second") < of("  one") && of("  one") < of("  > First"));

    let copy = place.threads(&["fork", &id, "--at", &end_of_first.to_string()]).out.trim_end().to_owned();
    let shown = place.threads(&["show", &copy]).out;
    assert!(shown.contains("> First") && !shown.contains("> Second"), "{shown}");

    let rewound = place.threads(&["rewind", &id, &end_of_first.to_string()]);
    let told = place.threads(&["show", &id, "--history"]).out;
    assert!(told.contains(&format!("went back to {end_of_first}")), "{told}");
    assert_eq!(rewound.code, Some(0), "{rewound:?}");
    assert!(!place.threads(&["show", &id]).out.contains("> Second"));
    let again = finish(place.run(&server).args(["-q", "--resume", &id, "Third"]));
    assert_eq!(again.out, "three\n", "{again:?}");
    assert!(!server.requests()[2].body.to_string().contains("Second"));

    let before = place.threads(&["show", &id]).out;
    assert_eq!(place.threads(&["prune", "--all", "--older-than", "1h"]).code, Some(0));
    assert_eq!(place.threads(&["prune", &id]).code, Some(0));
    let after = place.threads(&["show", &id]).out;
    assert_eq!(before.split_once('\n').unwrap().1, after.split_once('\n').unwrap().1);
    let gone = place.threads(&["rewind", &id, &end_of_first.to_string()]);
    assert!(gone.wrong_usage().contains("pruned") && gone.err.contains("--history"), "{gone:?}");
    for beyond in [["show", &id, "--at", "9999"], ["fork", &id, "--at", "9999"]] {
        assert!(
            place.threads(&beyond).wrong_usage().contains(&format!("`deepagents threads show {id} --history --db "))
        );
    }
    assert_eq!(place.threads(&["show", &id, "--history"]).out, format!("thread {id} has no position to go back to\n"));
    for files in ["no", "yes"] {
        let beyond = place.threads(&["rewind", &id, "9999", "--files", files]);
        assert!(beyond.wrong_usage().contains("has no state at position 9999"), "{beyond:?}");
    }

    let deleted = place.threads(&["delete", &id, &copy]);
    assert_eq!(deleted.out.lines().count(), 2, "{deleted:?}");
    assert!(place.ids().is_empty());
    assert!(place.threads(&["show", &id]).wrong_usage().contains("there is no thread"));
}

#[test]
fn an_unusable_database_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start([]);
    let file = dir.path().join("notes.txt");
    fs::write(&file, "these are my notes, not a database, and they are long enough to be looked at").unwrap();
    let foreign = finish(run(dir.path(), &server.address).arg("--db").arg(&file).arg("Go"));
    assert!(foreign.one_message().contains("not a database"), "{foreign:?}");
    let missing = finish(deepagents().args(["threads", "--db", "/no/such/t.db", "list"]));
    assert!(missing.wrong_usage().contains("there is no database"));
    let nowhere = finish(run(dir.path(), &server.address).args(["--db", "/no/such/t.db", "Go"]));
    assert!(nowhere.wrong_usage().contains("the directory `/no/such`"), "{nowhere:?}");
    let homeless = finish(run(dir.path(), &server.address).env_remove("HOME").arg("Go"));
    assert!(homeless.one_message().contains("--db"), "{homeless:?}");
    assert!(Path::new(&file).exists());
}

#[test]
fn nothing_is_deleted_if_one_of_the_threads_is_unknown() {
    let place = Place::new();
    let server = Server::start([text("one")]);
    finish(place.run(&server).arg("one"));
    let id = place.ids().remove(0);
    let refused = place.threads(&["delete", &id, "nobody"]);
    assert!(refused.wrong_usage().contains("no thread `nobody`"), "{refused:?}");
    assert_eq!(place.ids(), std::slice::from_ref(&id));
    let done = place.threads(&["delete", &id, &id]);
    assert_eq!((done.code, done.out), (Some(0), format!("deleted {id}\n")));
}

#[test]
fn a_truncated_list_says_so_and_the_database_option_may_come_last() {
    let place = Place::new();
    let server = Server::start([text("one"), text("two")]);
    finish(place.run(&server).arg("first"));
    finish(place.run(&server).arg("second"));
    let cut = finish(deepagents().args(["threads", "list", "--limit", "1", "--db"]).arg(place.dir.path().join("t.db")));
    let lines: Vec<&str> = cut.out.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("second") && lines[1].contains("--limit"), "{cut:?}");
    assert_eq!(place.threads(&["list", "--limit", "2"]).out.lines().count(), 2);
    assert_eq!(place.threads(&["list", "--limit", "0"]).code, Some(2));
    let position = place.threads(&["rewind", "x", "last"]);
    assert!(position.code == Some(2) && position.err.contains("show --history"), "{position:?}");
}

#[test]
fn an_unknown_thread_status_is_reported() {
    let place = Place::new();
    let server = Server::start([text("one")]);
    finish(place.run(&server).arg("one"));
    let database = rusqlite::Connection::open(place.dir.path().join("t.db")).unwrap();
    assert_eq!(database.execute("UPDATE thread SET status = 'moved'", []), Ok(1));
    drop(database);
    let listed = place.threads(&["list"]);
    assert_eq!(listed.code, Some(0));
    assert!(listed.out.contains("damaged") && listed.out.contains("`moved`"), "{listed:?}");
    let again = finish(place.run(&server).args(["--continue", "Go on"]));
    assert!(again.one_message().contains("has the status `moved`"), "{again:?}");
}

/// A model that starts a task, which ends only once `may` is set, and reports the result.
fn delegating(may: &Arc<AtomicBool>) -> Server {
    let may = may.clone();
    Server::by_rule(move |body| {
        let messages = body["messages"].to_string();
        let calls = messages.matches("\"tool_calls\"").count();
        if messages.contains("COUNT the birds") && !messages.contains("start_async_task") {
            return match calls {
                0 => Reply::Call("write_file", json!({"file_path": "/birds.md", "content": "three"})),
                _ if may.load(Ordering::SeqCst) => Reply::Text(vec!["Three birds."]),
                _ => Reply::Hang,
            };
        }
        if messages.contains("Three birds.") {
            return Reply::Text(vec!["All told."]);
        }
        match calls {
            0 => {
                let args = json!({"description": "COUNT the birds", "subagent_type": "general-purpose"});
                Reply::Call("start_async_task", args)
            }
            _ => Reply::Text(vec!["Started."]),
        }
    })
}

#[test]
fn unfinished_background_tasks_are_reported_and_continue_with_resume() {
    let (place, may) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let server = delegating(&may);
    let first = finish(place.run(&server).args(["--background", "Go"]));
    assert!(first.code == Some(0) && first.out.contains("Started."), "{first:?}");
    let thread = place.ids()[0].clone();
    assert!(first.err.contains("1 background task not finished (task_"), "{first:?}");
    assert!(first.err.contains(&format!("go on with `deepagents run --resume {thread} --root ")), "{first:?}");
    // The task is listed below its thread.
    let lines = place.threads(&["list"]).out;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.lines().nth(1).unwrap().starts_with("  task_") && lines.contains("general-purpose"), "{lines}");
    let listed = place.json(&["list", "--json"]);
    let task = listed[0]["children"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed[0]["children"][0]["parent"], json!(thread));
    assert_eq!(place.json(&["list", "--json", "--parent", &thread])[0]["id"], json!(task));
    assert_eq!(place.json(&["list", "--json", "--all"]).as_array().unwrap().len(), 2);
    let beginning: String = thread.chars().take(4).collect();
    let shown = place.threads(&["show", &task.replacen(&thread, &beginning, 1)]);
    assert!(shown.out.contains("COUNT the birds") && shown.out.contains("write_file"), "{shown:?}");
    may.store(true, Ordering::SeqCst);
    let second = finish(place.run(&server).args(["--resume", &thread]));
    assert!(second.code == Some(0) && second.out.contains("All told."), "{second:?}");
    assert!(!second.err.contains("background task"), "{second:?}");
    let exported = place.json(&["export", &thread]);
    let records = exported["children"][0]["records"].as_array().unwrap();
    assert_eq!(records[0]["record"]["record"], json!("agent_started"), "{}", records[0]);
    let pruned = place.threads(&["prune", &thread]);
    assert!(pruned.out.contains(&format!("{task}  ")), "{pruned:?}");
    let copy = place.threads(&["fork", &thread]).out.trim().to_owned();
    assert_eq!(place.json(&["list", "--json", "--parent", &copy]).as_array().unwrap().len(), 1);
    place.threads(&["delete", &thread]);
    assert_eq!(place.json(&["list", "--json", "--all"]).as_array().unwrap().len(), 2, "the copy and its task");
}

#[test]
fn background_tasks_of_a_killed_process_are_interrupted_and_can_resume_at_once() {
    let (place, may) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let server = delegating(&may);
    let mut command = place.run(&server);
    command.args(["--json", "--background", "--wait-background", "Go"]).stdout(Stdio::piped());
    let mut child = command.start();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_end = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"] == "run_finished";
    assert!(lines.any(|line| is_end(&line.unwrap())));
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = place.threads(&["list"]).out;
    assert!(listed.lines().nth(1).unwrap().contains("interrupted") && !listed.contains("running"), "{listed}");
    may.store(true, Ordering::SeqCst);
    let second = finish(place.run(&server).args(["--resume", &place.ids()[0]]));
    assert!(second.code == Some(0) && second.out.contains("All told."), "{second:?}");
    assert!(!second.err.contains("background task"), "{second:?}");
}

#[test]
fn background_tasks_are_awaited_on_request() {
    let (place, may) = (Place::new(), Arc::new(AtomicBool::new(true)));
    let server = delegating(&may);
    let finished = finish(place.run(&server).args(["--background", "--wait-background", "Go"]));
    assert!(finished.code == Some(0) && finished.out.contains("All told."), "{finished:?}");
    assert!(!finished.err.contains("background task"), "{finished:?}");
    let wanted = place.threads(&["list", "--parent", &place.ids()[0]]).out;
    assert!(wanted.contains("ended"), "{wanted}");
}

#[test]
fn ctrl_c_while_awaiting_background_tasks_lists_the_unfinished_ones() {
    let (place, may) = (Place::new(), Arc::new(AtomicBool::new(false)));
    let server = delegating(&may);
    let mut command = place.run(&server);
    command.args(["--json", "--background", "--wait-background", "Go"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.start();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_end = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"] == "run_finished";
    assert!(lines.any(|line| is_end(&line.unwrap())));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    lines.for_each(drop);
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    for words in [
        "stopping; Ctrl-C again",
        "interrupted before its background tasks were finished",
        "1 background task not finished (task_",
    ] {
        assert!(finished.err.contains(words), "{finished:?}");
    }
}

#[test]
fn an_active_thread_is_deleted_only_with_force() {
    let place = Place::new();
    let server = Server::start([Reply::Hang]);
    let mut child = place.run(&server).args(["-q", "Go"]).stderr(Stdio::null()).start();
    server.wait();
    let id = place.ids()[0].clone();
    let refused = place.threads(&["delete", &id]);
    let owner = format!("thread {id} is in use by process {} on this machine; wait for it to finish", child.id());
    assert!(refused.one_message().contains(&owner) && refused.err.contains("--force"), "{refused:?}");
    for command in [&["rewind", &id, "0"][..], &["prune", &id]] {
        assert!(place.threads(command).one_message().ends_with(&owner), "{command:?}");
    }
    assert!(place.threads(&["prune", "--all"]).out.contains(&format!("in use by process {} on", child.id())));
    let second = finish(place.run(&server).args(["--continue", "Me too"]));
    assert!(second.err.contains(&owner), "{second:?}");
    assert_eq!(place.ids(), [id.as_str()]);
    assert_eq!(place.threads(&["delete", "--force", &id]).code, Some(0));
    assert!(place.ids().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn sub_agent_work_is_shown_by_path_even_in_a_copy_and_pruned_with_history() {
    let place = Place::new();
    let server = Server::start([
        Reply::Call("task", json!({"description": "Count the birds", "subagent_type": "general-purpose"})),
        Reply::Call("write_file", json!({"file_path": "/birds.md", "content": "three"})),
        text("Three birds."),
        text("All told."),
    ]);
    let ran = finish(place.run(&server).arg("Go"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let thread = place.ids()[0].clone();
    let known = place.json(&["show", &thread, "--json"]);
    let path = known["sub_agents"][0]["path"][0].as_str().unwrap().to_owned();
    let listed = place.threads(&["show", &thread]).out;
    let line = format!("sub-agents (show one with --path):\n  {path}  general-purpose  ");
    assert!(listed.contains(&line) && !listed.contains("birds.md"), "{listed}");
    let shown = |thread: &str| {
        let shown = place.threads(&["show", thread, "--path", &path]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let (first, rest) = shown.out.split_once('\n').unwrap();
        assert!(first.starts_with(&format!("thread {thread} · {path} · general-purpose · ")), "{first}");
        rest.to_owned()
    };
    let conversation = shown(&thread);
    for part in ["Count the birds", "/birds.md", "Three birds."] {
        assert!(conversation.contains(part), "no {part} in {conversation}");
    }
    assert!(!conversation.contains("All told."), "{conversation}");
    let missing = place.threads(&["show", &thread, "--path", "task:9.9"]);
    assert!(missing.wrong_usage().contains(&format!("has no sub-agent task:9.9: it has {path}")), "{missing:?}");

    let copy = place.threads(&["fork", &thread]).out.trim().to_owned();
    assert_eq!(shown(&copy), conversation);
    let exported = place.json(&["export", &thread]).to_string();
    assert!(exported.contains("Count the birds") && exported.contains("Three birds."), "{exported}");
    assert_eq!(place.threads(&["prune", &thread]).code, Some(0));
    // Pruning removes it, because it is history. The copy has its own.
    let pruned = place.threads(&["show", &thread, "--path", &path]);
    assert!(pruned.wrong_usage().contains("it has none"), "{pruned:?}");
    assert_eq!(shown(&copy), conversation);
}

#[test]
fn a_call_is_shown_with_its_own_result_when_a_provider_repeats_an_id() {
    let place = Place::new();
    let look = |path: &str| Reply::Call("ls", json!({ "path": path }));
    let read = Reply::Call("read_file", json!({"file_path": "/none.txt"}));
    let server = Server::start([look("/"), read, text("Once."), look("/"), text("Twice.")]);
    finish(place.run(&server).arg("First"));
    finish(place.run(&server).args(["--continue", "Second"]));
    let shown = place.threads(&["show", &place.ids()[0]]).out;
    let calls: Vec<&str> = shown.lines().filter(|line| line.starts_with(['✓', '✗', '…'])).collect();
    assert!(calls[0] == "✓ ls /" && calls[2] == "✓ ls /", "{shown}");
    assert!(calls[1].starts_with("✗ read_file /none.txt  /none.txt does not exist") && calls.len() == 3, "{shown}");
}

#[test]
fn the_list_says_why_a_run_stopped_whose_task_may_be_unfinished() {
    let look = || Reply::Call("ls", json!({"path": "/"}));
    let place = Place::new();
    let server = Server::start([look(), text("All done."), text("Done too.")]);
    assert_eq!(finish(place.run(&server).args(["--max-turns", "1", "Look"])).code, Some(1));
    let standing = || (place.threads(&["list"]).out, place.json(&["list", "--json"])[0].clone());
    let (lines, info) = standing();
    assert!(lines.contains("  step_limit   Look"), "{lines}");
    assert_eq!((&info["status"], &info["stop"]), (&json!("ended"), &json!("step_limit")));
    let shown = place.threads(&["show", info["id"].as_str().unwrap()]).out;
    assert!(shown.contains(" · step_limit · "), "{shown}");
    assert_eq!(finish(place.run(&server).args(["--continue", "Go on"])).code, Some(0));
    let (lines, info) = standing();
    assert!(lines.contains("  ended        Look"), "{lines}");
    assert_eq!((&info["status"], &info["stop"]), (&json!("ended"), &json!("done")));
}
