//! Every backend that touches the disk, on a directory made to lead it outside: nothing outside is read, written or
//! named, and whatever is refused is an error and no panic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::lines::LineRange;
use deepagents_fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents_fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
use deepagents_fs::{
    Backend, ByteRange, CompositeBackend, FileRead, FsError, FsFuture, Listing, LocalBackend, LocalOptions,
    OverlayBackend, PortableBackend, ReadOnly, Stat, StateBackend, VPath, WriteMode, Written,
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

/// A backend at whose every look at where a path leads a directory and a link change places.
struct Exchanging {
    inner: Arc<dyn Backend>,
    work: PathBuf,
}

impl Exchanging {
    fn exchange(&self) {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, self.work.join("s"), CWD, self.work.join("t"), RenameFlags::EXCHANGE).unwrap();
    }
}

impl Backend for Exchanging {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        self.inner.stat(state, path)
    }
    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        self.inner.read(state, path, range)
    }
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        self.inner.list(state, path)
    }
    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        self.inner.write(state, path, data, mode)
    }
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        self.inner.delete(state, path)
    }
    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        self.inner.glob(state, query)
    }
    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        self.inner.grep(state, query)
    }
    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(async move {
            let real = self.inner.resolve(state, path).await;
            self.exchange();
            real
        })
    }
    fn leading(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        self.inner.leading(path, place)
    }
}

/// A workspace with a directory `s` and a link `t` to another one.
fn exchanged(target: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["s", "secret", "open"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("s/f"), "fine").unwrap();
    std::fs::write(dir.path().join("secret/f"), SECRET).unwrap();
    std::fs::write(dir.path().join("open/f"), "open").unwrap();
    symlink(target, dir.path().join("t")).unwrap();
    dir
}

#[tokio::test]
async fn a_directory_that_is_exchanged_for_a_link_after_it_was_judged_leads_past_no_rule() {
    let path = p("/s/f");
    for kernel in [true, false] {
        for route in ["", "/disk"] {
            let dir = exchanged("secret");
            let options = LocalOptions { kernel_resolution: kernel, ..LocalOptions::default() };
            let local = Arc::new(LocalBackend::open_with(dir.path(), options).unwrap());
            let mut inner: Arc<dyn Backend> = Arc::new(Exchanging { inner: local, work: dir.path().to_owned() });
            if !route.is_empty() {
                inner = Arc::new(CompositeBackend::new(Arc::new(StateBackend::new())).route(p(route), inner));
            }
            let rules = Permissions::new([Rule::new(AccessMode::Deny, [format!("{route}/secret/**")])]).unwrap();
            let backend = PermissionedBackend::new(inner, rules, OnAsk::Refuse);
            let (state, path, above) = (State::default(), path.under(&p(route)), p("/s").under(&p(route)));
            for _ in 0..4 {
                let read = backend.read(&state, &path, ByteRange::ALL).await;
                assert!(read.as_ref().map_or(true, |read| read.bytes == "fine"), "{read:?}");
                let lines = format!("{:?}", backend.read_lines(&state, &path, LineRange::new(0, 3)).await);
                let found = format!("{:?}", backend.grep(&state, &GrepQuery::new("secret", above.clone())).await);
                assert!(!lines.contains(SECRET) && !found.contains(SECRET), "{lines} {found}");
                let edits = [Edit::new("the", "THE")];
                let _ = edit::edit(&backend, &state, &path, &edits, None).await;
                let _ = backend.write(&state, &path, "fine".into(), WriteMode::Overwrite).await;
                let _ = backend.delete(&state, &path).await;
                assert_eq!(std::fs::read_to_string(dir.path().join("secret/f")).unwrap(), SECRET);
                let real = if dir.path().join("s").is_symlink() { "t/f" } else { "s/f" };
                std::fs::write(dir.path().join(real), "fine").unwrap();
            }
        }
    }
}

#[tokio::test]
async fn where_both_places_are_allowed_a_call_that_meets_an_exchange_is_done_at_the_other() {
    let dir = exchanged("open");
    let local = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let inner = Arc::new(Exchanging { inner: local.clone(), work: dir.path().to_owned() });
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/secret/**"])]).unwrap();
    let backend = PermissionedBackend::new(inner, rules.clone(), OnAsk::Refuse);
    let (state, path) = (State::default(), p("/s/f"));
    let read = backend.read(&state, &path, ByteRange::ALL).await.unwrap();
    assert_eq!(read.bytes, "open");
    // A link that stays is followed, and what is found is called as it was asked for.
    std::fs::remove_file(dir.path().join("secret/f")).unwrap();
    symlink("open", dir.path().join("link")).unwrap();
    let mut files = Files::new(Arc::new(PermissionedBackend::new(local, rules, OnAsk::Refuse)));
    assert_eq!(files.list("/link").await.unwrap(), ["/link/f"]);
    assert_eq!(files.read("/link/f").await.unwrap(), b"open");
    files.write("/link/new/g", "open too").await.unwrap();
    let glob = GlobQuery::new("**", p("/link")).unwrap();
    assert_eq!(files.backend.glob(&state, &glob).await.unwrap().files, [p("/link/f"), p("/link/new/g")]);
    let found = files.backend.grep(&state, &GrepQuery::new("open", p("/link"))).await.unwrap();
    assert_eq!(found.files.iter().map(|file| &file.path).collect::<Vec<_>>(), [&p("/link/f"), &p("/link/new/g")]);
    assert_eq!(files.read("/link/none").await.unwrap_err(), FsError::NotFound(p("/link/none")));
    files.delete("/link/f").await.unwrap();
    assert!(!dir.path().join("open/f").exists() && dir.path().join("open/new/g").exists());
}

#[tokio::test]
async fn a_path_that_is_to_lead_to_a_place_leads_nowhere_else() {
    let dir = exchanged("secret");
    let backend = LocalBackend::open(dir.path()).unwrap();
    let state = State::default();
    let led = backend.leading(&p("/t/f"), &p("/t/f")).unwrap();
    let elsewhere = FsError::LeadsElsewhere(p("/t/f"));
    assert_eq!(led.read(&state, &p("/t/f"), ByteRange::ALL).await.unwrap_err(), elsewhere);
    assert_eq!(led.write(&state, &p("/t/f"), "x".into(), WriteMode::Overwrite).await.unwrap_err(), elsewhere);
    assert_eq!(led.delete(&state, &p("/t/f")).await.unwrap_err(), elsewhere);
    // Nor behind rules, which judge where a path leads themselves.
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/elsewhere"])]).unwrap();
    let ruled = PermissionedBackend::new(Arc::new(backend.clone()), rules, OnAsk::Allow);
    let led = ruled.leading(&p("/t/f"), &p("/t/f")).unwrap();
    assert_eq!(led.delete(&state, &p("/t/f")).await.unwrap_err(), elsewhere);
    assert!(dir.path().join("secret/f").exists());
    let led = backend.leading(&p("/t/f"), &p("/secret/f")).unwrap();
    assert_eq!(led.read(&state, &p("/t/f"), ByteRange::ALL).await.unwrap().bytes, SECRET);
}
