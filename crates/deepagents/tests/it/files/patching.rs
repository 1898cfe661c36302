//! `apply_patch`: several files in one call, with all checks before any write.

use std::path::Path;
use std::sync::Arc;

use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::{LocalBackend, VPath};
use deepagents::middleware::filesystem::{EditTool, FilesystemOptions};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::profile::ProfileConfig;
use deepagents::{Decision, DeepAgent, DeepAgentBuilder, FinishReason, MemoryJournal, RunInput};
use serde_json::json;

use super::text_of;
use crate::{play, results};

fn patch(body: &str) -> Turn {
    Turn::call("apply_patch", json!({"input": format!("*** Begin Patch\n{body}\n*** End Patch")}))
}

fn read(path: &str) -> Turn {
    Turn::call("read_file", json!({"file_path": path}))
}

fn write(path: &str, content: &str) -> Turn {
    Turn::call("write_file", json!({"file_path": path, "content": content}))
}

fn patching(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    builder.files(FilesystemOptions { edit_tool: Some(EditTool::ApplyPatch), ..FilesystemOptions::default() })
}

fn on(folder: &Path) -> impl Fn(DeepAgentBuilder) -> DeepAgentBuilder {
    let files = LocalBackend::open(folder).unwrap();
    move |builder| patching(builder.backend(files.clone()))
}

fn content(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

const ALL: &str = "*** Add File: /new/c.txt\n+three\n*** Update File: /a.txt\n-one\n+1\n two\n\
                   *** Update File: /b.txt\n*** Move to: /moved.txt\n@@\n-old\n+new\n*** Delete File: /gone.txt";

#[tokio::test]
async fn a_patch_adds_changes_moves_and_deletes_files_in_state_and_on_disk() {
    let script = || {
        let files = [("/a.txt", "one\ntwo\n"), ("/b.txt", "old\n"), ("/gone.txt", "x\n")];
        files.map(|(path, text)| write(path, text)).into_iter().chain([patch(ALL), Turn::text("Done.")])
    };
    let said = "Wrote /new/c.txt\nWrote /a.txt\nWrote /moved.txt\nDeleted /b.txt\nDeleted /gone.txt";
    let (outcome, _) = play(script(), patching).await;
    assert_eq!(results(&outcome)[3], (said.to_owned(), false));
    assert_eq!(text_of(&outcome, "/a.txt").as_deref(), Some("1\ntwo\n"));
    assert_eq!(text_of(&outcome, "/moved.txt").as_deref(), Some("new\n"));
    assert_eq!(text_of(&outcome, "/new/c.txt").as_deref(), Some("three\n"));
    assert!(text_of(&outcome, "/b.txt").is_none() && text_of(&outcome, "/gone.txt").is_none());

    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = play(script(), on(folder.path())).await;
    assert_eq!(results(&outcome)[3], (said.to_owned(), false));
    assert_eq!(content(folder.path(), "moved.txt").as_deref(), Some("new\n"));
    assert_eq!(content(folder.path(), "b.txt"), None);
}

#[tokio::test]
async fn a_patch_changes_no_file_if_one_cannot_be_changed() {
    let broken = [
        ("*** Add File: /b.txt\n+x\n*** Update File: /a.txt\n-three\n+3", "its lines are not there"),
        ("*** Add File: /b.txt\n+x\n*** Add File: /a.txt\n+x", "exists already"),
        ("*** Add File: /b.txt\n+x\n*** Delete File: /nowhere.txt", "does not exist"),
        ("*** Add File: /b.txt\n+x\n*** Update File: /unread.txt\n-x\n+y", "Read it first"),
        ("*** Add File: /b.txt\n+x\n*** Update File: /a.txt\n*** Move to: /unread.txt\n-one\n+1", "exists already"),
        ("*** Add File: /b.txt\n+x\n*** Update File: /link.txt\n-one\n+1", "leads to /a.txt"),
        ("*** Add File: /b.txt\n+x\n*** Add File: /.git/hooks/run\n+x", "is protected"),
        ("*** Add File: /b.txt\n+x\n*** Update File: /raw.bin\n-x\n+y", "not UTF-8"),
        ("*** Add File: /b.txt\n+x\n*** Add File: ../out.txt\n+x", "line 4 of the patch"),
        ("*** Add File: /b.txt\n+x\n*** Add File: /b.txt\n+y", "names /b.txt twice"),
        ("*** Add File: /b.txt\n+x\nhello", "line 4 of the patch, `hello`, is not understood"),
    ];
    for (body, why) in broken {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.txt", &b"one\ntwo\n"[..]), ("unread.txt", b"x\n"), ("raw.bin", b"x\n\0\xff")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::os::unix::fs::symlink("a.txt", folder.path().join("link.txt")).unwrap();
        let script = [read("/a.txt"), read("/raw.bin"), patch(body), Turn::text("Done.")];
        let (outcome, _) = play(script, on(folder.path())).await;
        let (text, failed) = &results(&outcome)[2];
        assert!(*failed && text.contains(why), "{body}: {text}");
        assert_eq!(content(folder.path(), "b.txt"), None, "{body}");
        assert_eq!(content(folder.path(), "a.txt").as_deref(), Some("one\ntwo\n"), "{body}");
    }
}

#[tokio::test]
async fn a_patch_leaves_a_file_alone_that_changed_since_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    let path = folder.path().join("a.txt");
    let meddled = Turn::with(move |_| {
        std::fs::write(&path, "one\nmine\n").unwrap();
        patch("*** Update File: /a.txt\n-one\n+1")
    });
    let (outcome, _) = play([read("/a.txt"), meddled, Turn::text("Done.")], on(folder.path())).await;
    assert!(results(&outcome)[1].0.contains("has changed since you last read it"), "{:?}", results(&outcome));
    assert_eq!(content(folder.path(), "a.txt").as_deref(), Some("one\nmine\n"));
}

