//! Files that commands create at protected places.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::edit::Edit;
use deepagents_fs::permissions::{AccessMode, Permissions, Place, ProtectedPlace, ProtectedPlaces, Rule};
use deepagents_fs::sandbox::SandboxPolicy;
use deepagents_fs::shell::{Command, CommandOutput, Exit, SessionOptions, Shell};
use deepagents_fs::{LocalBackend, LocalOptions, UndoStore};
use tokio_util::sync::CancellationToken;

use crate::sandbox::{Jail, jail};
use crate::suite::{Files, p as path};

fn moved(done: &CommandOutput) -> Vec<(&str, Option<&str>)> {
    done.moved.iter().map(|moved| (moved.from.as_str(), moved.to.as_deref())).collect()
}

#[tokio::test]
async fn files_that_need_approval_are_renamed_when_a_command_creates_them() {
    let jail = jail!();
    let done = jail.run("echo evil > AGENTS.md; mkdir -p .deepagents/agents; echo x > .deepagents/agents/a.md").await;
    assert!(done.exit.success());
    let mut names = moved(&done);
    names.sort_unstable();
    assert_eq!(
        names,
        [(".deepagents", Some(".deepagents.from-command")), ("AGENTS.md", Some("AGENTS.md.from-command"))]
    );
    assert!(!jail.path("AGENTS.md").exists() && !jail.path(".deepagents").exists());
    assert_eq!(fs::read_to_string(jail.path("AGENTS.md.from-command")).unwrap(), "evil\n");
    assert!(jail.path(".deepagents.from-command/agents/a.md").exists());
    // An existing file with the new name is not overwritten.
    let done = jail.run("echo more > AGENTS.md").await;
    assert_eq!(moved(&done), [("AGENTS.md", Some("AGENTS.md.from-command-2"))]);
    assert_eq!(fs::read_to_string(jail.path("AGENTS.md.from-command")).unwrap(), "evil\n");
    insta::assert_snapshot!(done.moved[0], @"commands may not make AGENTS.md: it is called AGENTS.md.from-command-2 now");
    assert_eq!(moved(&jail.run("echo x > other").await), []);
}

#[tokio::test]
async fn protected_places_are_renamed_however_a_command_creates_them() {
    let jail = jail!();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("mine"), "mine").unwrap();
    for (text, name) in [
        ("echo evil > agents.MD", "agents.MD"),
        ("mkdir .DeepAgents", ".DeepAgents"),
        ("echo x > f && ln f AGENTS.md", "AGENTS.md"),
        ("mkfifo AGENTS.md", "AGENTS.md"),
        ("mkdir -p d/agents && mv d .deepagents", ".deepagents"),
        ("truncate -s 4G AGENTS.md", "AGENTS.md"),
        ("echo x > AGENTS.md; chmod 000 AGENTS.md", "AGENTS.md"),
        ("mkdir .deepagents; chmod 000 .deepagents", ".deepagents"),
        ("echo x > AGENTS.md; kill -9 $$", "AGENTS.md"),
    ] {
        let done = jail.run(text).await;
        assert_eq!(moved(&done).iter().map(|(from, _)| *from).collect::<Vec<_>>(), [name], "{text}");
        assert!(jail.path(name).symlink_metadata().is_err(), "{text}");
    }
    // The link is moved, not its target.
    let done = jail
        .run(&format!("ln -s {}/mine AGENTS.md; ln -s {} .deepagents", other.path().display(), other.path().display()))
        .await;
    assert_eq!(done.moved.len(), 2);
    assert_eq!(fs::read_to_string(other.path().join("mine")).unwrap(), "mine");
    // The same applies to a command that is killed.
    let command = Command::new("echo evil > AGENTS.md; sleep 60").timeout(Duration::from_secs(2));
    let done = jail.shell.run(command, CancellationToken::new(), None).await.unwrap();
    assert!(matches!(done.exit, Exit::TimedOut { .. }));
    assert!(!jail.path("AGENTS.md").exists());
}

