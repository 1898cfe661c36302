//! Commands that display something, and commands that send prepared messages.

use std::process::Command;

use deepagents::models::scripted::Turn;
use deepagents_tui::{Mode, Offered};

use crate::world::{World, say};

impl World {
    /// Runs git in the directory. Returns whether it succeeded.
    fn git(&self, args: &[&str]) -> bool {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(args).current_dir(self.dir.path());
        git.output().is_ok_and(|output| output.status.success())
    }
}

#[tokio::test]
async fn uncommitted_changes_are_shown_including_new_files() {
    let world = World::new([]);
    if !(world.git(&["init", "-q"]) && world.git(&["add", "."]) && world.git(&["commit", "-qm", "first"])) {
        return deepagents_testing::skip::skip("git", "it cannot be run");
    }
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("nothing has changed").await, "{}", screens.text());
    std::fs::write(world.dir.path().join("notes.txt"), "alpha\nBETA\ngamma\n").unwrap();
    std::fs::write(world.dir.path().join("fresh.txt"), "new\n").unwrap();
    // Repository settings that name programs, none of which may run.
    let ran = world.dir.path().join(".git/ran");
    let hostile = format!("touch {}", ran.display());
    for setting in ["core.fsmonitor", "diff.external", "core.pager", "diff.text.textconv"] {
        world.git(&["config", setting, &hostile]);
    }
    std::fs::write(world.dir.path().join(".git/info/attributes"), "*.txt diff=text\n").unwrap();
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("fresh.txt").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("-beta") && text.contains("+BETA"), "{text}");
    assert!(!ran.exists());
}

#[tokio::test]
async fn showing_changes_runs_no_filters_or_hooks_of_the_repository() {
    let world = World::new([]);
    let sub = world.dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(sub.join("x"), "x\n").unwrap();
    let in_sub = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(args).current_dir(&sub);
        git.output().is_ok_and(|output| output.status.success())
    };
    if !(world.git(&["init", "-q"])
        && in_sub(&["init", "-q"])
        && in_sub(&["add", "."])
        && in_sub(&["commit", "-qm", "first"])
        && world.git(&["add", "."])
        && world.git(&["commit", "-qm", "first"]))
    {
        return deepagents_testing::skip::skip("git", "it cannot be run");
    }
    let ran = world.dir.path().join(".git/ran");
    let hostile = format!("touch {}; cat", ran.display());
    for setting in ["filter.a.clean", "filter.B.c.process", "filter.b.smudge"] {
        assert!(world.git(&["config", setting, &hostile]));
    }
    assert!(world.git(&["config", "filter.a.required", "true"]) && world.git(&["config", "core.hooksPath", "hooks"]));
    assert!(in_sub(&["config", "core.fsmonitor", &hostile]) && in_sub(&["config", "filter.a.clean", &hostile]));
    for (name, text) in [
        ("hooks/post-index-change", format!("#!/bin/sh\n{hostile}\n")),
        (".gitattributes", "notes.txt filter=a\nother.txt filter=B.c\n".to_owned()),
        ("sub/.gitattributes", "* filter=a\n".to_owned()),
        ("notes.txt", "alpha\nBETA\ngamma\n".to_owned()),
        ("sub/x", "y\n".to_owned()),
    ] {
        let path = world.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(world.dir.path().join("hooks/post-index-change"), executable).unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("+BETA").await, "{}", screens.text());
    assert!(!ran.exists());
}

#[tokio::test]
async fn changes_are_not_shown_if_a_filter_has_a_name_that_cannot_be_given_to_git() {
    let world = World::new([]);
    if !(world.git(&["init", "-q"]) && world.git(&["add", "."]) && world.git(&["commit", "-qm", "first"])) {
        return deepagents_testing::skip::skip("git", "it cannot be run");
    }
    let (ran, config) = (world.dir.path().join(".git/ran"), world.dir.path().join(".git/config"));
    let clean = format!("\"]\n\tclean = \"touch {}; cat\"\n", ran.display());
    let filter = [&std::fs::read(&config).unwrap(), b"[filter \"\xff".as_slice(), clean.as_bytes()].concat();
    std::fs::write(&config, filter).unwrap();
    std::fs::write(world.dir.path().join(".gitattributes"), b"notes.txt filter=\xff\n").unwrap();
    std::fs::write(world.dir.path().join("notes.txt"), "alpha\nBETA\ngamma\n").unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("filters with names").await, "{}", screens.text());
    assert!(!ran.exists());
}

