//! File rules for sandboxed commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents_fs::permissions::{AccessMode, OnAsk, Operation, PermissionedBackend, Permissions, Rule};
use deepagents_fs::sandbox::{SandboxPolicy, ToolChains};
use deepagents_fs::shell::{Command, Confinement, LocalShell, Shell, WithShell};
use deepagents_fs::{Backend, LocalBackend};
use deepagents_testing::skip;

use crate::sandbox::{Jail, jail};

fn policy(rules: impl IntoIterator<Item = Rule>) -> SandboxPolicy {
    SandboxPolicy { rules: vec![Permissions::new(rules).unwrap()], ..SandboxPolicy::default() }
}

fn deny(paths: &[&str]) -> Rule {
    Rule::new(AccessMode::Deny, paths.iter().copied())
}

fn fill(jail: &Jail) {
    for (name, text) in [
        ("secrets/key", "s3cret"),
        ("secrets/public/note", "note"),
        ("src/main.rs", "code"),
        ("src/deep/.env", "s3cret"),
        (".env", "s3cret"),
        ("docs/a", "doc"),
        ("certs/x.pem", "s3cret"),
    ] {
        fs::create_dir_all(jail.path(name).parent().unwrap()).unwrap();
        fs::write(jail.path(name), text).unwrap();
    }
}

#[tokio::test]
async fn unreadable_paths_are_hidden_from_commands() {
    let jail = jail!(policy([deny(&["/secrets/**", "/**/.env", "/**/*.pem"])]));
    fill(&jail);
    symlink("secrets/key", jail.path("link")).unwrap();
    let all = jail
        .run("cat .env src/deep/.env certs/x.pem link secrets/key secrets/public/note; ls secrets; grep -r s3cret .")
        .await;
    assert!(!all.output.contains("s3cret") && !all.output.contains("note\n"), "{}", all.output);
    for evasion in [
        "mv secrets other; cat other/key",
        "mv src other; cat other/deep/.env",
        "rm -rf secrets; rm -f .env",
        "ln secrets/key hard; cat hard",
        "cp -r secrets copy; cat copy/key",
        "umount secrets; cat secrets/key",
        "chmod -R 777 secrets .env; cat secrets/key .env",
        "cat /proc/self/root$PWD/secrets/key",
        "echo mine > .env; cat .env",
        "truncate -s0 certs/x.pem",
    ] {
        let done = jail.run(evasion).await;
        assert!(!done.output.contains("s3cret") && !done.output.contains("mine"), "{evasion}: {}", done.output);
    }
    assert_eq!(jail.run("cat src/main.rs docs/a; echo new > src/new; cat src/new").await.output, "codedocnew\n");
    for name in ["secrets/key", "src/deep/.env", ".env", "certs/x.pem"] {
        assert_eq!(fs::read_to_string(jail.path(name)).unwrap(), "s3cret", "{name}");
    }
}

