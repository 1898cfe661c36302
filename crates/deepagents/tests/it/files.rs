//! The file tools, on the state and on a directory.

mod bounds;
mod edges;
mod exchanged;
mod limits;
mod media;
mod own;
mod patching;
mod protected;
mod searching;

use deepagents::channels::Files;
use deepagents::fs::{LocalBackend, VPath};
use deepagents::middleware::filesystem::{FilesystemOptions, ReadFormat};
use deepagents::models::scripted::Turn;
use serde_json::json;

use crate::{play, results};

fn text_of(outcome: &deepagents::Outcome, path: &str) -> Option<String> {
    let path = VPath::parse(path).unwrap();
    let file = outcome.state.get::<Files>()?.get(&path)?.clone();
    Some(String::from_utf8(file.content().bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn a_file_in_the_state_can_be_written_edited_and_read() {
    let script = [
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": "one two one\n"})),
        Turn::call(
            "edit_file",
            json!({"file_path": "/a.txt", "old_string": "one", "new_string": "1", "replace_all": true}),
        ),
        Turn::call("read_file", json!({"file_path": "/a.txt"})),
        Turn::call("ls", json!({"path": "/"})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(text_of(&outcome, "/a.txt").as_deref(), Some("1 two 1\n"));
    let texts: Vec<String> = results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["Wrote /a.txt", "Edited /a.txt: replaced 2 places", "     1\t1 two 1", "/a.txt"]);
}

#[tokio::test]
async fn two_edits_of_one_file_in_one_turn_both_apply() {
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"file_path": "/a.txt", "old_string": old, "new_string": new}));
    let script = [
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": "a b"})),
        Turn::calls([edit("a", "A"), edit("b", "B")]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(text_of(&outcome, "/a.txt").as_deref(), Some("A B"), "{:?}", results(&outcome));
}

#[tokio::test]
async fn a_list_of_edits_is_applied_completely_or_not_at_all() {
    let edits = json!({"file_path": "/a.txt", "old_string": "a", "new_string": "A",
                       "edits": [{"old_string": "nowhere", "new_string": "x"}]});
    let script = [
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": "a b"})),
        Turn::call("edit_file", edits),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert!(results(&outcome)[1].1);
    assert_eq!(text_of(&outcome, "/a.txt").as_deref(), Some("a b"));
}

#[tokio::test]
async fn a_file_cannot_be_changed_before_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "precious").unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": "gone"})),
        Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": "precious", "new_string": "gone"})),
        Turn::call("read_file", json!({"file_path": "/a.txt"})),
        Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": "precious", "new_string": "read first"})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script.clone(), |b| b.backend(backend)).await;
    let errors: Vec<bool> = results(&outcome).iter().map(|r| r.1).collect();
    assert_eq!(errors, [true, true, false, false], "{:?}", results(&outcome));
    assert!(results(&outcome)[0].0.contains("/a.txt exists and you have not read it"));
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "read first");

    let free = FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() };
    let backend = LocalBackend::open(folder.path()).unwrap();
    let (outcome, _) = play(script, |b| b.backend(backend).files(free)).await;
    assert!(!results(&outcome)[0].1);
}

#[tokio::test]
async fn a_file_changed_by_someone_else_must_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "first").unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let meddle = Turn::with({
        let path = path.clone();
        move |_| {
            std::fs::write(&path, "changed by hand").unwrap();
            Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": "changed", "new_string": "x"}))
        }
    });
    let script = [Turn::call("read_file", json!({"file_path": "/a.txt"})), meddle, Turn::text("Done.")];
    let (outcome, _) = play(script, |b| b.backend(backend)).await;
    assert!(results(&outcome)[1].0.contains("has changed since you last read it"), "{:?}", results(&outcome));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed by hand");
}

