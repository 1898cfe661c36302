//! Threads that are rewound together with their files.

use std::fs;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, run};
use crate::server::{Reply, Server};

/// A working directory and a database.
struct Place {
    dir: tempfile::TempDir,
}

fn write(path: &str, content: &str) -> Reply {
    Reply::Call("write_file", json!({"file_path": path, "content": content}))
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("t.db")
    }

    /// Plays model responses in a new or existing thread. Returns its ID and the position at the end.
    fn play(&self, thread: Option<&str>, replies: impl IntoIterator<Item = Reply>) -> (String, u64) {
        let server = Server::start(replies.into_iter().chain([Reply::Text(vec!["Done."])]));
        let mut command = run(&self.root(), &server.address);
        command.arg("--db").arg(self.db()).arg("Go");
        if let Some(thread) = thread {
            command.args(["--resume", thread]);
        }
        let finished = finish(&mut command);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let list: Value = serde_json::from_str(&self.threads(&["list", "--json"]).out).unwrap();
        (list[0]["id"].as_str().unwrap().to_owned(), list[0]["end"].as_u64().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = deepagents();
        command.args(["threads", "--db"]).arg(self.db()).args(args);
        command
    }

    fn threads(&self, args: &[&str]) -> Finished {
        finish(&mut self.command(args))
    }

    fn rewind(&self, id: &str, to: u64, more: &[&str]) -> Finished {
        self.threads(&[&["rewind", id, &to.to_string()], more].concat())
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    fn put(&self, path: &str, content: &str) {
        fs::write(self.root().join(path), content).unwrap();
    }

    /// A thread that wrote `a.txt`, then changed it and wrote `b.txt`, and the position in between.
    fn two_runs(&self) -> (String, u64) {
        let (id, position) = self.play(None, [write("/a.txt", "one")]);
        let read = Reply::Call("read_file", json!({"file_path": "/a.txt"}));
        self.play(Some(&id), [read, write("/a.txt", "two"), write("/b.txt", "two")]);
        assert_eq!(self.read("a.txt").as_deref(), Some("two"));
        (id, position)
    }
}

#[test]
fn rewinding_restores_files_too_and_says_how_to_undo_it() {
    let place = Place::new();
    let (id, position) = place.two_runs();
    let back = place.rewind(&id, position, &["--files", "yes"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt")), (Some("one"), None));
    let lines: Vec<&str> = back.out.lines().collect();
    assert_eq!(
        lines[..3],
        [&*format!("{id} continues from position {position}"), "put back: /a.txt", "removed: /b.txt"]
    );
    let undo = lines[3].strip_prefix(&format!("to undo this: deepagents threads rewind {id} ")).unwrap();
    let undo = undo.split(" --db ").next().unwrap();
    let undone = place.rewind(&id, undo.parse().unwrap(), &["--files", "yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt").as_deref()), (Some("two"), Some("two")));

    let talk_alone = place.rewind(&id, position, &["--files", "no"]);
    assert!(talk_alone.out.contains("files stay as they are"), "{talk_alone:?}");
    assert_eq!(place.read("a.txt").as_deref(), Some("two"));
    assert!(!place.threads(&["show", &id]).out.contains("/b.txt"));
}

#[test]
fn file_names_are_shown_escaped() {
    let place = Place::new();
    let (id, position) = place.play(None, [write("/a.txt", "one")]);
    place.play(Some(&id), [write("/a\u{202e}b.txt", "two")]);
    let unasked = place.rewind(&id, position, &[]);
    assert!(!unasked.one_message().contains('\u{202e}') && !unasked.err.contains("/ab.txt"), "{unasked:?}");
    let back = place.rewind(&id, position, &["--files", "yes"]);
    assert!(back.code == Some(0) && !back.out.contains('\u{202e}') && !back.out.contains("/ab.txt"), "{back:?}");
    assert_eq!(place.read("a\u{202e}b.txt"), None);
}

#[test]
fn without_a_terminal_a_rewind_changes_no_files_unless_asked() {
    let place = Place::new();
    let (id, position) = place.two_runs();
    let unasked = place.rewind(&id, position, &[]);
    assert!(unasked.one_message().contains("/a.txt, /b.txt in "), "{unasked:?}");
    assert!(unasked.one_message().contains("give --files yes or --files no"), "{unasked:?}");
    place.put("a.txt", "mine");
    let refused = place.rewind(&id, position, &["--files", "yes"]);
    assert!(refused.one_message().contains("someone else has changed /a.txt in "), "{refused:?}");
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt").as_deref()), (Some("mine"), Some("two")));
    assert!(place.threads(&["show", &id]).out.contains("/b.txt"), "the conversation stays too");

    let skipped = place.rewind(&id, position, &["--files", "yes", "--conflicts", "skip"]);
    assert!(skipped.out.contains("\nremoved: /b.txt\nleft as they are: /a.txt\n"), "{skipped:?}");
    assert_eq!((place.read("a.txt").as_deref(), place.read("b.txt")), (Some("mine"), None));
    let overwritten = place.rewind(&id, position, &["--files", "yes", "--conflicts", "overwrite"]);
    assert!(overwritten.out.contains("\nput back: /a.txt\n"), "{overwritten:?}");
    assert_eq!(place.read("a.txt").as_deref(), Some("one"));
}

/// Runs a command at a terminal and types `typed`.
fn at_terminal(command: &mut Command, typed: &str) -> (Finished, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let open = || File::options().read(true).write(true).open(&name).unwrap();
    let mut terminal = File::from(terminal);
    let mut typed = Some(typed.to_owned());
    let child = command.stdin(open()).stderr(open()).stdout(Stdio::piped()).start();
    let shown = std::thread::spawn(move || {
        let (mut shown, mut chunk) = (Vec::new(), [0; 1024]);
        // Fails once the program has closed the terminal.
        while let Ok(n @ 1..) = terminal.read(&mut chunk) {
            shown.extend_from_slice(&chunk[..n]);
            // Input typed before the question would not answer it.
            let text = String::from_utf8_lossy(&shown);
            if text.contains("[y]es, [n]o ") || text.contains("[c]ancel? ") {
                typed.take().into_iter().for_each(|typed| terminal.write_all(typed.as_bytes()).unwrap());
            }
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    let finished = child.wait_with_output().unwrap().into();
    *command = Command::new("true");
    (finished, shown.join().unwrap())
}

#[test]
fn at_a_terminal_the_rewind_plan_is_shown_before_the_decision() {
    let place = Place::new();
    let (id, position) = place.two_runs();
    let command = |more: &[&str]| place.command(&[&["rewind", &id, &position.to_string()], more].concat());
    let (no, shown) = at_terminal(&mut command(&[]), "n\n");
    assert_eq!(no.code, Some(1), "{no:?} {shown}");
    assert!(shown.contains("put back   /a.txt") && shown.contains("remove     /b.txt"), "{shown}");
    assert!(shown.contains("Go back? [y]es, [n]o"), "{shown}");
    assert_eq!(place.read("a.txt").as_deref(), Some("two"));

    place.put("a.txt", "mine");
    let (cancelled, shown) = at_terminal(&mut command(&["--files", "yes"]), "c\n");
    assert!(shown.contains("! put back   /a.txt  (changed by someone else)"), "{shown}");
    assert_eq!((cancelled.code, place.read("a.txt").as_deref()), (Some(1), Some("mine")));
    let (overwritten, shown) = at_terminal(&mut command(&[]), "o\n");
    assert_eq!((overwritten.code, place.read("a.txt").as_deref()), (Some(0), Some("one")), "{shown}");
}

/// The size of a database with its WAL and index.
fn size(file: &Path) -> u64 {
    let parts = ["", "-wal", "-shm"].map(|suffix| fs::metadata(format!("{}{suffix}", file.display())));
    parts.into_iter().flatten().map(|meta| meta.len()).sum()
}

#[test]
fn deleting_and_pruning_threads_frees_their_undo_data() {
    let place = Place::new();
    let undo = place.dir.path().join("t.db.undo");
    let (id, position) = place.play(None, [write("/a.txt", &"a".repeat(100_000))]);
    let fork = place.threads(&["fork", &id]).out.trim_end().to_owned();
    place.play(None, [write("/b.txt", &"b".repeat(100_000))]);
    let before = size(&undo);
    assert_eq!(place.threads(&["delete", &id]).code, Some(0));
    assert!(size(&undo) <= before && size(&undo) > 200_000, "the fork and the other thread need what they changed");
    // The fork does not depend on its source.
    let back = place.rewind(&fork, 1, &["--files", "yes"]);
    assert_eq!((back.code, place.read("a.txt")), (Some(0), None), "{back:?}");
    let forth = place.rewind(&fork, position, &["--files", "yes"]);
    assert_eq!((forth.code, place.read("a.txt").map(|text| text.len())), (Some(0), Some(100_000)), "{forth:?}");
    let ids: Vec<String> = {
        let list: Value = serde_json::from_str(&place.threads(&["list", "--json"]).out).unwrap();
        list.as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
    };
    for id in ids {
        assert_eq!(place.threads(&["prune", &id]).code, Some(0));
        assert_eq!(place.threads(&["delete", &id]).code, Some(0));
    }
    assert!(size(&undo) < 50_000, "nothing but empty tables: {}", size(&undo));
}

#[test]
fn a_database_inside_the_root_disables_file_undo() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start([write("/a.txt", "one"), Reply::Text(vec!["Done."])]);
    let db = dir.path().join("t.db");
    let told = finish(run(dir.path(), &server.address).arg("--db").arg(&db).arg("Go"));
    assert!(told.code == Some(0) && told.err.contains("changes to files cannot be undone later"), "{told:?}");
    assert!(!dir.path().join("t.db.undo").exists());
}

#[test]
fn rewinding_reports_changes_made_in_another_directory() {
    let place = Place::new();
    let (id, position) = place.play(None, [write("/a.txt", "one")]);
    let other = place.dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = |replies: Vec<Reply>| {
        let server = Server::start(replies.into_iter().chain([Reply::Text(vec!["Done."])]));
        let mut command = run(&other, &server.address);
        let finished = finish(command.arg("--db").arg(place.db()).args(["--resume", &id, "Go"]));
        assert_eq!(finished.code, Some(0), "{finished:?}");
    };
    elsewhere(vec![write("/b.txt", "two")]);
    let refused = place.rewind(&id, position, &["--files", "yes"]);
    assert!(refused.one_message().contains("are in a directory other than "), "{refused:?}");
    assert!(other.join("b.txt").exists() && place.threads(&["show", &id]).out.contains("/b.txt"));

    // If files of the thread's own directory are restored, the program only mentions the others.
    let read = Reply::Call("read_file", json!({"file_path": "/a.txt"}));
    place.play(Some(&id), [read, write("/a.txt", "three")]);
    let back = place.rewind(&id, position, &["--files", "yes"]);
    assert!(back.out.contains("\nput back: /a.txt\nchanges in other directories are kept\n"), "{back:?}");
    assert_eq!((place.read("a.txt").as_deref(), other.join("b.txt").exists()), (Some("one"), true));
}

#[test]
fn rewinding_reports_a_moved_directory() {
    let place = Place::new();
    let (id, position) = place.two_runs();
    let moved = place.dir.path().join("moved");
    fs::rename(place.root(), &moved).unwrap();
    let gone = place.rewind(&id, position, &["--files", "yes"]);
    assert!(gone.one_message().contains("does not exist; give --files no"), "{gone:?}");
    std::os::unix::fs::symlink(&moved, place.root()).unwrap();
    let another = place.rewind(&id, position, &["--files", "yes"]);
    assert!(another.one_message().contains("or it was moved; nothing was done"), "{another:?}");
    assert_eq!(place.read("a.txt").as_deref(), Some("two"));
    assert!(place.threads(&["show", &id]).out.contains("/b.txt"), "the conversation stays too");
    // Moved back, the directory is recognised again.
    fs::remove_file(place.root()).unwrap();
    fs::rename(&moved, place.root()).unwrap();
    assert_eq!(place.rewind(&id, position, &["--files", "yes"]).code, Some(0));
    assert_eq!(place.read("a.txt").as_deref(), Some("one"));
}

#[test]
fn a_rewind_without_file_changes_says_so() {
    let place = Place::new();
    let (id, position) = place.play(None, [write("/a.txt", "one")]);
    place.play(Some(&id), []);
    let back = place.rewind(&id, position, &[]);
    let words = format!("{id} continues from position {position}\nno file had to be restored\n");
    assert_eq!((back.code, back.out), (Some(0), words));
}
