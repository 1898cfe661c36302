//! Every backend that touches the disk, on a directory made to lead it outside: nothing outside is read, written or
//! named, and whatever is refused is an error and no panic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents_fs::edit::{self, Edit};
use deepagents_fs::lines::LineRange;
use deepagents_fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents_fs::search::{GlobQuery, GrepQuery};
use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
use deepagents_fs::{
    Backend, ByteRange, CompositeBackend, LocalBackend, LocalOptions, OverlayBackend, PortableBackend, ReadOnly,
    StateBackend, VPath, WriteMode,
};
use deepagents_testing::skip::skip;
use tempfile::TempDir;

use crate::suite::{Files, p};

const SECRET: &str = "the-secret-words";
const CONFIG: &str = "[core]\n";

/// Every kind of backend that reads or writes a directory, and where the directory is in it.
fn kinds(work: &Path) -> Vec<(&'static str, Arc<dyn Backend>, &'static str)> {
    let local = |kernel: bool| {
        let options = LocalOptions { kernel_resolution: kernel, ..LocalOptions::default() };
        Arc::new(LocalBackend::open_with(work, options).unwrap())
    };
    let state = || Arc::new(StateBackend::new());
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/denied/**"])]).unwrap();
    let shell = LocalShell::open(work, Confinement::Unconfined).unwrap();
    vec![
        ("local", local(true), ""),
        ("local without openat2", local(false), ""),
        ("on any system", Arc::new(PortableBackend::open(work).unwrap()), ""),
        ("composite at the root", Arc::new(CompositeBackend::new(local(true)).route(p("/state"), state())), ""),
        (
            "composite in a route",
            Arc::new(CompositeBackend::new(state()).route(p("/disk/deep"), local(true))),
            "/disk/deep",
        ),
        ("overlay on disk", Arc::new(OverlayBackend::new(local(true), state())), ""),
        ("overlay over disk", Arc::new(OverlayBackend::new(state(), local(true))), ""),
        ("read-only", Arc::new(ReadOnly::new(local(true))), ""),
        ("behind rules", Arc::new(PermissionedBackend::new(local(true), rules, OnAsk::Refuse)), ""),
        ("with a shell", Arc::new(WithShell::new(local(true), shell)), ""),
    ]
}

struct Trap {
    dir: TempDir,
}

impl Trap {
    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// A workspace full of traps beside a directory that holds a secret.
    fn set() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (outside, work) = (dir.path().join("outside"), dir.path().join("work"));
        std::fs::create_dir_all(outside.join("sub")).unwrap();
        std::fs::write(outside.join("secret"), SECRET).unwrap();
        std::fs::write(outside.join("sub/secret"), SECRET).unwrap();
        std::fs::create_dir_all(work.join("sub/deeper")).unwrap();
        std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
        std::fs::create_dir_all(work.join("sub/repo/.git")).unwrap();
        std::fs::write(work.join(".git/config"), CONFIG).unwrap();
        std::fs::write(work.join("sub/repo/.git/config"), CONFIG).unwrap();
        std::fs::write(work.join("sub/module"), "gitdir: ../.git\n").unwrap();
        let link = |target: &dyn AsRef<Path>, name: &str| symlink(target.as_ref(), work.join(name)).unwrap();
        link(&"../outside/secret", "relative");
        link(&outside.join("secret"), "absolute");
        link(&"../outside", "dir");
        link(&"sub/../../outside", "winding");
        link(&"relative", "chain");
        link(&"../outside/new", "dangling-out");
        link(&"no/such/thing", "dangling");
        link(&"loop-b", "loop-a");
        link(&"loop-a", "loop-b");
        link(&"self/x", "self");
        link(&"/", "slash");
        link(&"/proc/self/root", "magic");
        link(&"/dev/zero", "zero-link");
        link(&".git", "repository");
        link(&"../.git/hooks", "sub/hooks");
        link(&"..", "sub/deeper/up");
        link(&"../../..", "sub/deeper/out");
        rustix::fs::mkfifoat(rustix::fs::CWD, work.join("fifo"), 0o644.into()).unwrap();
        std::fs::write(work.join(OsStr::from_bytes(b"bad\xffname")), "x").unwrap();
        std::fs::write(work.join("huge"), "first line\n").unwrap();
        std::fs::OpenOptions::new().write(true).open(work.join("huge")).unwrap().set_len(1 << 40).unwrap();
        for name in ["foo..bar", "[...slug]", "new\nline", "🦀", "Case"] {
            std::fs::write(work.join(name), name).unwrap();
        }
        Self { dir }
    }

    fn untouched(&self, kind: &str) {
        let outside = self.dir.path().join("outside");
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), SECRET, "{kind}");
        assert_eq!(std::fs::read_to_string(outside.join("sub/secret")).unwrap(), SECRET, "{kind}");
        for repository in [".git", "sub/repo/.git"].map(|name| self.work().join(name)) {
            assert_eq!(std::fs::read_to_string(repository.join("config")).unwrap(), CONFIG, "{kind}");
            let held = if repository.ends_with("repo/.git") { 1 } else { 2 };
            assert_eq!(std::fs::read_dir(&repository).unwrap().count(), held, "{kind}");
        }
        assert_eq!(std::fs::read_dir(self.work().join(".git/hooks")).unwrap().count(), 0, "{kind}");
        let mut names: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["secret", "sub"], "{kind}");
        let beside: Vec<_> = std::fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(beside.len(), 2, "{kind}: {beside:?}");
    }
}

/// What a model might give as a path. Those that are no path are refused before a backend sees them.
fn attempts() -> Vec<String> {
    let mut out: Vec<String> = [
        "/relative",
        "/absolute",
        "/chain",
        "/dir",
        "/dir/secret",
        "/dir/new/deep",
        "/winding/secret",
        "/dangling-out",
        "/dangling",
        "/dangling/below",
        "/loop-a",
        "/loop-a/x",
        "/self",
        "/slash/etc/passwd",
        "/slash",
        "/magic/etc/passwd",
        "/zero-link",
        "/sub/deeper/up/deeper/up",
        "/sub/deeper/out",
        "/sub/deeper/out/outside/secret",
        "/fifo",
        "/huge",
        "/foo..bar",
        "/[...slug]",
        "/new\nline",
        "/🦀",
        "/CASE",
        "/case",
        "/.git",
        "/.git/config",
        "/.git/new",
        "/.Git/config",
        "/repository",
        "/repository/config",
        "/repository/hooks/post-checkout",
        "/sub/hooks/post-checkout",
        "/sub/deeper/up/repo/.git/config",
        "/sub/repo",
        "/sub/repo/.git",
        "/sub",
        "/huge/below",
        "/fifo/below",
        "/bad\u{fffd}name",
        "../outside/secret",
        "/../outside/secret",
        "..\\outside\\secret",
        "/sub/../../outside/secret",
        "/./../outside",
        "~/secret",
        "~root/secret",
        "C:\\secret",
        "/a\0b",
        "//../outside/secret",
        "\\\\..\\outside",
        "/sub/./..//..",
        "%2e%2e/outside/secret",
        "/..%2foutside/secret",
        "/.../outside",
        "file:///etc/passwd",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    out.push(format!("/{}", "n".repeat(255)));
    out.push(format!("/{}", "n".repeat(256)));
    out.push(format!("/{}x", "deep/".repeat(300)));
    out
}

/// Everything that can be done at a path, as text.
async fn everything(backend: &dyn Backend, files: &mut Files, path: &VPath) -> Vec<String> {
    let state = &mut files.state;
    let mut told = Vec::new();
    // Not to the end: there is a file of a terabyte.
    let part = ByteRange::first(4096);
    match backend.read(state, path, part).await {
        Ok(read) => told.push(String::from_utf8_lossy(&read.bytes).into_owned()),
        Err(error) => told.push(error.to_string()),
    }
    let lines = backend.read_lines(state, path, LineRange { max_bytes: 1000, ..LineRange::new(0, 3) }).await;
    told.push(format!("{:?}", lines.map(|window| window.lines)));
    told.push(format!("{:?}", backend.stat(state, path).await.map(|stat| stat.kind)));
    told.push(format!("{:?}", backend.list(state, path).await.map(|listing| listing.entries)));
    told.push(format!("{:?}", backend.resolve(state, path).await));
    if path.name() != Some("huge") {
        let mut grep = GrepQuery::new("secret", path.clone());
        grep.scope.visible = Some(Arc::new(|path: &VPath| path.name() != Some("huge")));
        told.push(format!("{:?}", backend.grep(state, &grep).await));
    }
    told.push(format!("{:?}", backend.glob(state, &GlobQuery::new("**", path.clone()).unwrap()).await));
    if path.name() != Some("huge") {
        let edits = [Edit::new("the", "THE")];
        match edit::edit(backend, state, path, &edits, None).await {
            Ok(edited) => state.apply(&edited.update).unwrap(),
            Err(error) => told.push(error.to_string()),
        }
    }
    for mode in [WriteMode::Create, WriteMode::Overwrite] {
        match backend.write(state, path, "written".into(), mode).await {
            Ok(written) => state.apply(&written.update).unwrap(),
            Err(error) => told.push(error.to_string()),
        }
    }
    match backend.delete(state, path).await {
        Ok(update) => state.apply(&update).unwrap(),
        Err(error) => told.push(error.to_string()),
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_backend_reads_writes_or_names_what_is_outside() {
    let names: Vec<&str> = kinds(&Trap::set().work()).iter().map(|kind| kind.0).collect();
    for (which, name) in names.iter().enumerate() {
        let trap = Trap::set();
        let (_, backend, below) = kinds(&trap.work()).remove(which);
        let mut files = Files::new(backend.clone());
        for attempt in attempts() {
            let host = trap.dir.path().to_string_lossy().into_owned();
            let Ok(path) = VPath::parse(&attempt) else { continue };
            let path = path.under(&p(below));
            for told in everything(&*backend, &mut files, &path).await {
                assert!(!told.contains(SECRET), "{name} at {attempt:?}: {told}");
                assert!(!told.contains(&host), "{name} at {attempt:?}: {told}");
                assert!(!told.contains("root:x:0"), "{name} at {attempt:?}: {told}");
            }
            trap.untouched(&format!("{name} at {attempt:?}"));
        }
    }
}

#[test]
fn every_way_of_climbing_is_refused_before_any_backend_sees_it() {
    for text in ["..", "../x", "/..", "/a/../b", "a\\..\\b", "..\\x", "/a/..", "//..//x", "./..", "\\..", "/./../x"] {
        assert!(VPath::parse(text).is_err(), "{text}");
        assert!(GlobQuery::new(text, p("/")).is_err() || !text.contains('/'), "{text}");
    }
    for text in ["~", "~/x", "~root/x", "C:", "c:\\x", "/a\0", "\0"] {
        assert!(VPath::parse(text).is_err(), "{text:?}");
    }
}

#[tokio::test]
async fn names_that_differ_in_case_alone_are_one_file_where_the_disk_says_so_and_two_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("secret")).unwrap();
    std::fs::write(dir.path().join("secret/key"), SECRET).unwrap();
    let folds = dir.path().join("SECRET/key").exists();
    let local = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/secret/**"])]).unwrap();
    let mut files = Files::new(Arc::new(PermissionedBackend::new(local, rules, OnAsk::Refuse)));
    assert!(files.read("/secret/key").await.is_err());
    if folds {
        skip("disk that keeps case", "rules do not fold case, as this disk does: name files in all their spellings");
        return;
    }
    for other in ["/SECRET/key", "/Secret/key", "/ſecret/key"] {
        assert!(matches!(files.read(other).await, Err(deepagents_fs::FsError::NotFound(_))), "{other}");
        files.write(other, "another file").await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("secret/key")).unwrap(), SECRET);
}
