//! What a sandbox protects in the workspace and on the host: repositories, agent settings, devices, disk space.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use deepagents_fs::permissions::{AccessMode, Permissions, ProtectedPlaces, Rule};
use deepagents_fs::sandbox::{Git, Level, Network, SandboxPolicy};
use deepagents_fs::shell::Exit;
use deepagents_fs::shell::{Command, Confinement, LocalShell, Shell, ShellError};
use deepagents_testing::skip::skip;
use tokio_util::sync::CancellationToken;

use crate::sandbox::{Jail, has, jail, sandbox};
use crate::suite::p as path;

#[tokio::test]
async fn a_repository_can_be_read_but_not_changed_by_default() {
    let jail = jail!();
    fs::create_dir_all(jail.path(".git/hooks")).unwrap();
    fs::write(jail.path(".git/config"), "mine").unwrap();
    for text in [
        "echo evil > .git/hooks/pre-commit",
        "echo evil > .git/config",
        "echo evil > .git/commondir",
        "mv .git .git2",
        "rm -rf .git",
        "ln -sf /tmp .git/hooks",
        "chmod 777 .git/config",
    ] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert_eq!(jail.run("cat .git/config").await.output, "mine");
    assert_eq!(fs::read_dir(jail.path(".git/hooks")).unwrap().count(), 0);
    assert!(!jail.path(".git/commondir").exists());
}

#[tokio::test]
async fn a_setting_of_git_that_names_what_no_file_can_be_called_closes_nothing_else() {
    let jail = jail!();
    fs::create_dir(jail.path(".git")).unwrap();
    fs::write(jail.path(".git/config"), format!("[core]\n\thooksPath = {}\n", "x".repeat(300))).unwrap();
    assert!(jail.run("echo mine > other").await.exit.success());
    assert!(!jail.run("echo evil > .git/config").await.exit.success());
}

#[tokio::test]
async fn anything_git_treats_as_a_repository_is_guarded_whatever_its_name() {
    let jail = jail!();
    assert!(
        jail.run("mkdir -p a/bare.git/objects a/bare.git/refs && cd a/bare.git && touch HEAD config")
            .await
            .exit
            .success()
    );
    for text in ["echo evil > a/bare.git/config", "mkdir a/bare.git/hooks", "mv a b", "mv a/bare.git a/x"] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert!(jail.run("touch a/fine").await.exit.success());
    assert_eq!(fs::read_to_string(jail.path("a/bare.git/config")).unwrap(), "");
}

#[tokio::test]
async fn linked_repositories_and_a_repository_at_the_root_are_guarded() {
    let jail = jail!();
    assert!(jail.run("mkdir tree && cd tree && echo ref: x > HEAD && echo .. > commondir").await.exit.success());
    assert!(!jail.run("echo evil > tree/commondir").await.exit.success());
    assert!(jail.run("mkdir objects refs && touch HEAD config").await.exit.success());
    for text in ["echo evil > config", "mkdir hooks", "rm HEAD", "touch other"] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert_eq!(fs::read_to_string(jail.path("config")).unwrap(), "");
}