#[tokio::test]
async fn paths_that_are_write_protected_or_need_approval_are_read_only_for_commands() {
    let write = [Operation::Write];
    let jail = jail!(policy([
        Rule::new(AccessMode::Deny, ["/docs/**"]).only(write),
        Rule::new(AccessMode::Ask, ["/src/**"]).only(write),
        Rule::new(AccessMode::Ask, ["/secrets/**"]),
    ]));
    fill(&jail);
    for text in [
        "echo x > docs/a",
        "rm docs/a",
        "mv docs d",
        "touch docs/new",
        "echo x >> src/main.rs",
        "ln -f /etc/passwd docs/a",
        "cat secrets/key",
        "echo x > secrets/key",
    ] {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert_eq!(jail.run("cat docs/a src/main.rs; echo x > free && cat free").await.output, "doccodex\n");
    assert_eq!(fs::read_to_string(jail.path("docs/a")).unwrap(), "doc");
    assert!(!jail.path("docs/new").exists() && !jail.path("d").exists());
}

#[tokio::test]
async fn an_earlier_allow_rule_stays_open_inside_a_denied_tree() {
    let jail = jail!(policy([
        Rule::new(AccessMode::Allow, ["/src/**", "/secrets/public/**"]),
        Rule::new(AccessMode::Deny, ["/secrets/**"]),
        Rule::new(AccessMode::Deny, ["/**"]).only([Operation::Write]),
    ]));
    fill(&jail);
    assert_eq!(jail.run("cat secrets/public/note; echo x > src/new && cat src/new docs/a").await.output, "notex\ndoc");
    for text in
        ["cat secrets/key", "echo x > docs/a", "echo x > top", "mkdir new", "mv src s", "echo x > secrets/public/../n"]
    {
        assert!(!jail.run(text).await.exit.success(), "{text}");
    }
    assert!(jail.run("echo x > secrets/public/more && cat secrets/public/more").await.exit.success());
}

#[tokio::test]
async fn files_created_where_a_rule_denies_them_are_bound_from_the_next_command_on() {
    let jail = jail!(policy([deny(&["/**/*.pem", "/later/**"])]));
    assert_eq!(
        jail.run("echo mine > new.pem; mkdir later; echo mine > later/x; cat new.pem later/x").await.output,
        "mine\nmine\n"
    );
    assert!(!jail.run("cat new.pem || cat later/x").await.exit.success());
}

#[tokio::test]
async fn a_shell_behind_nested_rules_obeys_all_of_them() {
    let jail = jail!();
    fill(&jail);
    let files = LocalBackend::open(jail.dir.path()).unwrap();
    let shell = LocalShell::open(jail.dir.path(), Confinement::sandboxed()).unwrap().sandbox(crate::sandbox::sandbox());
    let under = |inner: Arc<dyn Backend>, path: &str| {
        Arc::new(PermissionedBackend::new(inner, Permissions::new([deny(&[path])]).unwrap(), OnAsk::Allow))
    };
    let inner = under(Arc::new(WithShell::new(files, shell)), "/secrets/**");
    let outer = under(inner.clone(), "/docs/**");
    let run = async |backend: &dyn Backend, text: &str| {
        backend.shell().unwrap().run(Command::new(text), Default::default(), None).await.unwrap().output
    };
    assert_eq!(run(&*inner, "cat docs/a; cat secrets/key 2>/dev/null").await, "doc");
    assert_eq!(run(&*outer, "cat docs/a 2>/dev/null; cat secrets/key 2>/dev/null; cat src/main.rs").await, "code");
    // Without a sandbox, rules cannot be enforced on commands.
    let files = LocalBackend::open(jail.dir.path()).unwrap();
    let free = LocalShell::open(jail.dir.path(), Confinement::Unconfined).unwrap();
    assert!(free.under(&Permissions::new([deny(&["/x"])]).unwrap()).is_none());
    assert!(under(Arc::new(WithShell::new(files, free)), "/secrets/**").shell().is_none());
}

#[tokio::test]
async fn rules_that_match_too_many_single_files_are_refused_with_the_reason() {
    let jail = jail!(policy([deny(&["/many/*.x"])]));
    fs::create_dir(jail.path("many")).unwrap();
    for number in 0..20_001 {
        fs::File::create(jail.path(&format!("many/{number}.x"))).unwrap();
    }
    let refused = jail.shell.run(Command::new("true"), Default::default(), None).await.unwrap_err().to_string();
    assert!(refused.contains("use directories instead"), "{refused}");
}

#[tokio::test]
async fn a_toolchain_is_not_followed_through_places_that_commands_can_write() {
    let (home, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, root) = (home.path().canonicalize().unwrap(), root.path().canonicalize().unwrap());
    fs::create_dir_all(home.join("secret")).unwrap();
    fs::write(home.join("secret/key"), "s3cret").unwrap();
    fs::create_dir_all(home.join("real")).unwrap();
    fs::write(home.join("real/tool"), "#!/bin/sh\necho tool\n").unwrap();
    // One link that an earlier command may have left, and one of the user's own.
    symlink(home.join("secret"), root.join("bin")).unwrap();
    symlink(root.join("bin"), home.join("evil")).unwrap();
    symlink("real", home.join("good")).unwrap();
    let path = format!("{0}/evil:{0}/good:/usr/bin:/bin", home.display());
    let tools = ToolChains::find(|name| match name {
        "HOME" => Some(home.display().to_string()),
        "PATH" => Some(path.clone()),
        _ => None,
    });
    let Some(_) = Jail::new(SandboxPolicy::default()) else { return };
    let policy = SandboxPolicy { tools, ..SandboxPolicy::default() };
    let shell = LocalShell::open(&root, Confinement::Sandboxed(policy)).unwrap().sandbox(crate::sandbox::sandbox());
    let text = format!("cat {0}/good/tool; cat {0}/evil/key {0}/secret/key bin/key", home.display());
    let done = shell.run(Command::new(text), Default::default(), None).await.unwrap();
    assert!(done.output.contains("echo tool") && !done.output.contains("s3cret"), "{}", done.output);
}

/// The tool chains found with this `HOME` and `PATH`.
fn tools_of(home: Option<&Path>, path: &[&Path]) -> ToolChains {
    let path = path.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>().join(":");
    ToolChains::find(|name| match name {
        "HOME" => home.map(|home| home.display().to_string()),
        "PATH" => Some(path.clone()),
        _ => None,
    })
}

/// A home with keys, and a `bin` with a tool.
fn home_in(place: &Path) -> PathBuf {
    let home = place.join("real");
    for (name, text) in [
        ("bin/tool", "#!/bin/sh\necho tool\n"),
        ("lib/part", "part"),
        (".ssh/id_ed25519", "s3cret"),
        (".deepagents/keys.json", "s3cret"),
        (".cargo/bin/cargo", "#!/bin/sh\necho cargo\n"),
        (".cargo/credentials.toml", "s3cret"),
        ("documents/letter", "s3cret"),
    ] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), text).unwrap();
    }
    home
}