#[tokio::test]
async fn changes_are_shown_however_much_git_warns() {
    let world = World::new([]);
    // The warnings about line endings fill a pipe.
    let files: Vec<_> = (0..500).map(|at| world.dir.path().join(format!("f{at:0100}"))).collect();
    let write = |text: &str| files.iter().for_each(|file| std::fs::write(file, text).unwrap());
    write("alpha\n");
    if !(world.git(&["init", "-q"]) && world.git(&["add", "."]) && world.git(&["commit", "-qm", "first"])) {
        return deepagents_testing::skip::skip("git", "it cannot be run");
    }
    write("BETA\r\n");
    assert!(world.git(&["config", "core.autocrlf", "input"]));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("+BETA").await, "{}", screens.text());
}

#[tokio::test]
async fn the_diff_command_explains_a_missing_repository() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/diff").await;
    assert!(screens.wait_for("git ").await, "{}", screens.text());
}

#[tokio::test]
async fn memory_notes_are_shown_and_written_by_the_model() {
    let world = World::new([Turn::text("Noted."), Turn::text("Noted all."), Turn::text("Written.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/memory").await;
    assert!(screens.wait_for("there are no notes").await, "{}", screens.text());
    say(&mut screens, "/remember the mast is green").await;
    assert!(screens.wait_for("Noted.").await && screens.wait_idle().await);
    assert!(world.told().contains("AGENTS.md") && world.told().contains("the mast is green"), "{}", world.told());
    say(&mut screens, "/remember").await;
    assert!(screens.wait_for("Noted all.").await && screens.wait_idle().await);
    assert!(world.told().contains("what of this conversation is worth it"));
    say(&mut screens, "/init").await;
    assert!(screens.wait_for("Written.").await && screens.wait_idle().await);
    assert!(world.told().contains("how it is built, tested and run"), "{}", world.told());
}

#[tokio::test]
async fn untrusted_notes_are_listed_with_how_to_trust_them() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/memory").await;
    assert!(screens.wait_for("there are no notes").await, "{}", screens.text());
    // As written by `/init`.
    let notes = Offered { kind: "memory".to_owned(), name: "AGENTS.md".to_owned(), ..Offered::default() };
    *world.offered.lock().unwrap() = vec![Offered { text: "Build it with make.".to_owned(), ..notes }];
    say(&mut screens, "/memory").await;
    assert!(screens.wait_for("(not used until you agree: /trust)").await, "{}", screens.text());
    say(&mut screens, "/trust").await;
    assert!(screens.wait_for("Build it with make.").await, "{}", screens.text());
}

#[tokio::test]
async fn a_review_covers_the_named_files_or_the_uncommitted_changes() {
    let world = World::new([Turn::text("Fine."), Turn::text("Good.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/review").await;
    assert!(screens.wait_for("Fine.").await && screens.wait_idle().await);
    assert!(world.told().contains("Review the changes that are not committed yet."));
    say(&mut screens, "/review src/main.py").await;
    assert!(screens.wait_for("Good.").await && screens.wait_idle().await);
    assert!(world.told().contains("Review src/main.py."));
}

#[tokio::test]
async fn status_sandbox_keys_and_background_can_be_shown() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/status").await;
    assert!(screens.wait_for("model      scripted").await, "{}", screens.text());
    assert!(screens.text().contains("mode       ask"), "{}", screens.text());
    say(&mut screens, "/sandbox").await;
    assert!(screens.wait_for("unconfined").await, "{}", screens.text());
    say(&mut screens, "/keys").await;
    assert!(screens.wait_for("begin a new line").await, "{}", screens.text());
    assert!(screens.text().contains("Ctrl+B"), "{}", screens.text());
    say(&mut screens, "/background").await;
    assert!(screens.wait_for("there is nothing to move to the background").await, "{}", screens.text());
    say(&mut screens, "/mode plan").await;
    say(&mut screens, "/mode").await;
    assert!(screens.wait_for("plan; Shift+Tab").await, "{}", screens.text());
    say(&mut screens, "/mode fast").await;
    assert!(screens.wait_for("there is no mode `fast`").await, "{}", screens.text());
}

#[tokio::test]
async fn a_directorys_own_files_are_used_only_after_consent() {
    let world = World::new([]);
    let offered = |kind: &str, name: &str| Offered {
        kind: kind.to_owned(),
        name: name.to_owned(),
        about: "Sails the ship.".to_owned(),
        text: "You are a sailor.".to_owned(),
    };
    *world.offered.lock().unwrap() = vec![offered("sub-agent", "sailor"), offered("command", "reef")];
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/agents").await;
    assert!(screens.wait_for("not used until you agree").await, "{}", screens.text());
    say(&mut screens, "/reef").await;
    assert!(screens.wait_for("it can be used once you agree with /trust").await, "{}", screens.text());
    say(&mut screens, "/trust").await;
    assert!(screens.wait_for("You are a sailor.").await, "{}", screens.text());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("in use from now on").await, "{}", screens.text());
    assert!(!screens.text().contains("settings from the next start"), "{}", screens.text());
    assert!(world.offered.lock().unwrap().is_empty());
    *world.offered.lock().unwrap() = vec![offered("config", "config.toml")];
    say(&mut screens, "/trust").await;
    assert!(screens.wait_for("config config.toml").await, "{}", screens.text());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("in use from now on; settings from the next start").await, "{}", screens.text());
    say(&mut screens, "/trust").await;
    assert!(screens.wait_for("there is nothing left to decide about").await, "{}", screens.text());
}