#[tokio::test]
async fn closing_a_directory_does_not_unprotect_the_files_in_it() {
    let rules = [Rule::new(AccessMode::Deny, ["/d/secret"]), Rule::new(AccessMode::Ask, ["/d/docs"])];
    let rules = Permissions::new(rules).unwrap();
    let jail = jail!(SandboxPolicy { rules: vec![rules], ..Default::default() });
    fs::create_dir_all(jail.path("d/.git/hooks")).unwrap();
    for (name, text) in [("d/secret", "s3cret"), ("d/docs", "mine"), ("d/.git/config", "mine")] {
        fs::write(jail.path(name), text).unwrap();
    }
    // A foreign group, so that the process that builds the sandbox has no group rights.
    let group = fs::metadata(jail.path("d")).unwrap().gid();
    if std::os::unix::fs::chown(jail.path("d"), None, Some(group + 1234)).is_err() {
        return skip("another group", "this user may not give files to one");
    }
    for closed in ["chmod 000 d", "chmod 700 d; chmod 400 d", "chmod 700 d; chmod 100 d"] {
        jail.run(closed).await;
        let done =
            jail.run("chmod 755 d; cat d/secret; echo evil > d/docs; echo evil > d/.git/config; mv d e; ls d e").await;
        assert!(!done.output.contains("s3cret"), "{closed}: {}", done.output);
        fs::set_permissions(jail.path("d"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read_to_string(jail.path("d/docs")).unwrap(), "mine", "{closed}");
        assert_eq!(fs::read_to_string(jail.path("d/.git/config")).unwrap(), "mine", "{closed}");
    }
    assert!(jail.run("touch d/fine").await.exit.success());
}

#[tokio::test]
async fn with_commits_allowed_hooks_and_configuration_stay_protected() {
    let jail = jail!(SandboxPolicy { git: Git::Commits, ..Default::default() });
    fs::create_dir_all(jail.path(".git/objects")).unwrap();
    fs::write(jail.path(".git/config"), "mine").unwrap();
    for text in [
        // The directory of hooks did not exist before.
        "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "echo evil > .git/config",
        "rm .git/config",
        "mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/hooks .git/other; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    ] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert_eq!(fs::read_to_string(jail.path(".git/config")).unwrap(), "mine");
    assert_eq!(fs::read_dir(jail.path(".git/hooks")).unwrap().count(), 0);
    assert!(
        jail.run("echo x > .git/index.lock && mv .git/index.lock .git/index && rm .git/index").await.exit.success()
    );
}

#[tokio::test]
async fn git_can_commit_in_the_sandbox_when_allowed() {
    if !has("git") {
        return;
    }
    if fs::File::open("/dev/urandom").is_err() {
        return skip("devices", "git takes names at random from one that is closed to this user");
    }
    let jail = jail!(SandboxPolicy { git: Git::Commits, ..Default::default() });
    let git = "git -c user.name=a -c user.email=a@example.invalid";
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(jail.dir.path()).status().unwrap();
    assert!(made.success());
    let done =
        jail.run(&format!("echo x > f && git add f && {git} commit -qm first && git log --oneline | wc -l")).await;
    assert_eq!((done.exit, done.output.trim()), (Exit::Code(0), "1"), "{}", done.output);
}

#[tokio::test]
async fn protected_paths_stay_unchanged_and_hidden_ones_unreadable() {
    let policy = SandboxPolicy {
        protected: vec![path("/a/b/keep")],
        hidden: vec![path("/.env"), path("/a/vault")],
        ..Default::default()
    };
    let jail = jail!(policy);
    fs::create_dir_all(jail.path("a/b")).unwrap();
    fs::create_dir_all(jail.path("a/vault")).unwrap();
    for (name, text) in [("a/b/keep", "kept"), (".env", "SECRET"), ("a/vault/k", "SECRET")] {
        fs::write(jail.path(name), text).unwrap();
    }
    let done = jail.run("echo x > a/b/keep; rm -f a/b/keep; mv a c; mv a/b a/c; mv a/b/keep k; cat a/b/keep").await;
    assert!(done.output.ends_with("kept"), "{}", done.output);
    let done =
        jail.run("chmod 777 .env a/vault; cat .env a/vault/k; ls a/vault; mv .env e; mv a/vault v; cat e v/k").await;
    assert!(!done.output.contains("SECRET") && !done.exit.success(), "{}", done.output);
    for (name, text) in [("a/b/keep", "kept"), (".env", "SECRET"), ("a/vault/k", "SECRET")] {
        assert_eq!(fs::read_to_string(jail.path(name)).unwrap(), text);
    }
    // A hard link to a protected file would bypass its protection.
    jail.run("ln a/b/keep k2; echo x > k2; mv a/b/keep /tmp/k").await;
    assert_eq!(fs::read_to_string(jail.path("a/b/keep")).unwrap(), "kept");
    // Paths that do not exist need no protection.
    assert!(jail.run("echo x > new").await.exit.success());
}

#[tokio::test]
async fn nested_repositories_and_files_that_steer_the_agent_are_read_only() {
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join(".git")).unwrap();
    let jail = jail!(SandboxPolicy { writable: vec![other.path().into()], ..Default::default() });
    for (name, text) in [
        ("lib/deep/.git/config", "mine"),
        ("lib/deep/.git/hooks/pre-commit", "mine"),
        ("other/.hg/hgrc", "mine"),
        ("other/.jj/repo/x", "mine"),
        ("AGENTS.md", "mine"),
        ("agents.MD", "mine"),
        (".DeepAgents/agents/a.md", "mine"),
        (".deepagents/agents/a.md", "mine"),
        ("module/.git", "gitdir: ../modules/module"),
        ("modules/module/config", "mine"),
    ] {
        fs::create_dir_all(jail.path(name).parent().unwrap()).unwrap();
        fs::write(jail.path(name), text).unwrap();
    }
    for text in [
        "echo evil > lib/deep/.git/config".to_owned(),
        "echo evil > lib/deep/.git/hooks/post-checkout".to_owned(),
        "rm -rf lib".to_owned(),
        "mv lib/deep lib/shallow".to_owned(),
        "mv lib lib2".to_owned(),
        "echo evil > other/.hg/hgrc".to_owned(),
        "touch other/.jj/new".to_owned(),
        "echo evil > AGENTS.md".to_owned(),
        "rm AGENTS.md".to_owned(),
        "echo evil > agents.MD".to_owned(),
        "echo evil > .DeepAgents/agents/b.md".to_owned(),
        "mv .DeepAgents old".to_owned(),
        "echo evil > .deepagents/agents/b.md".to_owned(),
        "mv .deepagents old".to_owned(),
        "echo evil > module/.git".to_owned(),
        "echo evil > modules/module/config".to_owned(),
        format!("touch {}/.git/x", other.path().display()),
    ] {
        assert!(!jail.run(&text).await.exit.success(), "{text}");
    }
    assert_eq!(jail.run("cat lib/deep/.git/config AGENTS.md").await.output, "minemine");
    assert_eq!(fs::read_to_string(jail.path("modules/module/config")).unwrap(), "mine");
    // Everything next to them stays writable.
    assert!(jail.run("echo x > lib/deep/f && rm lib/deep/f && mkdir new && rmdir new").await.exit.success());
}

#[tokio::test]
async fn a_repository_created_by_a_command_is_protected_from_the_next() {
    let jail = jail!();
    assert!(jail.run("mkdir -p a/.git/hooks .git && echo x > a/.git/config").await.exit.success());
    for text in ["echo evil > a/.git/config", "echo evil > .git/config", "rm -r a", "echo evil > a/.git/hooks/x"] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert_eq!(fs::read_to_string(jail.path("a/.git/config")).unwrap(), "x\n");
    let free = jail!(SandboxPolicy { protected_places: ProtectedPlaces::none(), ..Default::default() });
    assert!(free.run("mkdir .git").await.exit.success() && free.run("echo x > .git/config").await.exit.success());
}

#[tokio::test]
async fn a_link_in_place_of_a_guarded_path_blocks_nothing_and_its_target_is_guarded() {
    let policy =
        SandboxPolicy { protected: vec![path("/keep/file")], hidden: vec![path("/.env")], ..Default::default() };
    let jail = jail!(policy);
    for (target, name) in [("/tmp", ".git"), ("nowhere", "sub/.git"), (".git", "loop/.git"), ("../..", "up/.git")] {
        fs::create_dir_all(jail.path(name).parent().unwrap()).unwrap();
        symlink(target, jail.path(name)).unwrap();
    }
    let done = jail.run("echo fine; ln -sfn /tmp .git; ln -s /tmp .hg").await;
    assert_eq!((done.exit, done.output.as_str()), (Exit::Code(0), "fine\n"));
    assert_eq!(jail.run("echo still").await.output, "still\n");

    fs::create_dir_all(jail.path("store/repo")).unwrap();
    fs::create_dir_all(jail.path("store/keep")).unwrap();
    for name in ["store/repo/config", "store/keep/file", "store/env"] {
        fs::write(jail.path(name), "mine").unwrap();
    }
    for (target, name) in [("../store/repo", "lib/.git"), ("store/keep", "keep"), ("store/env", ".env")] {
        fs::create_dir_all(jail.path(name).parent().unwrap()).unwrap();
        symlink(target, jail.path(name)).unwrap();
    }
    for text in ["echo evil > store/repo/config", "echo evil > store/keep/file", "cat store/env", "mv store old"] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert!(jail.run("echo x > store/keep/other").await.exit.success());
    assert_eq!(fs::read_to_string(jail.path("store/repo/config")).unwrap(), "mine");
}

#[tokio::test]
async fn host_devices_can_be_used_but_not_changed() {
    use std::os::unix::fs::MetadataExt;
    let jail = jail!();
    let facts = || {
        ["null", "zero", "full", "random", "urandom"].map(|name| {
            let found = fs::metadata(Path::new("/dev").join(name)).unwrap();
            (found.mode(), found.uid(), found.gid(), found.mtime(), found.mtime_nsec())
        })
    };
    let before = facts();
    let text = "for d in null zero full random urandom; do \
                chmod 600 /dev/$d && echo changed; touch -d 2001-01-01 /dev/$d && echo touched; \
                chgrp 1 /dev/$d && echo given; rm -f /dev/$d && echo removed; done";
    let done = jail.run(text).await;
    let changed =
        ["changed", "touched", "given", "removed"].iter().any(|word| done.output.lines().any(|line| line == *word));
    assert!(!changed, "{}", done.output);
    assert_eq!(facts(), before);
    if ["zero", "full", "urandom"].iter().any(|name| fs::File::open(Path::new("/dev").join(name)).is_err()) {
        return skip("devices", "they are closed to this user");
    }
    let used = jail.run("echo x > /dev/null && head -c 3 /dev/zero | wc -c && head -c 1 /dev/urandom | wc -c").await;
    assert_eq!(used.output.split_whitespace().collect::<Vec<_>>(), ["3", "1"]);
    assert!(!jail.run("echo x > /dev/full").await.exit.success());
}

#[tokio::test]
async fn host_information_in_proc_is_hidden() {
    let jail = jail!();
    let text = "for f in keys key-users kallsyms kpageflags slabinfo timer_list vmallocinfo; do \
                head -c 9 /proc/$f | grep -q . && echo read $f; done; true";
    let done = jail.run(text).await;
    assert!(!done.output.contains("read "), "{}", done.output);
    assert!(jail.run("cat /proc/meminfo /proc/cpuinfo /proc/self/status > /dev/null").await.exit.success());
}

#[tokio::test]
async fn disk_space_cannot_be_allocated_in_one_call() {
    if !has("perl") {
        return;
    }
    let jail = jail!();
    if std::env::consts::ARCH != "x86_64" {
        skip("x86_64", "the numbers of the calls are those of x86_64");
        return;
    }
    let text = r#"cat > try.pl <<'PERL'
open(F, '+>', 'f') or die; print F "x" x 8192; $| = 1; my $fd = fileno(F);
sub say_it { my ($name, $r) = @_; print "$name: ", ($r == -1 ? $!+0 : "done"), "
"; }
say_it("allocate", syscall(285, $fd, 0, 0, 1 << 28));
say_it("keep size", syscall(285, $fd, 1, 0, 1 << 28));
say_it("zero", syscall(285, $fd, 16, 0, 1 << 28));
say_it("punch", syscall(285, $fd, 3, 0, 4096));
my $space = pack("s s x4 q q l L l4", 0, 0, 0, 1 << 28, 0, 0, 0, 0, 0, 0);
for my $request (0x40305828, 0x4030582A, 0x40305839) {
  say_it("ioctl", syscall(16, $fd, $request, $space));
}
PERL
perl try.pl"#;
    let done = jail.run(text).await;
    assert_eq!(done.output, "allocate: 95\nkeep size: 95\nzero: 95\npunch: done\nioctl: 95\nioctl: 95\nioctl: 95\n");
}

#[tokio::test]
async fn commands_refuse_to_run_in_a_replaced_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("outer/nested");
    fs::create_dir_all(&root).unwrap();
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    let report = sandbox().probe();
    if report.level == Level::None {
        skip("sandbox", report);
        return;
    }
    let shell = LocalShell::open(&root, Confinement::sandboxed()).unwrap().sandbox(sandbox());
    let run = || shell.run(Command::new("echo x > planted"), CancellationToken::new(), None);
    assert!(run().await.unwrap().exit.success());
    fs::rename(&root, dir.path().join("outer/old")).unwrap();
    // Replaced by a link, and by another directory.
    symlink(dir.path().join("elsewhere"), &root).unwrap();
    run().await.unwrap_err();
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    let error = run().await.unwrap_err();
    assert!(matches!(&error, ShellError::Directory { reason, .. } if reason.contains("not the directory")), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("elsewhere")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[tokio::test]
async fn files_git_runs_or_includes_are_read_only_and_new_ones_are_renamed() {
    let jail = jail!();
    for name in [".git", ".husky/_", "tools", "more", "sub/.git", "sub/hooks"] {
        fs::create_dir_all(jail.path(name)).unwrap();
    }
    fs::write(jail.path(".git/config"), crate::protected::SETTINGS).unwrap();
    fs::write(jail.path("sub/.git/config"), "[core]\n\thooksPath = hooks\n").unwrap();
    for name in ["tools/clean.sh", ".husky/pre-commit", "more/settings"] {
        fs::write(jail.path(name), "mine").unwrap();
    }
    for text in [
        "echo evil > .husky/pre-commit",
        "touch .husky/post-commit",
        "mv .husky h",
        "echo evil > tools/clean.sh",
        "rm more/settings",
        "touch sub/hooks/pre-commit",
    ] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    let done = jail.run("echo evil > .gitconfig; touch tools/other").await;
    assert_eq!(done.moved.iter().map(|moved| moved.from.as_str()).collect::<Vec<_>>(), [".gitconfig"]);
    assert!(!jail.path(".gitconfig").exists());
    let free = jail!(SandboxPolicy { git: Git::Writable, ..Default::default() });
    fs::create_dir(free.path(".git")).unwrap();
    fs::write(free.path(".git/config"), crate::protected::SETTINGS).unwrap();
    assert_eq!(free.run("echo mine > .gitconfig").await.moved, []);
}

#[tokio::test]
async fn programs_of_git_settings_that_do_not_exist_yet_are_renamed_when_a_command_creates_them() {
    let jail = jail!();
    fs::create_dir(jail.path(".git")).unwrap();
    let settings = "[core]\n\tsshCommand = ./ssh.sh -v\n\tfsmonitor = sh fs\n\tpager = python3 -m tools.pager\n\
        [remote \"o\"]\n\tuploadpack = ./up\n[submodule \"z\"]\n\tupdate = !sh su.sh\n";
    fs::write(jail.path(".git/config"), settings).unwrap();
    let names = ["fs", "ssh.sh", "su.sh", "tools/pager.py", "up"];
    let done = jail.run(&format!("mkdir tools; for f in {} other; do echo evil > $f; done", names.join(" "))).await;
    let mut moved: Vec<_> = done.moved.iter().map(|moved| moved.from.as_str()).collect();
    moved.sort_unstable();
    assert_eq!(moved, names, "{}", done.output);
    assert!(names.iter().all(|name| !jail.path(name).exists()) && jail.path("other").exists());
}

#[tokio::test]
async fn targets_of_a_repositorys_links_and_hooks_are_read_only_for_commands() {
    let jail = jail!();
    crate::protected::linked_repository(jail.dir.path());
    fs::create_dir_all(jail.path(".deepagents")).unwrap();
    fs::create_dir_all(jail.path("share/agents")).unwrap();
    symlink("../share/agents", jail.path(".deepagents/agents")).unwrap();
    symlink("../NOTES.md", jail.path(".deepagents/AGENTS.md")).unwrap();
    for name in [
        "gitconfig",
        "scripts/linked.sh",
        "scripts/check",
        "scripts/husky.sh",
        ".husky/pre-commit",
        "share/agents/a.md",
    ] {
        let done = jail.run(&format!("echo evil > {name}")).await;
        assert!(!done.exit.success(), "{name}");
    }
    let done = jail
        .run("echo x >> Cargo.toml; echo x > scripts/new.sh; mkdir tools; echo evil > tools/fsm; echo evil > NOTES.md")
        .await;
    assert!(done.exit.success(), "{done:?}");
    let mut moved: Vec<&str> = done.moved.iter().map(|moved| moved.from.as_str()).collect();
    moved.sort_unstable();
    assert_eq!(moved, ["NOTES.md", "tools/fsm"]);
    assert!(
        jail.path("scripts/new.sh").exists() && !jail.path("tools/fsm").exists() && !jail.path("NOTES.md").exists()
    );
}

#[tokio::test]
async fn what_a_repository_around_the_workspace_runs_is_read_only_for_commands() {
    let Some(jail) = Jail::new(SandboxPolicy::default()) else { return };
    let root = crate::protected::repository_around(&jail.dir.path().canonicalize().unwrap());
    let open = |policy| LocalShell::open(&root, Confinement::Sandboxed(policy)).unwrap().sandbox(sandbox());
    let text = "echo evil > hooks/pre-commit; echo evil > tools/check; echo evil > fsm; echo fine > tools/other";
    let run = async |shell: LocalShell| shell.run(Command::new(text), CancellationToken::new(), None).await.unwrap();
    let done = run(open(SandboxPolicy::default())).await;
    assert_eq!(done.moved.iter().map(|moved| moved.from.as_str()).collect::<Vec<_>>(), ["fsm"], "{}", done.output);
    assert!(!root.join("hooks/pre-commit").exists() && !root.join("fsm").exists());
    assert_eq!(fs::read_to_string(root.join("tools/check")).unwrap(), "#!/bin/sh\n");
    assert_eq!(fs::read_to_string(root.join("tools/other")).unwrap(), "fine\n");
    let free = run(open(SandboxPolicy { git: Git::Writable, ..Default::default() })).await;
    assert_eq!((free.output.as_str(), free.moved), ("", vec![]));
}

#[tokio::test]
async fn a_repository_whose_path_is_too_long_to_be_named_is_read_only_and_blocks_no_command() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    let jail = jail!();
    let root = jail.dir.path().canonicalize().unwrap();
    let open = |at: &rustix::fd::OwnedFd, name: &str| {
        mkdirat(at, name, Mode::RWXU).unwrap();
        openat(at, name, OFlags::DIRECTORY, Mode::empty()).unwrap()
    };
    // The system takes paths of up to 4095 bytes.
    let (mut left, mut go_there) = (4094 - root.as_os_str().len(), String::new());
    let mut at = openat(CWD, &root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    while left > 0 {
        // No component is empty.
        let length = if left > 201 { 199 } else { left - 1 };
        let name = "d".repeat(length);
        at = open(&at, &name);
        go_there += &format!("cd {name}; ");
        left -= length + 1;
    }
    let git = open(&at, ".git");
    let done = jail.run(&format!("echo fine; {go_there} echo evil > .git/config")).await;
    assert!(done.output.starts_with("fine\n") && !done.exit.success(), "{}", done.output);
    assert!(openat(&git, "config", OFlags::RDONLY, Mode::empty()).is_err());
}

#[tokio::test]
async fn git_settings_that_include_themselves_do_not_block_commands() {
    let jail = jail!();
    fs::create_dir_all(jail.path(".git")).unwrap();
    fs::create_dir_all(jail.path("sub/.git")).unwrap();
    for name in [".git/config", "sub/.git/config"] {
        fs::write(jail.path(name), "[include]\n\tpath = config\n".repeat(100)).unwrap();
    }
    assert!(jail.run("true").await.exit.success());
}

#[tokio::test]
async fn host_sockets_are_unreachable_and_stale_ones_are_removed() {
    let jail = jail!();
    if !has("python3") {
        return;
    }
    let _listens = std::os::unix::net::UnixListener::bind(jail.path("host.sock")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(jail.path("old.sock")).unwrap());
    let connect = |name: &str| {
        format!(
            "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{name}\"); print(\"reached\")'"
        )
    };
    let done = jail.run(&connect("host.sock")).await;
    assert!(!done.output.contains("reached"), "{}", done.output);
    let own = "import socket, os; a = socket.socket(socket.AF_UNIX); a.bind(\"old.sock\"); a.listen(); \
        b = socket.socket(socket.AF_UNIX); b.connect(\"old.sock\"); print(\"own\")";
    let done = jail.run(&format!("rm old.sock && python3 -c '{own}'")).await;
    assert!(done.output.contains("own"), "{}", done.output);
    // The same without protected places.
    let plain = jail!(SandboxPolicy { protected_places: ProtectedPlaces::new([]), ..Default::default() });
    let _listens = std::os::unix::net::UnixListener::bind(plain.path("host.sock")).unwrap();
    let done = plain.run(&connect("host.sock")).await;
    assert!(!done.output.contains("reached"), "{}", done.output);
    let open = jail!(SandboxPolicy { network: Network::Host, ..Default::default() });
    let _listens = std::os::unix::net::UnixListener::bind(open.path("host.sock")).unwrap();
    assert!(open.run(&connect("host.sock")).await.output.contains("reached"));
}

#[tokio::test]
async fn a_socket_of_a_program_outside_is_not_reached_within_a_repository_either() {
    for git in [Git::ReadOnly, Git::Commits, Git::Writable] {
        let jail = jail!(SandboxPolicy { git, ..Default::default() });
        if !has("python3") {
            return;
        }
        for directory in [".git/modules/lib", "bare/objects", "bare/refs/x", ".jj/run"] {
            fs::create_dir_all(jail.path(directory)).unwrap();
        }
        fs::write(jail.path("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
        let sockets = [".git/fsmonitor--daemon.ipc", ".git/modules/lib/s", "bare/s", "bare/refs/x/s", ".jj/run/s"];
        let bound = sockets.map(|name| std::os::unix::net::UnixListener::bind(jail.path(name)).unwrap());
        let connect = "import socket, sys\nfor name in sys.argv[1:]:\n    s = socket.socket(socket.AF_UNIX)\n    \
            try:\n        s.connect(name); print(\"reached\", name)\n    except OSError: print(\"not\", name)";
        let done = jail.run(&format!("python3 -c '{connect}' {}; cat bare/HEAD", sockets.join(" "))).await;
        assert_eq!(done.output.matches("not ").count(), sockets.len(), "{git:?}: {}", done.output);
        assert!(done.output.contains("refs/heads/main"), "{}", done.output);
        drop(bound);
    }
}