#[tokio::test]
async fn no_spelling_of_the_home_path_exposes_more_than_its_programs() {
    let Some(_) = Jail::new(SandboxPolicy::default()) else { return };
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let home = home_in(&place);
    symlink("real", place.join("link")).unwrap();
    let (link, nobodys) = (place.join("link"), place.join("nobodys"));
    let root = tempfile::tempdir().unwrap();
    for named in [Some(&home), Some(&link), Some(&nobodys), None] {
        for above in [&home, &link] {
            let tools = tools_of(named.map(PathBuf::as_path), &[&above.join("bin"), &above.join(".cargo/bin"), above]);
            let policy = SandboxPolicy { tools, ..SandboxPolicy::default() };
            let shell = LocalShell::open(root.path(), Confinement::Sandboxed(policy)).unwrap();
            let shell = shell.sandbox(crate::sandbox::sandbox());
            let text = format!(
                "cat {0}/bin/tool {0}/.cargo/bin/cargo; cat {0}/.ssh/* {0}/.deepagents/* {0}/.cargo/*.toml {0}/documents/* {0}/lib/part",
                above.display()
            );
            let done = shell.run(Command::new(text), Default::default(), None).await.unwrap();
            assert!(
                done.output.contains("echo tool") && done.output.contains("echo cargo"),
                "{named:?}: {}",
                done.output
            );
            assert!(!done.output.contains("s3cret") && !done.output.contains("part\n"), "{named:?}: {}", done.output);
        }
    }
}

#[tokio::test]
async fn only_a_programs_own_neighbouring_files_are_shown() {
    let Some(_) = Jail::new(SandboxPolicy::default()) else { return };
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    for (name, text) in
        [("tree/bin/tool", "tool"), ("tree/lib/part", "part"), ("tree/etc/key", "s3cret"), ("tree/src/x", "s3cret")]
    {
        fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        fs::write(place.join(name), text).unwrap();
    }
    // Go needs its own sources and tools.
    for name in ["go/bin/go", "go/src/runtime/x.go", "go/pkg/tool/x", "go/VERSION"] {
        fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        fs::write(place.join(name), "go\n").unwrap();
    }
    let root = tempfile::tempdir().unwrap();
    let tools = tools_of(None, &[&place.join("tree/bin"), &place.join("go/bin")]);
    let policy = SandboxPolicy { tools, ..SandboxPolicy::default() };
    let shell =
        LocalShell::open(root.path(), Confinement::Sandboxed(policy)).unwrap().sandbox(crate::sandbox::sandbox());
    let text = format!(
        "cd {}; cat tree/bin/tool tree/lib/part tree/etc/key tree/src/x 2>/dev/null; cat go/src/runtime/x.go go/pkg/tool/x go/VERSION",
        place.display()
    );
    let done = shell.run(Command::new(text), Default::default(), None).await.unwrap();
    assert_eq!(done.output, "toolpartgo\ngo\ngo\n");
}