#[tokio::test]
async fn existing_files_and_concurrent_file_tool_writes_are_not_renamed() {
    let jail = jail!();
    fs::create_dir(jail.path(".deepagents")).unwrap();
    let mut files = Files::new(Arc::new(LocalBackend::open(jail.dir.path()).unwrap()));
    let (pieces, mut told) = tokio::sync::mpsc::channel(8);
    let run = jail.shell.run(
        Command::new("echo started; while ! test -e go; do sleep 0.01; done; test -e AGENTS.md"),
        CancellationToken::new(),
        Some(pieces),
    );
    let write = async {
        assert_eq!(told.recv().await.as_deref(), Some("started\n"));
        files.write("/AGENTS.md", "approved").await.unwrap();
        fs::write(jail.path("go"), "").unwrap();
        while told.recv().await.is_some() {}
    };
    let (done, ()) = tokio::join!(run, write);
    let done = done.unwrap();
    assert_eq!((done.exit, moved(&done)), (Exit::Code(0), vec![]), "{}", done.output);
    assert_eq!(fs::read_to_string(jail.path("AGENTS.md")).unwrap(), "approved");
    assert!(jail.path(".deepagents").exists());
    assert!(!jail.run("echo evil > AGENTS.md").await.exit.success());
}

#[tokio::test]
async fn a_concurrent_commands_new_file_does_not_count_as_existing_before() {
    let jail = jail!();
    let (pieces, mut told) = tokio::sync::mpsc::channel(8);
    let first = jail.shell.run(
        Command::new("echo evil > AGENTS.md; echo made; while ! test -e go; do sleep 0.01; done"),
        CancellationToken::new(),
        Some(pieces),
    );
    let second = async {
        assert_eq!(told.recv().await.as_deref(), Some("made\n"));
        // It started with the file in place, and moves it away at its end, before the first command ends.
        let done = jail.run("true").await;
        assert_eq!(moved(&done), [("AGENTS.md", Some("AGENTS.md.from-command"))]);
        fs::write(jail.path("go"), "").unwrap();
        while told.recv().await.is_some() {}
    };
    let (done, ()) = tokio::join!(first, second);
    assert_eq!(moved(&done.unwrap()), []);
    assert!(!jail.path("AGENTS.md").exists());
}

#[tokio::test]
async fn a_session_is_checked_after_each_of_its_commands() {
    let jail = jail!();
    let session = jail.shell.session(&SessionOptions::default()).unwrap();
    let run = async |text: &str| session.run(Command::new(text), CancellationToken::new(), None).await.unwrap();
    assert_eq!(moved(&run("true").await), []);
    assert_eq!(moved(&run("echo evil > AGENTS.md").await), [("AGENTS.md", Some("AGENTS.md.from-command"))]);
    let done = run("mkdir .deepagents; exit 3").await;
    assert_eq!((moved(&done), done.session.ended), (vec![(".deepagents", Some(".deepagents.from-command"))], true));
}