#[tokio::test]
async fn a_failure_midway_reports_what_was_done_and_what_was_not() {
    // A file is in the place of a directory, which shows only at the write.
    let folder = tempfile::tempdir().unwrap();
    let body = "*** Add File: /a.txt\n+a\n*** Add File: /a.txt.d\n+b\n*** Add File: /a.txt.d/c.txt\n+c\n*** Add File: /z.txt\n+z";
    let (outcome, _) = play([patch(body), read("/a.txt"), Turn::text("Done.")], on(folder.path())).await;
    let (text, failed) = &results(&outcome)[0];
    assert!(*failed && text.contains("This was done before:\nWrote /a.txt\nWrote /a.txt.d\n"), "{text}");
    assert!(text.ends_with("These are as they were: /a.txt.d/c.txt, /z.txt"), "{text}");
    assert_eq!(content(folder.path(), "a.txt").as_deref(), Some("a\n"));
    assert_eq!(content(folder.path(), "z.txt"), None);
}

#[tokio::test]
async fn rules_apply_to_every_path_of_a_patch_and_one_that_asks_is_enough() {
    let rule = |mode, path: &str| Rule::new(mode, [path]).only([Operation::Write]);
    let rules = Permissions::new([rule(AccessMode::Deny, "/secret/**"), rule(AccessMode::Ask, "/src/**")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = |turns: Vec<Turn>, journal: &Arc<MemoryJournal>| -> DeepAgent {
        let builder = DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal.clone());
        on(folder.path())(builder).permissions(rules.clone()).build().unwrap()
    };
    let journal = Arc::new(MemoryJournal::new());
    let denied = patch("*** Add File: /ok.txt\n+x\n*** Add File: /secret/key\n+x");
    let outcome =
        agent(vec![denied, Turn::text("Done.")], &journal).invoke(RunInput::new("Go.").thread("a")).await.unwrap();
    assert!(results(&outcome)[0].0.contains("permission denied"), "{:?}", results(&outcome));
    assert_eq!(content(folder.path(), "ok.txt"), None);

    let asked = patch("*** Add File: /ok.txt\n+x\n*** Add File: /src/main.rs\n+fn main() {}");
    let outcome = agent(vec![asked], &journal).invoke(RunInput::new("Go.").thread("b")).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let request = outcome.action_requests().first().cloned().unwrap();
    assert!(request.args["input"].as_str().unwrap().contains("+fn main() {}"), "the whole change is shown");
    assert_eq!(content(folder.path(), "ok.txt"), None);
    let decided = RunInput::resume("b").decide(request.id.clone(), Decision::Approve);
    let outcome = agent(vec![Turn::text("Done.")], &journal).invoke(decided).await.unwrap();
    assert_eq!(results(&outcome), [("Wrote /ok.txt\nWrote /src/main.rs".to_owned(), false)]);
    assert_eq!(content(folder.path(), "src/main.rs").as_deref(), Some("fn main() {}\n"));
}

#[tokio::test]
async fn a_profile_selects_the_edit_tool_and_the_caller_overrides_it() {
    let offered = async |edit_tool: Option<EditTool>, profile: Option<EditTool>| {
        let profile = ProfileConfig { edit_tool: profile, ..ProfileConfig::default() };
        let files = FilesystemOptions { edit_tool, ..FilesystemOptions::default() };
        let (_, model) = play([Turn::text("Done.")], |b| b.files(files).profile(profile)).await;
        let request = model.requests()[0].clone();
        ["edit_file", "apply_patch"].map(|name| request.tools.iter().any(|tool| tool.name == name))
    };
    assert_eq!(offered(None, None).await, [true, false]);
    assert_eq!(offered(None, Some(EditTool::ApplyPatch)).await, [false, true]);
    assert_eq!(offered(Some(EditTool::EditFile), Some(EditTool::ApplyPatch)).await, [true, false]);
    assert_eq!(offered(Some(EditTool::Both), None).await, [true, true]);
}

#[tokio::test]
async fn two_patches_of_one_file_in_one_turn_both_apply() {
    let call = |body: &str| ("apply_patch", json!({"input": format!("*** Begin Patch\n{body}\n*** End Patch")}));
    let script = [
        write("/a.txt", "a\nb\n"),
        Turn::calls([call("*** Update File: /a.txt\n-a\n+A"), call("*** Update File: /a.txt\n-b\n+B")]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, patching).await;
    assert_eq!(text_of(&outcome, "/a.txt").as_deref(), Some("A\nB\n"), "{:?}", results(&outcome));
    assert!(VPath::parse("/a.txt").is_ok());
}
