//! Protected places: repositories and agent settings.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use deepagents_fs::edit::{Edit, EditError};
use deepagents_fs::permissions::{AccessMode, Place, ProtectedPlace, ProtectedPlaces};
use deepagents_fs::{Backend, FsError, LocalBackend, LocalOptions, PortableBackend, UndoStore};
use tempfile::TempDir;

use crate::semantics::in_thread;
use crate::suite::{Files, p};

/// A workspace with all kinds of repositories, opened with and without kernel support, and with recorded changes.
fn workspace() -> (TempDir, Vec<Files>) {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let put = |name: &str, text: &str| {
        std::fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        std::fs::write(work.join(name), text).unwrap();
    };
    put(".git/config", "mine");
    put("lib/deep/.git/hooks/pre-commit", "mine");
    put("module/.git", "gitdir: ../.git/modules/module\n");
    put("other/.hg/hgrc", "mine");
    put("other/.jj/repo", "mine");
    put("src/main.rs", "fn main() {}\n");
    for (target, name) in [(".git", "link"), (".", "self"), ("..", "src/up"), (".git/config", "settings")] {
        symlink(target, work.join(name)).unwrap();
    }
    let open = |kernel, undo| {
        let options = LocalOptions { kernel_resolution: kernel, undo, ..LocalOptions::default() };
        Files::new(Arc::new(LocalBackend::open_with(&work, options).unwrap()))
    };
    let store = || Some(UndoStore::at(dir.path().join("undo.db")));
    let files =
        vec![open(true, None), open(false, None), in_thread(open(true, store())), in_thread(open(false, store()))];
    (dir, files)
}