#[tokio::test]
async fn nothing_outside_the_directory_is_read_written_or_named() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret words").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), folder.path().join("dangling")).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [
        Turn::calls([
            ("read_file", json!({"file_path": "/link"})),
            ("read_file", json!({"file_path": "/../secret"})),
            ("read_file", json!({"file_path": "~/secret"})),
            ("write_file", json!({"file_path": "/dangling", "content": "out"})),
            ("write_file", json!({"file_path": "/a/../../b", "content": "out"})),
        ]),
        Turn::text("Stayed inside."),
    ];
    let (outcome, _) = play(script, |b| b.backend(backend)).await;
    for (text, error) in results(&outcome) {
        assert!(error, "{text}");
        assert!(!text.contains("secret words") && !text.contains(&*outside.path().to_string_lossy()), "{text}");
        assert!(!text.contains(&*folder.path().to_string_lossy()), "{text}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn paging_says_where_to_continue_and_an_offset_past_the_end_is_an_error() {
    let content: String = (0..250).map(|n| format!("line {n}\n")).collect();
    let script = [
        Turn::call("write_file", json!({"file_path": "/long.txt", "content": content})),
        Turn::calls([
            ("read_file", json!({"file_path": "/long.txt"})),
            ("read_file", json!({"file_path": "/long.txt", "offset": 245, "limit": 10})),
            ("read_file", json!({"file_path": "/long.txt", "offset": 999})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    let results = results(&outcome);
    assert!(
        results[1].0.ends_with("   100\tline 99\n[lines 1-100 of 250; continue with offset 100]"),
        "{}",
        results[1].0
    );
    assert!(results[2].0.starts_with("   246\tline 245\n") && results[2].0.ends_with("   250\tline 249"));
    assert_eq!(results[3], ("Error: offset 999 is past the end of /long.txt, which has 250 lines".to_owned(), true));
}

#[tokio::test]
async fn the_plain_format_shows_unchanged_text_below_a_header() {
    let script = [
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": "one\ntwo\nthree\n"})),
        Turn::call("read_file", json!({"file_path": "/a.txt", "limit": 2})),
        Turn::text("Done."),
    ];
    let plain = FilesystemOptions { read_format: ReadFormat::Plain, ..FilesystemOptions::default() };
    let (outcome, _) = play(script, |b| b.files(plain)).await;
    assert_eq!(results(&outcome)[1].0, "@@ lines 1-2 of 3 | next offset 2 @@\none\ntwo");
}

#[tokio::test]
async fn a_large_result_goes_to_a_file_and_the_model_sees_both_ends() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {}
    let dump =
        || deepagents::tool_fn("dump", "Dumps.", |_: Args, _cx| async move { Ok("line of log\n".repeat(12_000)) });
    let script = [
        Turn::calls([("c.1", "dump", json!({})), ("c_1", "dump", json!({})), ("a.b/c", "dump", json!({}))]),
        Turn::call("read_file", json!({"file_path": "/large_tool_results/c_1", "offset": 5, "limit": 2})),
        Turn::text("Read."),
    ];
    let (outcome, _) = play(script, |b| b.tool(dump())).await;
    let results = results(&outcome);
    assert!(results[0].0.contains("It is in /large_tool_results/call-"), "{}", results[0].0);
    assert!(results[1].0.contains("It is in /large_tool_results/c_1;"), "{}", results[1].0);
    assert!(results[2].0.contains("It is in /large_tool_results/a_b_c;"), "{}", results[2].0);
    assert!(results[0].0.len() < 1_000);
    assert!(results[3].0.starts_with("     6\tline of log\n"));
    assert_eq!(text_of(&outcome, "/large_tool_results/c_1").unwrap().len(), 144_000);
}

#[tokio::test]
async fn a_failed_command_is_a_result_with_its_output_and_exit_code() {
    use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
    let folder = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(folder.path(), Confinement::Unconfined).unwrap();
    let backend = WithShell::new(LocalBackend::open(folder.path()).unwrap(), shell);
    let script = [
        Turn::call("execute", json!({"command": "echo out; echo err >&2; exit 3"})),
        Turn::call("execute", json!({"command": "true"})),
        Turn::call("execute", json!({"command": "echo last; kill -9 $$"})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(backend)).await;
    let expected =
        ["out\nerr\n[exit code 3]", "(no output)\n[exit code 0]", "last\n[exit code -9: ended by signal 9 (SIGKILL)]"];
    assert_eq!(results(&outcome), expected.map(|text| (text.to_owned(), false)));
}
