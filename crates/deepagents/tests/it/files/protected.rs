//! Places that file tools never change, or only after approval, and names that imitate other lines.

use std::path::Path;
use std::sync::Arc;

use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{ActionReview, Decision, DeepAgent, Error, InterruptOn, InterruptPolicy, MemoryJournal, RunInput};
use serde_json::{Value, json};

use crate::{play, results};

fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [(".git/config", "mine\n"), ("AGENTS.md", "Use oak.\n"), ("lib/a.txt", "a\n")] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::os::unix::fs::symlink("../.git", folder.path().join("lib/repository")).unwrap();
    std::os::unix::fs::symlink("../AGENTS.md", folder.path().join("lib/notes")).unwrap();
    folder
}

fn edit(path: &str, old: &str) -> (&'static str, Value) {
    ("edit_file", json!({"file_path": path, "old_string": old, "new_string": "theirs"}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"file_path": path}))
}

#[tokio::test]
async fn file_tools_can_read_git_repositories_but_not_change_them() {
    let folder = workspace();
    let script = [
        Turn::calls([read("/.git/config"), read("/lib/repository/config")]),
        Turn::calls([
            edit("/.git/config", "mine"),
            edit("/lib/repository/config", "mine"),
            ("write_file", json!({"file_path": "/lib/repository/hooks/post-checkout", "content": "#!/bin/sh\n"})),
            ("write_file", json!({"file_path": "/new/.git/config", "content": "x"})),
            ("delete", json!({"file_path": "/.git"})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(LocalBackend::open(folder.path()).unwrap())).await;
    let results = results(&outcome);
    assert!(results[..2].iter().all(|(text, failed)| text.contains("mine") && !failed), "{results:?}");
    assert!(results[2..].iter().all(|(text, failed)| text.contains("is protected") && *failed), "{results:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join(".git/config")).unwrap(), "mine\n");
    assert!(!folder.path().join("new").exists() && !folder.path().join(".git/hooks").exists());
}

/// An agent that edits its notes by a path in a directory.
fn noting(folder: &Path, path: &str, journal: Option<&Arc<MemoryJournal>>, ask: bool) -> DeepAgent {
    let script = [Turn::calls([read(path)]), Turn::calls([edit(path, "oak")]), Turn::text("Done.")];
    let model = ScriptedModel::new(script);
    let mut builder = DeepAgent::builder().model(model).backend(LocalBackend::open(folder).unwrap());
    if let Some(journal) = journal {
        builder = builder.journal(journal.clone());
    }
    if ask {
        builder = builder.interrupt_on(InterruptPolicy::new().before("edit_file", InterruptOn::any()));
    }
    builder.build().unwrap()
}

#[tokio::test]
async fn agent_instruction_files_change_only_after_consent_whatever_the_path() {
    for path in ["/AGENTS.md", "/lib/notes"] {
        for (decision, content) in [
            (Decision::Approve, "Use theirs.\n"),
            (Decision::Reject { message: Some("Oak it is.".to_owned()) }, "Use oak.\n"),
        ] {
            let (folder, journal) = (workspace(), Arc::new(MemoryJournal::new()));
            let agent = noting(folder.path(), path, Some(&journal), false);
            let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
            let asked = waiting.action_requests();
            assert_eq!(asked.len(), 1);
            assert!(asked[0].text.contains(path) && asked[0].tool == "edit_file", "{:?}", asked[0]);
            assert_eq!(std::fs::read_to_string(folder.path().join("AGENTS.md")).unwrap(), "Use oak.\n");
            let input = RunInput::resume("t").decide(asked[0].id.clone(), decision);
            let done = agent.invoke(input).await.unwrap();
            assert!(done.action_requests().is_empty(), "{:?}", results(&done));
            assert_eq!(std::fs::read_to_string(folder.path().join("AGENTS.md")).unwrap(), content);
            let refused = content.contains("oak");
            assert!(results(&done)[1].1 == refused && (!refused || results(&done)[1].0.contains("Oak it is.")));
        }
    }
}

#[tokio::test]
async fn an_approved_call_is_not_asked_about_again() {
    let (folder, journal) = (workspace(), Arc::new(MemoryJournal::new()));
    let agent = noting(folder.path(), "/AGENTS.md", Some(&journal), true);
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let asked = waiting.action_requests();
    let done = agent.invoke(RunInput::resume("t").decide(asked[0].id.clone(), Decision::Approve)).await.unwrap();
    assert!(done.action_requests().is_empty());
    assert_eq!(std::fs::read_to_string(folder.path().join("AGENTS.md")).unwrap(), "Use theirs.\n");
}

#[tokio::test]
async fn agent_instruction_files_stay_unchanged_when_nobody_can_be_asked() {
    let folder = workspace();
    let agent = noting(folder.path(), "/AGENTS.md", None, false);
    let done = agent.invoke(RunInput::new("Go.")).await.unwrap();
    let results = results(&done);
    assert!(results[1].1 && results[1].0.contains("nobody can be asked"), "{results:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("AGENTS.md")).unwrap(), "Use oak.\n");
}

#[tokio::test]
async fn a_direct_call_returns_the_question_about_what_steers_the_agent_to_its_caller() {
    let folder = workspace();
    let agent = noting(folder.path(), "/AGENTS.md", None, false);
    let file = folder.path().join("AGENTS.md");
    std::fs::remove_file(&file).unwrap();
    let args = json!({"file_path": "/AGENTS.md", "content": "Use theirs.\n"});
    let Err(Error::Interrupted(waiting)) = agent.call_tool("write_file", args.clone(), None).await else {
        panic!("it asks")
    };
    assert!(waiting.action_requests()[0].text.contains("part of what steers the agent"), "{waiting:?}");
    for (decision, is_made) in [(Decision::Reject { message: None }, false), (Decision::Approve, true)] {
        assert!(!file.exists());
        let review = ActionReview::new(waiting.action_requests()[0].clone(), decision);
        let made = agent.call_reviewed_tool("write_file", args.clone(), None, &[review]).await.unwrap();
        assert_eq!((made.is_error, file.exists()), (!is_made, is_made), "{made:?}");
    }
}

#[tokio::test]
async fn a_name_with_a_line_break_takes_one_line_in_every_listing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d\n")).unwrap();
    std::fs::write(folder.path().join("d\n/etc"), "hit\n").unwrap();
    std::fs::write(folder.path().join("a\n\u{2028}b"), "hit\n").unwrap();
    let script = [
        Turn::calls([
            ("ls", json!({"path": "/"})),
            ("glob", json!({"pattern": "*"})),
            ("grep", json!({"pattern": "hit"})),
            ("grep", json!({"pattern": "hit", "output_mode": "count"})),
            ("grep", json!({"pattern": "hit", "output_mode": "content"})),
            ("write_file", json!({"file_path": "/new\n/x", "content": "x"})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(LocalBackend::open(folder.path()).unwrap())).await;
    let texts: Vec<String> = results(&outcome).into_iter().map(|(text, _)| text).collect();
    let (file, below) = (r#""/a\n\u{2028}b""#, r#""/d\n/etc""#);
    assert_eq!(texts[0], format!("{file}\n{}/", r#""/d\n""#));
    assert_eq!(texts[1], format!("{file}\n{below}"));
    assert_eq!(texts[2], format!("{file}\n{below}"));
    assert_eq!(texts[3], format!("{file}: 1\n{below}: 1"));
    assert_eq!(texts[4], format!("{file}:\n  1: hit\n{below}:\n  1: hit"));
    assert_eq!(texts[5], r#"Wrote "/new\n/x""#);
}