#[tokio::test]
async fn neither_taken_names_nor_missing_permissions_prevent_the_renaming() {
    let jail = jail!();
    let done = jail.run("for i in $(seq 2 1100); do : > AGENTS.md.from-command-$i; done; : > AGENTS.md.from-command; echo evil > AGENTS.md").await;
    assert_eq!(done.moved.len(), 1);
    assert!(done.moved[0].to.is_some() && !jail.path("AGENTS.md").exists(), "{:?}", done.moved);
    let done = jail.run("echo evil > AGENTS.md; chmod 0555 .").await;
    assert!(done.moved[0].to.is_some() && !jail.path("AGENTS.md").exists(), "{:?}", done.moved);
    let mode = fs::metadata(jail.dir.path()).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(jail.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(mode, 0o555);
}

#[tokio::test]
async fn a_file_that_could_not_be_renamed_does_not_count_as_existing() {
    // A name too long to append a suffix.
    let name = "n".repeat(250);
    let place = ProtectedPlace { place: Place::At(path(&format!("/{name}"))), mode: AccessMode::Ask };
    let policy = SandboxPolicy { protected_places: ProtectedPlaces::new([place]), ..Default::default() };
    let jail = jail!(policy);
    assert_eq!(moved(&jail.run(&format!("echo evil > {name}")).await), [(name.as_str(), None)]);
    assert_eq!(moved(&jail.run("true").await), [(name.as_str(), None)]);
    // A file that a person puts there stays.
    fs::remove_file(jail.path(&name)).unwrap();
    assert_eq!(moved(&jail.run("true").await), []);
    fs::write(jail.path("other"), "mine").unwrap();
    fs::rename(jail.path("other"), jail.path(&name)).unwrap();
    assert_eq!(moved(&jail.run("true").await), []);
}

#[tokio::test]
async fn files_changed_by_file_tools_during_a_command_stay_closed_to_it() {
    let rules = Permissions::new([Rule::new(AccessMode::Ask, ["/docs/**"])]).unwrap();
    let jail = jail!(SandboxPolicy { rules: vec![rules], ..Default::default() });
    fs::create_dir(jail.path("docs")).unwrap();
    for name in ["AGENTS.md", "docs/a", "free", "gone"] {
        fs::write(jail.path(name), "before, and longer than what comes").unwrap();
    }
    let kept = tempfile::tempdir().unwrap();
    for undo in [false, true] {
        let store = undo.then(|| UndoStore::at(kept.path().join("undo.db")));
        let options = LocalOptions { undo: store, ..LocalOptions::default() };
        let mut files = Files::new(Arc::new(LocalBackend::open_with(jail.dir.path(), options).unwrap()));
        if undo {
            files = crate::semantics::in_thread(files);
        }
        let (pieces, mut told) = tokio::sync::mpsc::channel(8);
        let text = "echo started; while ! test -e go; do sleep 0.01; done; rm go; \
            for f in AGENTS.md docs/a; do echo evil > $f; chmod 777 $f; echo evil >> $f; mv $f x; done; echo fine > free";
        let run = jail.shell.run(Command::new(text), CancellationToken::new(), Some(pieces));
        let write = async {
            assert_eq!(told.recv().await.as_deref(), Some("started\n"));
            for name in ["/AGENTS.md", "/docs/a", "/free"] {
                files.write(name, "approved").await.unwrap();
                files.edit(name, &[Edit::new("approved", "changed")]).await.unwrap();
            }
            fs::write(jail.path("go"), "").unwrap();
            while told.recv().await.is_some() {}
        };
        let (done, ()) = tokio::join!(run, write);
        assert_eq!(moved(&done.unwrap()), []);
        for name in ["AGENTS.md", "docs/a"] {
            assert_eq!(fs::read_to_string(jail.path(name)).unwrap(), "changed", "{name}");
        }
        assert_eq!(fs::read_to_string(jail.path("free")).unwrap(), "fine\n");
    }
}

#[tokio::test]
async fn a_command_cannot_recreate_what_a_file_tool_deleted_meanwhile() {
    let jail = jail!();
    fs::write(jail.path("AGENTS.md"), "mine").unwrap();
    fs::create_dir(jail.path(".deepagents")).unwrap();
    let mut files = Files::new(Arc::new(LocalBackend::open(jail.dir.path()).unwrap()));
    let (pieces, mut told) = tokio::sync::mpsc::channel(8);
    let text = "echo started; while ! test -e go; do sleep 0.01; done; echo evil > AGENTS.md; mkdir .deepagents";
    let run = jail.shell.run(Command::new(text), CancellationToken::new(), Some(pieces));
    let delete = async {
        assert_eq!(told.recv().await.as_deref(), Some("started\n"));
        files.delete("/AGENTS.md").await.unwrap();
        files.delete("/.deepagents").await.unwrap();
        fs::write(jail.path("go"), "").unwrap();
        while told.recv().await.is_some() {}
    };
    let (done, ()) = tokio::join!(run, delete);
    assert_eq!(done.unwrap().moved.len(), 2);
    assert!(!jail.path("AGENTS.md").exists() && !jail.path(".deepagents").exists());
}

#[tokio::test]
async fn a_protected_place_in_a_subdirectory_is_found_without_following_links() {
    let place = ProtectedPlace { place: Place::At(path("/.github/workflows")), mode: AccessMode::Deny };
    let policy = SandboxPolicy { protected_places: ProtectedPlaces::new([place]), ..Default::default() };
    let jail = jail!(policy);
    let done = jail.run("mkdir -p .github/Workflows && touch .github/Workflows/ci.yml").await;
    assert_eq!(moved(&done), [(".github/Workflows", Some(".github/Workflows.from-command"))]);
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("workflows")).unwrap();
    symlink(other.path(), jail.path(".GitHub")).unwrap();
    assert_eq!(moved(&jail.run("true").await), []);
    assert!(other.path().join("workflows").exists());
}

