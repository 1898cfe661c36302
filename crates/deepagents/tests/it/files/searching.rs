//! `ls`, `glob` and `grep` as the model sees them, and which tools it sees.

use std::collections::BTreeMap;

use deepagents::fs::{LocalBackend, StateBackend, VPath};
use deepagents::middleware::filesystem::{EditTool, FilesystemOptions};
use deepagents::models::scripted::Turn;
use serde_json::{Value, json};

use crate::{play, results};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

async fn calls(
    folder: &tempfile::TempDir,
    options: FilesystemOptions,
    calls: Vec<(&str, Value)>,
) -> Vec<(String, bool)> {
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [Turn::calls(calls), Turn::text("Done.")];
    results(&play(script, |b| b.backend(backend).files(options)).await.0)
}

#[tokio::test]
async fn grep_shows_paths_lines_or_counts() {
    let folder = folder(&[("a.txt", "hit\nx\ny\nz\nhit\nx\n"), ("b/c.txt", "miss\nhit\n"), ("b/d.rs", "a.hit\n")]);
    let grep = |mut args: Value| {
        if args.get("pattern").is_none() {
            args["pattern"] = json!("hit");
        }
        ("grep", args)
    };
    let found = calls(
        &folder,
        FilesystemOptions::default(),
        vec![
            grep(json!({})),
            grep(json!({"output_mode": "content"})),
            grep(json!({"output_mode": "count"})),
            grep(json!({"output_mode": "content", "context": 1, "path": "/a.txt"})),
            grep(json!({"output_mode": "content", "max_count": 2})),
            grep(json!({"glob": "*.rs"})),
            grep(json!({"pattern": "^hit$", "regex": true, "output_mode": "count"})),
            grep(json!({"pattern": "^h.*t$"})),
            grep(json!({"pattern": "nowhere"})),
            grep(json!({"path": "/none"})),
            grep(json!({"max_count": 0})),
            grep(json!({"glob": "", "output_mode": "count", "path": "/b"})),
            grep(json!({"max_count": 2})),
            grep(json!({"max_count": 1, "output_mode": "count"})),
            grep(json!({"max_count": 2, "output_mode": "count"})),
        ],
    )
    .await;
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    let more = "[there is more; narrow the path or the pattern, or raise max_count]";
    assert_eq!(texts[0], "/a.txt\n/b/c.txt\n/b/d.rs");
    assert_eq!(texts[1], "/a.txt:\n  1: hit\n  5: hit\n/b/c.txt:\n  2: hit\n/b/d.rs:\n  1: a.hit");
    assert_eq!(texts[2], "/a.txt: 2\n/b/c.txt: 1\n/b/d.rs: 1");
    assert_eq!(texts[3], "/a.txt:\n  1: hit\n  2- x\n  --\n  4- z\n  5: hit\n  6- x");
    assert_eq!(texts[4], format!("/a.txt:\n  1: hit\n  5: hit\n{more}"));
    assert_eq!(texts[5], "/b/d.rs");
    assert_eq!(texts[6], "/a.txt: 2\n/b/c.txt: 1");
    assert!(texts[7].starts_with("No matches found\n[the pattern was taken as text; set regex"), "{}", texts[7]);
    assert_eq!(texts[8], "No matches found");
    assert_eq!(found[9], ("No matches found: /none does not exist".to_owned(), false));
    assert!(found[10].1, "a limit of nothing is refused");
    assert_eq!(texts[11], "/b/c.txt: 1\n/b/d.rs: 1", "an empty glob is none");
    assert_eq!(texts[12], format!("/a.txt\n/b/c.txt\n{more}"), "each file counts once");
    assert_eq!(texts[13], format!("/a.txt: 1+\n{more}"), "there is one more");
    assert_eq!(texts[14], format!("/a.txt: 2\n{more}"), "only other files have more");
}

#[tokio::test]
async fn listings_are_sorted_paths_with_a_trailing_slash_on_directories() {
    let folder = folder(&[("b/x", ""), ("a", ""), ("it's", ""), (".dot", "")]);
    let found = calls(
        &folder,
        FilesystemOptions::default(),
        vec![
            ("ls", json!({"path": "."})),
            ("ls", json!({"path": "/none"})),
            ("ls", json!({"path": "/a"})),
            ("glob", json!({"pattern": "*"})),
            ("glob", json!({"pattern": "../x"})),
            ("glob", json!({"pattern": "nothing"})),
            ("glob", json!({"pattern": "*", "path": "/none"})),
            ("glob", json!({"pattern": "*", "path": "/a/below"})),
        ],
    )
    .await;
    let want = [
        ("/.dot\n/a\n/b/\n/it's", false),
        ("Error: /none does not exist", true),
        ("Error: /a is a file, not a directory", true),
        ("/a\n/b/x\n/it's", false),
        ("Error: invalid pattern `../x`: `..` is not allowed in a pattern", true),
        ("No files found", false),
        ("No files found: /none does not exist", false),
        ("No files found: /a is a file, not a directory", false),
    ];
    assert_eq!(found, want.map(|(text, error)| (text.to_owned(), error)));
}