/// All files below a directory, with their content.
fn snapshot(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.push((path.display().to_string(), String::new()));
            found.extend(snapshot(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn repositories_cannot_be_written_through_any_path_that_leads_to_them() {
    let (dir, mut all) = workspace();
    let before = snapshot(&dir.path().join("work"));
    for files in &mut all {
        for path in [
            "/.git/config",
            "/.git/hooks/post-checkout",
            "/.git",
            "/.GIT/config",
            "/link/config",
            "/link/hooks/new",
            "/self/.git/config",
            "/self/link/config",
            "/src/up/link/config",
            "/settings",
            "/lib/deep/.git/hooks/pre-commit",
            "/module/.git",
            "/other/.hg/hgrc",
            "/other/.jj/repo",
            "/src/.git/config",
            "/new/deep/.git",
            "/src/.Git",
        ] {
            let refused = FsError::Protected(p(path));
            assert_eq!(files.write(path, "evil").await.unwrap_err(), refused, "{path}");
            // Deleting a link deletes only the link.
            if path != "/settings" {
                let error = files.delete(path).await.unwrap_err();
                assert!(error == refused || matches!(error, FsError::NotFound(_)), "{path}: {error}");
            }
        }
        let edited = files.edit("/link/config", &[Edit::new("mine", "evil")]).await.unwrap_err();
        assert_eq!(edited, EditError::Fs(FsError::Protected(p("/link/config"))));
        assert_eq!(snapshot(&dir.path().join("work")), before);
        // Reading is still allowed.
        assert_eq!(files.read("/.git/config").await.unwrap(), b"mine");
        assert_eq!(files.read("/link/config").await.unwrap(), b"mine");
        assert_eq!(files.list("/lib/deep/.git").await.unwrap(), ["/lib/deep/.git/hooks/"]);
    }
}

#[tokio::test]
async fn a_directory_containing_a_repository_cannot_be_deleted() {
    let (dir, mut all) = workspace();
    let before = snapshot(&dir.path().join("work"));
    for files in &mut all {
        for path in ["/lib", "/lib/deep", "/module", "/other", "/self/lib"] {
            assert_eq!(files.delete(path).await.unwrap_err(), FsError::Protected(p(path)), "{path}");
        }
        assert_eq!(snapshot(&dir.path().join("work")), before);
    }
    // A link to a repository can be deleted, and so can a directory without one.
    for path in ["/link", "/src"] {
        all[0].delete(path).await.unwrap();
    }
    assert!(dir.path().join("work/.git/config").exists());
}

#[tokio::test]
async fn a_repository_stored_elsewhere_is_protected_there_too() {
    for make in [
        (|work: &Path| symlink("store/repo", work.join(".git")).unwrap()) as fn(&Path),
        |work| symlink("store/../store/repo", work.join(".git")).unwrap(),
        |work| std::fs::write(work.join(".git"), "gitdir: store/repo\n").unwrap(),
        |work| std::fs::write(work.join(".git"), format!("gitdir: {}\n", work.join("store/repo").display())).unwrap(),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(work.join("store/repo")).unwrap();
        std::fs::write(work.join("store/repo/config"), "mine").unwrap();
        make(&work);
        let mut files = Files::new(Arc::new(LocalBackend::open(&work).unwrap()));
        for path in ["/store/repo/config", "/store/repo/hooks/pre-commit"] {
            assert_eq!(files.write(path, "evil").await.unwrap_err(), FsError::Protected(p(path)));
        }
        for path in ["/store/repo", "/store"] {
            assert_eq!(files.delete(path).await.unwrap_err(), FsError::Protected(p(path)));
        }
        files.write("/store/other", "fine").await.unwrap();
        assert_eq!(std::fs::read_to_string(work.join("store/repo/config")).unwrap(), "mine");
    }
}

#[tokio::test]
async fn a_directory_git_treats_as_a_repository_is_protected_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path();
    for name in ["objects", "refs"] {
        std::fs::create_dir_all(work.join("sub/store").join(name)).unwrap();
    }
    std::fs::write(work.join("sub/store/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(work.join("sub/.git"), "gitdir: store\n").unwrap();
    symlink("sub/store", work.join("link")).unwrap();
    let mut files = Files::new(Arc::new(LocalBackend::open(work).unwrap()));
    for path in ["/sub/store/config", "/sub/store/hooks/pre-commit", "/link/config", "/sub/store/HEAD"] {
        assert_eq!(files.write(path, "evil").await.unwrap_err(), FsError::Protected(p(path)));
        assert_eq!(files.backend.change_access(&p(path)).await, AccessMode::Deny, "{path}: a wrapper can tell before");
    }
    // A repository cannot be created piece by piece either.
    for path in ["/new/config", "/new/refs/x", "/new/HEAD"] {
        files.write(path, "fine").await.unwrap();
    }
    assert_eq!(files.write("/new/objects/x", "x").await.unwrap_err(), FsError::Protected(p("/new/objects/x")));
    // Nor can one be deleted, with the directory that holds it or alone.
    std::fs::rename(work.join("sub/store"), work.join("sub/bare")).unwrap();
    std::fs::remove_file(work.join("sub/.git")).unwrap();
    let portable: Arc<dyn Backend> = Arc::new(PortableBackend::open(work).unwrap());
    for files in [&mut files, &mut Files::new(portable)] {
        for path in ["/sub/bare", "/sub"] {
            assert_eq!(files.delete(path).await.unwrap_err(), FsError::Protected(p(path)));
        }
    }
    files.write("/sub/objects/HEAD", "fine").await.unwrap();
    assert!(!work.join("sub/store/config").exists() && !work.join("new/objects").exists());
}

#[tokio::test]
async fn linked_repositories_and_a_repository_at_the_root_cannot_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path();
    let mut files = Files::new(Arc::new(LocalBackend::open(work).unwrap()));
    // The layout of `git worktree`: the rest of the repository is in another directory.
    files.write("/tree/commondir", "../other").await.unwrap();
    files.write("/other/config", "[core]\n\tfsmonitor = evil").await.unwrap();
    assert_eq!(files.write("/tree/HEAD", "ref: x").await.unwrap_err(), FsError::Protected(p("/tree/HEAD")));
    files.write("/back/HEAD", "ref: x").await.unwrap();
    for path in ["/back/commondir", "/back/CommonDir"] {
        assert_eq!(files.write(path, "../other").await.unwrap_err(), FsError::Protected(p(path)));
    }
    // The root itself.
    for path in ["/config", "/refs/x", "/objects/x"] {
        files.write(path, "fine").await.unwrap();
    }
    for path in ["/HEAD", "/head"] {
        assert_eq!(files.write(path, "ref: x").await.unwrap_err(), FsError::Protected(p(path)));
    }
    for path in ["/objects", "/refs", "/config"] {
        files.delete(path).await.unwrap();
    }
    files.write("/HEAD", "fine").await.unwrap();
    assert_eq!(files.write("/commondir", "other").await.unwrap_err(), FsError::Protected(p("/commondir")));
}

#[tokio::test]
async fn the_list_of_protected_places_can_be_replaced() {
    let (dir, _) = workspace();
    let open = |protected| {
        let options = LocalOptions { protected, ..LocalOptions::default() };
        Files::new(Arc::new(LocalBackend::open_with(dir.path().join("work"), options).unwrap()))
    };
    let mut free = open(ProtectedPlaces::none());
    free.write("/.git/config", "changed").await.unwrap();
    free.delete("/lib").await.unwrap();
    let keep = ProtectedPlace { place: Place::At(p("/src/main.rs")), mode: AccessMode::Deny };
    let mut other = open(ProtectedPlaces::new([keep]));
    assert!(matches!(other.write("/src/main.rs", "x").await, Err(FsError::Protected(_))));
    assert!(matches!(other.delete("/src").await, Err(FsError::Protected(_))));
    other.write("/src/lib.rs", "x").await.unwrap();
    let standard = open(ProtectedPlaces::default());
    let access = async |path| standard.backend.change_access(&p(path)).await;
    assert_eq!(access("/AGENTS.md").await, AccessMode::Ask);
    assert_eq!(access("/.deepagents/agents/a.md").await, AccessMode::Ask);
    assert_eq!((access("/src/AGENTS.md").await, access("/src").await), (AccessMode::Allow, AccessMode::Allow));
    assert_eq!(access("/.deepagents/.git/config").await, AccessMode::Deny);
}

#[tokio::test]
async fn changing_the_target_of_a_protected_place_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("shared/agents")).unwrap();
    std::fs::write(dir.path().join("CLAUDE.md"), "mine").unwrap();
    symlink("CLAUDE.md", dir.path().join("AGENTS.md")).unwrap();
    symlink("link", dir.path().join(".deepagents")).unwrap();
    symlink("shared/agents", dir.path().join("link")).unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    for path in
        ["/CLAUDE.md", "/AGENTS.md", "/shared/agents/hooks.json", "/shared/agents", "/shared", "/SHARED/agents/x"]
    {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    for path in ["/src", "/shared/other", "/CLAUDE.md.txt"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
}

/// Repository settings that name files of the workspace in every possible way.
pub(crate) const SETTINGS: &str = "[core] hooksPath = .husky/_ ; a remark\n\tbare = false\n[include]\n\tpath = \"../.gitconfig\"\n\
    [includeIf \"gitdir:/x.y]\"]\n\tPATH = ../more/\\\nsettings\n[filter \"a\"]\n\tclean = sh tools/clean.sh %f | cat\n[user]\n\tname = A";

#[tokio::test]
async fn changing_what_git_runs_or_includes_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in [".git", "tools", "more", "sub/.git", "sub/deep"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join(".git/config"), SETTINGS).unwrap();
    std::fs::write(root.join("tools/clean.sh"), "cat").unwrap();
    std::fs::write(root.join("more/settings"), "[diff \"x\"]\n\ttextconv = ./show\n[include]\n\tpath = settings\n")
        .unwrap();
    std::fs::write(root.join("show"), "cat").unwrap();
    std::fs::write(root.join("sub/.git/config"), format!("[core]\n\thooksPath = {}/sub/hooks\n", root.display()))
        .unwrap();
    // A FIFO, which would block when opened, is not opened.
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join(".git/config.worktree"), 0o644.into()).unwrap();
    let files = LocalBackend::open(&root).unwrap();
    for path in [
        "/.husky/_/pre-commit",
        "/.husky/pre-commit",
        "/.husky",
        "/.gitconfig",
        "/more/settings",
        "/more",
        "/tools/clean.sh",
        "/show",
        "/sub/hooks/post-checkout",
    ] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    for path in ["/tools/other", "/src/main.rs", "/sub/deep/x", "/hooks/pre-commit", "/more/x", "/A"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
}

/// A program that anyone may run.
fn program(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A repository whose hooks and settings are links into the workspace, and whose hooks run programs there.
pub(crate) fn linked_repository(root: &Path) {
    std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
    std::fs::write(root.join("gitconfig"), "[core]\n\tfsmonitor = tools/fsm\n\thooksPath = .husky\n").unwrap();
    symlink("../gitconfig", root.join(".git/config")).unwrap();
    program(&root.join("scripts/linked.sh"), "#!/bin/sh\n");
    program(&root.join("scripts/check"), "#!/bin/sh\n. \"$(dirname \"$0\")/../scripts/deep\"\n");
    program(&root.join("scripts/more.py"), "");
    program(&root.join("scripts/beside"), "#!/bin/sh\n");
    symlink("../../scripts/linked.sh", root.join(".git/hooks/post-commit")).unwrap();
    program(&root.join(".git/hooks/pre-commit"), "#!/bin/sh\nexec ./scripts/check Cargo.toml\n");
    program(
        &root.join(".git/hooks/pre-push"),
        "#!/bin/sh\npython3 \"$(git rev-parse --show-toplevel)/scripts/more.py\"\n",
    );
    program(&root.join(".git/hooks/update.sample"), "#!/bin/sh\n./scripts/beside\n");
    program(&root.join("scripts/husky.sh"), "#!/bin/sh\n");
    std::fs::create_dir_all(root.join(".husky")).unwrap();
    symlink("../scripts/husky.sh", root.join(".husky/pre-merge-commit")).unwrap();
    std::fs::write(root.join("Cargo.toml"), "").unwrap();
}

#[tokio::test]
async fn changing_a_repositorys_link_targets_or_hook_programs_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    linked_repository(&root);
    let files = LocalBackend::open(&root).unwrap();
    for path in [
        "/gitconfig",
        "/tools/fsm",
        "/scripts/linked.sh",
        "/scripts/check",
        "/scripts/more.py",
        "/scripts/husky.sh",
        "/.husky/pre-commit",
    ] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    for path in ["/Cargo.toml", "/scripts/beside", "/scripts/new.sh", "/tools/other", "/src/main.rs"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
    // A hooks directory that is a link.
    std::fs::remove_dir_all(root.join(".git/hooks")).unwrap();
    symlink("../.githooks", root.join(".git/hooks")).unwrap();
    std::fs::create_dir(root.join(".githooks")).unwrap();
    assert_eq!(files.change_access(&p("/.githooks/pre-commit")).await, AccessMode::Ask);
}

/// A repository whose hooks and programs are in one of its directories, which is returned.
pub(crate) fn repository_around(outer: &Path) -> std::path::PathBuf {
    let root = outer.join("packages/web");
    for name in [outer.join(".git/hooks"), root.join("hooks"), root.join("tools")] {
        std::fs::create_dir_all(name).unwrap();
    }
    std::fs::write(
        outer.join(".git/config"),
        "[core]\n\thooksPath = packages/web/hooks\n\tfsmonitor = packages/web/fsm\n",
    )
    .unwrap();
    program(&outer.join(".git/hooks/pre-commit"), "#!/bin/sh\nexec packages/web/tools/check\n");
    program(&root.join("tools/check"), "#!/bin/sh\n");
    root
}

#[tokio::test]
async fn what_a_repository_around_the_workspace_runs_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    let outer = dir.path().canonicalize().unwrap();
    let root = repository_around(&outer);
    program(&outer.join(".git/hooks/pre-push"), "#!/bin/sh\n\"$TOP/build.sh\"\n");
    let merged = "#!/bin/sh\n\"$TOP/packages/web/tools/push\"\nWEB=\"$TOP/packages/web\"\n\"$WEB/tools/pull\"\n";
    program(&outer.join(".git/hooks/post-merge"), merged);
    for name in ["build.sh", "tools/push", "tools/pull"] {
        program(&root.join(name), "#!/bin/sh\n");
    }
    let files = LocalBackend::open(root).unwrap();
    for path in ["/hooks/pre-commit", "/fsm", "/tools/check", "/tools/push", "/tools/pull"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    for path in ["/tools/other", "/build.sh"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
}

#[tokio::test]
async fn the_names_of_hooks_need_approval_where_the_workspace_itself_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join(".git/config"), format!("[core]\n\thooksPath = {}\n", root.display())).unwrap();
    program(&root.join("pre-push"), "#!/bin/sh\nexec ./check.sh\n");
    program(&root.join("check.sh"), "#!/bin/sh\n");
    let files = LocalBackend::open(&root).unwrap();
    for path in ["/post-checkout", "/pre-push", "/check.sh"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    assert_eq!(files.change_access(&p("/README.md")).await, AccessMode::Allow);
}

#[tokio::test]
async fn what_a_hook_runs_needs_approval_however_many_files_are_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let hooks = dir.path().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    (0..2000).for_each(|n| std::fs::write(hooks.join(format!("old-{n}")), "").unwrap());
    program(&hooks.join("post-checkout"), "#!/bin/sh\n./run.sh\n");
    std::fs::write(dir.path().join("run.sh"), "").unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    assert_eq!(files.change_access(&p("/run.sh")).await, AccessMode::Ask);
}

#[tokio::test]
async fn git_settings_that_include_each_other_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("sub/.git")).unwrap();
    let include = |name: &str| format!("[include]\n\tpath = {name}\n[include]\n\tpath = ./{name}\n").repeat(60);
    std::fs::write(dir.path().join("sub/.git/config"), include("config") + &include("../other")).unwrap();
    std::fs::write(dir.path().join("sub/other"), include(".git/config") + "[core]\n\tfsmonitor = tools/fsm\n").unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    assert_eq!(files.change_access(&p("/sub/a.txt")).await, AccessMode::Allow);
    assert_eq!(files.change_access(&p("/sub/tools/fsm")).await, AccessMode::Ask);
}