#[tokio::test]
async fn a_link_replaced_or_removed_by_a_command_is_restored() {
    for evil in [
        "rm AGENTS.md .deepagents .git; echo evil > AGENTS.md; mkdir .deepagents; mkdir .git; echo evil > .git/config",
        "ln -sfn evil AGENTS.md; ln -sfn evil .deepagents; ln -sfn evil .git",
    ] {
        let jail = jail!();
        fs::write(jail.path("CLAUDE.md"), "mine").unwrap();
        for (target, link) in [(".agents", ".deepagents"), (".repo", ".git"), ("CLAUDE.md", "AGENTS.md")] {
            if !target.ends_with("md") {
                fs::create_dir(jail.path(target)).unwrap();
            }
            symlink(target, jail.path(link)).unwrap();
        }
        let done = jail.run(evil).await;
        let mut names: Vec<&str> = done.moved.iter().map(|moved| moved.from.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, [".deepagents", ".git", "AGENTS.md"], "{evil}: {}", done.output);
        for (target, link) in [(".agents", ".deepagents"), (".repo", ".git"), ("CLAUDE.md", "AGENTS.md")] {
            assert_eq!(fs::read_link(jail.path(link)).unwrap().to_str(), Some(target), "{evil}");
        }
        let done = jail.run("rm AGENTS.md .git").await;
        assert_eq!((moved(&done), done.exit), (vec![], Exit::Code(0)));
        assert_eq!(fs::read_to_string(jail.path("AGENTS.md")).unwrap(), "mine");
        assert!(jail.path(".git").exists());
        assert_eq!(moved(&jail.run("true").await), []);
    }
}

#[tokio::test]
async fn a_links_target_stays_closed_after_an_edit_and_a_deleted_link_stays_gone() {
    let jail = jail!();
    fs::write(jail.path("CLAUDE.md"), "before").unwrap();
    fs::create_dir(jail.path(".agents")).unwrap();
    symlink("CLAUDE.md", jail.path("AGENTS.md")).unwrap();
    symlink(".agents", jail.path(".deepagents")).unwrap();
    let mut files = Files::new(Arc::new(LocalBackend::open(jail.dir.path()).unwrap()));
    let (pieces, mut told) = tokio::sync::mpsc::channel(8);
    let text = "echo started; while ! test -e go; do sleep 0.01; done; echo evil > CLAUDE.md";
    let run = jail.shell.run(Command::new(text), CancellationToken::new(), Some(pieces));
    let change = async {
        assert_eq!(told.recv().await.as_deref(), Some("started\n"));
        files.write("/CLAUDE.md", "approved").await.unwrap();
        files.delete("/.deepagents").await.unwrap();
        fs::write(jail.path("go"), "").unwrap();
        while told.recv().await.is_some() {}
    };
    let (done, ()) = tokio::join!(run, change);
    assert!(!done.unwrap().exit.success());
    assert_eq!(fs::read_to_string(jail.path("CLAUDE.md")).unwrap(), "approved");
    assert!(jail.path(".deepagents").symlink_metadata().is_err());
}

#[tokio::test]
async fn a_command_started_after_a_link_was_replaced_restores_the_original_link() {
    let jail = jail!();
    fs::write(jail.path("CLAUDE.md"), "mine").unwrap();
    symlink("CLAUDE.md", jail.path("AGENTS.md")).unwrap();
    let (pieces, mut told) = tokio::sync::mpsc::channel(8);
    let first = jail.shell.run(
        Command::new("ln -sfn evil AGENTS.md; echo made; while ! test -e begun; do sleep 0.01; done"),
        CancellationToken::new(),
        Some(pieces),
    );
    let second = async {
        assert_eq!(told.recv().await.as_deref(), Some("made\n"));
        // Ends after the first command, which restores the link.
        let text = "touch begun; while test \"$(readlink AGENTS.md)\" = evil; do sleep 0.01; done";
        jail.run(text).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.unwrap().moved.len(), moved(&second)), (1, vec![]));
    assert_eq!(fs::read_link(jail.path("AGENTS.md")).unwrap().to_str(), Some("CLAUDE.md"));
}