#[tokio::test]
async fn a_directory_without_files_does_not_exist_in_a_file_only_backend() {
    let script = [
        Turn::call("write_file", json!({"file_path": "/d/a", "content": "x"})),
        Turn::call("delete", json!({"file_path": "/d/a"})),
        Turn::calls([("ls", json!({"path": "/d"})), ("ls", json!({"path": "/"}))]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(StateBackend::new())).await;
    let results = results(&outcome);
    assert_eq!(results[2], ("No files found: /d does not exist".to_owned(), false));
    assert_eq!(results[3], ("No files found".to_owned(), false));
}

#[tokio::test]
async fn only_selected_tools_are_offered_with_their_configured_descriptions() {
    let options = FilesystemOptions {
        tools: Some(vec!["read_file".to_owned(), "grep".to_owned()]),
        descriptions: BTreeMap::from([("grep".to_owned(), "Looks for words.".to_owned())]),
        ..FilesystemOptions::default()
    };
    let script = [Turn::call("write_file", json!({"file_path": "/a", "content": "x"})), Turn::text("Done.")];
    let (outcome, model) = play(script, |b| b.files(options)).await;
    let requests = model.requests();
    let offered: Vec<(&str, &str)> =
        requests[0].tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
    let of_files = ["ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "execute"];
    let names: Vec<&str> = offered.iter().map(|tool| tool.0).filter(|name| of_files.contains(name)).collect();
    assert_eq!(names, ["grep", "read_file"]);
    assert!(offered.contains(&("grep", "Looks for words.")));
    assert!(results(&outcome)[0].1, "what is not offered cannot be called");
}

#[tokio::test]
async fn tools_reach_only_allowed_paths_and_follow_no_links_out() {
    let folder = folder(&[("garden/a.txt", "hit\n"), ("gardens/b.txt", "hit\n"), ("other/secret.txt", "hit secret\n")]);
    std::os::unix::fs::symlink("../other", folder.path().join("garden/link")).unwrap();
    let only = |paths: &[&str]| FilesystemOptions {
        allowed_prefixes: paths.iter().map(|path| VPath::parse(path).unwrap()).collect(),
        ..FilesystemOptions::default()
    };
    let tried = || {
        vec![
            ("read_file", json!({"file_path": "/garden/a.txt"})),
            ("grep", json!({"pattern": "hit"})),
            ("read_file", json!({"file_path": "/gardens/b.txt"})),
            ("read_file", json!({"file_path": "/garden/link/secret.txt"})),
            ("ls", json!({"path": "/"})),
            ("ls", json!({"path": "/garden/link"})),
            ("write_file", json!({"file_path": "/garden/link/new.txt", "content": "x"})),
            ("delete", json!({"file_path": "/other"})),
            ("glob", json!({"pattern": "*", "path": "/garden/link"})),
            ("delete", json!({"file_path": "/garden/link"})),
        ]
    };
    let found = calls(&folder, only(&["/garden"]), tried()).await;
    let errors: Vec<bool> = found.iter().map(|result| result.1).collect();
    assert_eq!(errors, [false, false, true, true, true, true, true, true, true, false], "{found:?}");
    assert_eq!(found[1].0, "/garden/a.txt", "a search goes where the tools reach");
    assert_eq!(found[2].0, "Error: /gardens/b.txt is out of reach; give a path below /garden");
    assert_eq!(found[3].0, "Error: /garden/link/secret.txt leads out of reach");
    assert!(found.iter().all(|result| !result.0.contains("hit secret")));
    assert_eq!(std::fs::read_dir(folder.path().join("other")).unwrap().count(), 1);
    assert!(!folder.path().join("garden/link").is_symlink(), "the link itself is within reach");

    let found = calls(&folder, only(&["/garden", "/gardens"]), tried()).await;
    assert_eq!(found[1].0, "Error: / is out of reach; give a path below /garden or /gardens");
    assert!(!found[2].1);
}

#[tokio::test]
async fn grep_without_a_path_searches_what_may_be_read() {
    use deepagents::fs::permissions::{AccessMode, Permissions, Rule};
    let folder = folder(&[("open/a.txt", "hit\n"), ("other/b.txt", "hit\n")]);
    let rules = [Rule::new(AccessMode::Allow, ["/open/**"]), Rule::new(AccessMode::Deny, ["/**"])];
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [
        Turn::calls([
            ("grep", json!({"pattern": "hit"})),
            ("grep", json!({"pattern": "hit", "path": "/open"})),
            ("grep", json!({"pattern": "hit", "path": "/"})),
            ("grep", json!({"pattern": "hit", "path": "/other"})),
            ("glob", json!({"pattern": "*"})),
            ("ls", json!({"path": "/"})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(backend).permissions(Permissions::new(rules).unwrap())).await;
    let denied = |path: &str| (format!("Error: permission denied for read on {path}"), true);
    let found = ("/open/a.txt".to_owned(), false);
    let hinted = (format!("{}; give a path that may be read", denied("/").0), true);
    assert_eq!(results(&outcome), [found.clone(), found, denied("/"), denied("/other"), hinted, denied("/")]);
}

#[tokio::test]
async fn a_write_only_path_can_be_written() {
    use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
    let folder = folder(&[("drop/.keep", "")]);
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/drop/**"]).only([Operation::Read])]).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let coerce = FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() };
    let script = [
        Turn::calls([
            ("write_file", json!({"file_path": "/drop/new", "content": "x"})),
            ("read_file", json!({"file_path": "/drop/new"})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(backend).files(coerce).permissions(rules)).await;
    let results = results(&outcome);
    assert_eq!(results[0], ("Wrote /drop/new".to_owned(), false));
    assert_eq!(results[1], ("Error: permission denied for read on /drop/new".to_owned(), true));
}

#[tokio::test]
async fn a_write_only_file_can_be_changed_only_by_the_thread_that_wrote_it() {
    use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
    let folder = folder(&[("drop/theirs", "y")]);
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/drop/**"]).only([Operation::Read])]).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let write = |path: &str, text: &str| Turn::call("write_file", json!({"file_path": path, "content": text}));
    let edit = |path: &str, old: &str| {
        Turn::call("edit_file", json!({"file_path": path, "old_string": old, "new_string": "z"}))
    };
    let script = [
        write("/drop/own", "one"),
        write("/drop/own", "two"),
        edit("/drop/own", "two"),
        write("/drop/theirs", "mine"),
        edit("/drop/theirs", "y"),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(backend).permissions(rules)).await;
    let errors: Vec<bool> = results(&outcome).into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors, [false, false, false, true, true]);
    assert_eq!(std::fs::read_to_string(folder.path().join("drop/own")).unwrap(), "z");
    assert_eq!(std::fs::read_to_string(folder.path().join("drop/theirs")).unwrap(), "y");
}

#[tokio::test]
async fn editing_an_unreadable_file_does_not_reveal_its_content() {
    use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
    let folder = folder(&[("drop/theirs", "password=hunter")]);
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/drop/**"]).only([Operation::Read])]).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let call = |name: &str, args| Turn::calls([(name, args)]);
    let edit =
        |old: &str| call("edit_file", json!({"file_path": "/drop/theirs", "old_string": old, "new_string": old}));
    let patch = |old: &str| {
        let input = format!("*** Begin Patch\n*** Update File: /drop/theirs\n@@\n-{old}\n+{old}!\n*** End Patch");
        call("apply_patch", json!({"input": input}))
    };
    let denied = ("Error: permission denied for read on /drop/theirs".to_owned(), true);
    for (tool, script) in [
        (EditTool::EditFile, [edit("password=h"), edit("password=x"), Turn::text("Done.")]),
        (EditTool::ApplyPatch, [patch("password=hunter"), patch("password=x"), Turn::text("Done.")]),
    ] {
        let free = FilesystemOptions { read_before_edit: false, edit_tool: Some(tool), ..FilesystemOptions::default() };
        let (backend, rules) = (backend.clone(), rules.clone());
        let (outcome, _) = play(script, |b| b.backend(backend).files(free).permissions(rules)).await;
        assert_eq!(results(&outcome), [denied.clone(), denied.clone()]);
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("drop/theirs")).unwrap(), "password=hunter");
}

#[tokio::test]
async fn searches_and_listings_say_how_many_names_they_cannot_show() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder(&[("a.txt", "hit\n"), ("back\\slash/b.txt", "hit\n")]);
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"bad\xff")), "hit\n").unwrap();
    let found = calls(
        &folder,
        FilesystemOptions::default(),
        vec![
            ("ls", json!({"path": "/"})),
            ("glob", json!({"pattern": "*"})),
            ("glob", json!({"pattern": "*.rs"})),
            ("grep", json!({"pattern": "hit"})),
            ("grep", json!({"pattern": "nowhere"})),
        ],
    )
    .await;
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    let note = "[2 entries have names that cannot be shown]";
    let file = format!("/a.txt\n{note}");
    let no_files = format!("No files found\n{note}");
    let no_matches = format!("No matches found\n{note}");
    assert_eq!(texts, [&file, &file, &no_files, &file, &no_matches]);
}

#[tokio::test]
async fn grep_that_finds_nothing_says_how_many_binary_files_it_passed_over() {
    let folder = folder(&[("a.txt", "hit\n"), ("b.bin", "\0needle"), ("c.bin", "\0needle")]);
    let grep = |args: Value| ("grep", args);
    let found = calls(
        &folder,
        FilesystemOptions::default(),
        vec![
            grep(json!({"pattern": "needle", "path": "/b.bin"})),
            grep(json!({"pattern": "needle"})),
            grep(json!({"pattern": "hit"})),
            grep(json!({"pattern": "needle", "path": "/a.txt"})),
        ],
    )
    .await;
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    let want = [
        "No matches found\n[1 binary file was not searched]",
        "No matches found\n[2 binary files were not searched]",
        "/a.txt",
        "No matches found",
    ];
    assert_eq!(texts, want);
}
