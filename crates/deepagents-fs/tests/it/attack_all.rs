//! Every backend that accesses the disk, on a directory built to lead it outside. Nothing outside is read, written or
//! named, and every refusal is an error, not a panic.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents_core::state::State;
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::lines::LineRange;
use deepagents_fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents_fs::search::{GlobQuery, GrepQuery};
use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
use deepagents_fs::{
    Backend, ByteRange, CompositeBackend, FileRead, FsError, FsFuture, LocalBackend, LocalOptions, OverlayBackend,
    PortableBackend, ReadOnly, StateBackend, VPath, WriteMode, forward,
};
use deepagents_testing::skip::skip;
use deepagents_testing::suites::attack::Trap;
use tempfile::TempDir;

use crate::suite::{Files, p};

const SECRET: &str = "the-secret-words";

/// Every kind of backend that reads or writes a directory, with the directory's path in it.
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
        ("with other contents", Arc::new(Shouting(local(true))), ""),
    ]
}

/// A backend that changes what it reads, as one that decrypts does.
struct Shouting(Arc<LocalBackend>);

impl Backend for Shouting {
    forward!([.0]; stat, list, write, delete);

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let read = self.0.read(state, path, range).await?;
            Ok(FileRead { bytes: read.bytes.to_ascii_uppercase().into(), ..read })
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_backend_reads_writes_or_names_anything_outside() {
    let count = kinds(tempfile::tempdir().unwrap().path()).len();
    for which in 0..count {
        let dir = tempfile::tempdir().unwrap();
        let trap = Trap::set(dir.path());
        let (name, backend, below) = kinds(&trap.work()).remove(which);
        eprintln!("{name}");
        trap.attack(backend, &p(below)).await;
    }
}

#[test]
fn every_path_traversal_is_refused_before_any_backend_sees_it() {
    for text in ["..", "../x", "/..", "/a/../b", "a\\..\\b", "..\\x", "/a/..", "//..//x", "./..", "\\..", "/./../x"] {
        assert!(VPath::parse(text).is_err(), "{text}");
        assert!(GlobQuery::new(text, p("/")).is_err() || !text.contains('/'), "{text}");
    }
    for text in ["~", "~/x", "~root/x", "C:", "c:\\x", "/a\0", "\0"] {
        assert!(VPath::parse(text).is_err(), "{text:?}");
    }
}

#[tokio::test]
async fn names_differing_only_in_case_are_one_file_only_on_a_case_insensitive_disk() {
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

/// A backend that swaps a directory and a link at each `resolve`.
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
    forward!([.inner]; stat, read, list, write, delete, glob, grep, pinned);

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(async move {
            let real = self.inner.resolve(state, path).await;
            self.exchange();
            real
        })
    }
}

/// A workspace with a directory `s` and a link `t` to another directory.
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
async fn swapping_a_directory_for_a_link_after_the_check_bypasses_no_rule() {
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
async fn a_directory_swap_between_allowed_places_redirects_the_call() {
    let dir = exchanged("open");
    let local = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let inner = Arc::new(Exchanging { inner: local.clone(), work: dir.path().to_owned() });
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/secret/**"])]).unwrap();
    let backend = PermissionedBackend::new(inner, rules.clone(), OnAsk::Refuse);
    let (state, path) = (State::default(), p("/s/f"));
    let read = backend.read(&state, &path, ByteRange::ALL).await.unwrap();
    assert_eq!(read.bytes, "open");
    // A stable link is followed, and paths are reported as requested.
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
async fn a_path_pinned_to_its_target_leads_nowhere_else() {
    let dir = exchanged("secret");
    let backend = LocalBackend::open(dir.path()).unwrap();
    let state = State::default();
    let led = backend.pinned(&p("/t/f"), &p("/t/f")).unwrap();
    let elsewhere = FsError::LeadsElsewhere(p("/t/f"));
    assert_eq!(led.read(&state, &p("/t/f"), ByteRange::ALL).await.unwrap_err(), elsewhere);
    assert_eq!(led.write(&state, &p("/t/f"), "x".into(), WriteMode::Overwrite).await.unwrap_err(), elsewhere);
    assert_eq!(led.delete(&state, &p("/t/f")).await.unwrap_err(), elsewhere);
    // The same behind rules, which resolve paths themselves.
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/elsewhere"])]).unwrap();
    let ruled = PermissionedBackend::new(Arc::new(backend.clone()), rules, OnAsk::Allow);
    let led = ruled.pinned(&p("/t/f"), &p("/t/f")).unwrap();
    assert_eq!(led.delete(&state, &p("/t/f")).await.unwrap_err(), elsewhere);
    assert!(dir.path().join("secret/f").exists());
    let led = backend.pinned(&p("/t/f"), &p("/secret/f")).unwrap();
    assert_eq!(led.read(&state, &p("/t/f"), ByteRange::ALL).await.unwrap().bytes, SECRET);
}