#[tokio::test]
async fn changing_the_targets_of_links_in_protected_places_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in [".deepagents/skills/one", "share/agents", "share/two", "share/three"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    symlink("../share/agents", at(".deepagents/agents")).unwrap();
    symlink("../NOTES.md", at(".deepagents/AGENTS.md")).unwrap();
    symlink("../../share/two", at(".deepagents/skills/two")).unwrap();
    std::fs::write(at("share/SKILL.md"), "").unwrap();
    symlink("../../../share/SKILL.md", at(".deepagents/skills/one/SKILL.md")).unwrap();
    symlink(".", at(".deepagents/skills/here")).unwrap();
    symlink("../..", at(".deepagents/skills/up")).unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    for path in ["/share/agents/new.md", "/NOTES.md", "/share/two/SKILL.md", "/share/SKILL.md"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
    for path in ["/share/three/x", "/share/other.md", "/README.md"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
}

#[tokio::test]
async fn words_that_are_not_programs_protect_no_files_of_that_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["main", "input", "origin", "build", "bin/test", "src/index.ts", "src/data.py", "run"] {
        program(&root.join(name), "#!/bin/sh\n");
    }
    let settings = "[init]\n\tdefaultBranch = main\n[core]\n\tautocrlf = input\n[branch \"main\"]\n\tremote = origin\n";
    program(&root.join(".git/config"), settings);
    let hook = "#!/bin/sh\nif [ \"$branch\" = \"main\" ]; then build; fi\nnpx prettier --write \\\n  src/index.ts > ./build.log\n\
                \"$ROOT\"/bin/test --db ./data.db src/data.py\nsh -e run\n";
    program(&root.join(".git/hooks/pre-push"), hook);
    let files = LocalBackend::open(&root).unwrap();
    for path in ["/main", "/input", "/origin", "/build", "/src/index.ts", "/build.log", "/data.db", "/src/data.py"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Allow, "{path}");
    }
    for path in ["/bin/test", "/run"] {
        assert_eq!(files.change_access(&p(path)).await, AccessMode::Ask, "{path}");
    }
}

#[test]
fn programs_are_what_commands_run_and_not_their_operands() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["a.py", "b.js", "tools/c", "d"] {
        program(&root.join(name), "");
    }
    let found = |text: &str| {
        let found = deepagents_fs::permissions::programs_of(text, &root, &root, None);
        found.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (text, programs) in [
        ("ruff check a.py", ""),
        ("d && echo d", ""),
        ("python3.12 -u d", "/d"),
        ("X=1 Y=2 tools/c", "/tools/c"),
        ("env -i timeout 5 tools/c b.js", "/tools/c"),
        ("uv run a.py; npx tsx b.js", "/a.py /b.js"),
        ("bash -lc 'tools/c b.js'", "/tools/c"),
        ("cat a.py | node b.js > ./log", "/b.js"),
        ("cp a.py ./new", ""),
        ("./new", "/new"),
    ] {
        assert_eq!(found(text), programs, "{text}");
    }
}