#[tokio::test]
async fn a_directorys_own_files_can_be_read_in_full_before_consent() {
    let world = World::new([]);
    let offered = |at: usize| Offered {
        kind: "skill".to_owned(),
        name: format!("s{at:02}"),
        about: "Sails.".to_owned(),
        text: format!("text number {at} {}", "x".repeat(60)),
    };
    *world.offered.lock().unwrap() = (0..30).map(offered).collect();
    let mut screens = world.screens(Mode::Ask);
    screens.resize(60, 14).await;
    say(&mut screens, "/trust").await;
    assert!(screens.wait_until_live("y allow them · n not now · Ctrl+O").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("text number 29"));
    screens.press("pgdn").await.unwrap();
    assert!(screens.live().join("\n").contains("skill s00"), "it is read from its beginning: {:?}", screens.live());
    assert!(screens.live().iter().any(|line| line.starts_with("      xxx")), "no line looks like another entry");
    screens.press("end").await.unwrap();
    let live = screens.live().join("\n");
    assert!(live.contains("text number 29") && live.contains("y allow them · n not now"), "{live}");
    screens.press("ctrl-o").await.unwrap();
    assert!(screens.live().join("\n").contains("y allow them"), "{:?}", screens.live());
    // What the consent covers, the keys, and where to see the rest are visible on any screen.
    for (columns, rows) in [(20, 5), (10, 4)] {
        screens.resize(columns, rows).await;
        let live = screens.live().join("\n");
        assert!(live.contains("y n Ctrl+O"), "{columns}x{rows}: {live}");
        assert_eq!(live.contains("skill") && live.contains("lines"), columns == 20, "{columns}x{rows}: {live}");
    }
    screens.resize(60, 14).await;
    screens.press("ctrl-o end y").await.unwrap();
    assert!(screens.wait_for("in use from now on").await, "{}", screens.text());
    assert!(world.offered.lock().unwrap().is_empty());
}