#[tokio::test]
async fn a_relative_host_path_that_does_not_exist_yet_is_hidden_once_it_does() {
    // The test runs itself in another directory, where relative paths begin.
    const ROLE: &str = "a_relative_host_path";
    if std::env::var_os(ROLE).is_none() {
        let (dir, name) = (tempfile::tempdir().unwrap(), "bound::a_relative_host_path_that_does_not_exist_yet");
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let told = program.args([name, "--nocapture"]).env(ROLE, "1").current_dir(&dir).output().unwrap();
        skip::pass_on(&told);
        assert!(told.status.success(), "{told:?}");
        return;
    }
    let Some(_) = Jail::new(SandboxPolicy::default()) else { return };
    let open = |hidden: &[&str]| {
        let hidden_host = hidden.iter().map(PathBuf::from).collect();
        LocalShell::open(".", Confinement::Sandboxed(SandboxPolicy { hidden_host, ..SandboxPolicy::default() }))
    };
    let shell = open(&["key", "new/key"]).unwrap().sandbox(crate::sandbox::sandbox());
    fs::create_dir("new").unwrap();
    ["key", "new/key", "new/other"].iter().for_each(|name| fs::write(name, "s3cret").unwrap());
    let done = shell.run(Command::new("cat key; cat new/key; cat new/other"), Default::default(), None).await.unwrap();
    assert_eq!(done.output.matches("s3cret").count(), 1, "{}", done.output);
    let error = open(&[""]).unwrap_err().to_string();
    assert!(error.contains("give an absolute path"), "{error}");
}

#[tokio::test]
async fn paths_hidden_on_the_host_are_hidden_wherever_they_would_appear() {
    let Some(_) = Jail::new(SandboxPolicy::default()) else { return };
    let (place, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = place.path().canonicalize().unwrap();
    for directory in ["shown", "written"] {
        fs::create_dir_all(place.join(directory).join("deep/own")).unwrap();
        fs::write(place.join(directory).join("deep/own/key"), "s3cret").unwrap();
        fs::write(place.join(directory).join("deep/other"), "other\n").unwrap();
    }
    fs::create_dir(root.path().join("own")).unwrap();
    ["own/key", "token"].iter().for_each(|name| fs::write(root.path().join(name), "s3cret").unwrap());
    symlink(&place, root.path().join("link")).unwrap();
    let policy = SandboxPolicy {
        read_only: vec![place.join("shown")],
        writable: vec![place.join("written")],
        hidden_host: vec![
            place.join("shown/deep/own"),
            root.path().join("link/written/deep/own"),
            root.path().join("own"),
            root.path().join("token"),
            place.join("not/there"),
        ],
        ..SandboxPolicy::default()
    };
    let shell =
        LocalShell::open(root.path(), Confinement::Sandboxed(policy)).unwrap().sandbox(crate::sandbox::sandbox());
    let text = format!(
        "cat {0}/shown/deep/other {0}/written/deep/other; cat {0}/*/deep/own/* own/key token; \
         mv {0}/written/deep {0}/written/moved; cat {0}/written/moved/own/key; rm -rf {0}/written/deep/own; ls {0}/*/deep/own own",
        place.display()
    );
    let done = shell.run(Command::new(text), Default::default(), None).await.unwrap();
    assert!(done.output.starts_with("other\nother\n") && !done.output.contains("s3cret"), "{}", done.output);
    assert_eq!(fs::read_to_string(place.join("written/deep/own/key")).unwrap(), "s3cret");
}
