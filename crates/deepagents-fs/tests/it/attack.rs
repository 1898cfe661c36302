//! Directories built to lead an agent outside, or to hang or crash it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deepagents_fs::search::{GlobQuery, GrepQuery};
use deepagents_fs::{FsError, Kind, LocalBackend, LocalOptions, PortableBackend, UndoStore};
use deepagents_testing::skip::{self, skip};
use tempfile::TempDir;

use crate::semantics::in_thread;
use crate::suite::{Files, p};

/// A workspace next to a directory with a secret, opened with and without kernel support, and with recorded changes.
struct Setup {
    dir: TempDir,
    files: Vec<Files>,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let open = |kernel| {
            let options = LocalOptions { kernel_resolution: kernel, ..LocalOptions::default() };
            Files::new(Arc::new(LocalBackend::open_with(dir.path().join("work"), options).unwrap()))
        };
        let recorded = |kernel| {
            let store = UndoStore::at(dir.path().join("undo.db"));
            let options = LocalOptions { kernel_resolution: kernel, undo: Some(store), ..LocalOptions::default() };
            in_thread(Files::new(Arc::new(LocalBackend::open_with(dir.path().join("work"), options).unwrap())))
        };
        let files = vec![open(true), open(false), recorded(true), recorded(false)];
        Self { dir, files }
    }

    fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.work().join(name)).unwrap();
    }

    fn secret(&self) -> std::path::PathBuf {
        self.dir.path().join("outside/secret")
    }

    fn untouched(&self) {
        assert_eq!(std::fs::read(self.secret()).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(self.dir.path().join("outside")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn links_that_lead_outside_are_refused_by_every_operation() {
    let mut setup = Setup::new();
    setup.link("../outside/secret", "relative");
    setup.link(setup.secret(), "absolute");
    setup.link("../outside", "dir");
    setup.link("/", "whole");
    setup.link("/proc/self/cwd", "magic");
    setup.link("sub/../../outside", "winding");
    setup.link("relative", "chain");
    std::fs::create_dir(setup.work().join("sub")).unwrap();
    let host = setup.dir.path().to_str().unwrap().to_owned();
    for files in &mut setup.files {
        for path in [
            "/relative",
            "/absolute",
            "/chain",
            "/dir/secret",
            "/dir/new",
            "/whole/etc/passwd",
            "/magic/x",
            "/winding/secret",
        ] {
            let outside = FsError::Outside(p(path));
            assert_eq!(files.read(path).await.unwrap_err(), outside, "{path}");
            assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), outside, "{path}");
            assert_eq!(files.write(path, "x").await.unwrap_err(), outside, "{path}");
            assert_eq!(files.list(path).await.unwrap_err(), outside, "{path}");
            assert!(!outside.to_string().contains(&host));
        }
        for path in ["/dir/secret", "/dir/new/deep", "/whole/etc", "/winding/secret"] {
            assert_eq!(files.delete(path).await.unwrap_err(), FsError::Outside(p(path)), "{path}");
        }
    }
    setup.untouched();
}

#[tokio::test]
async fn deleting_a_link_does_not_delete_its_target() {
    for which in 0..2 {
        let mut setup = Setup::new();
        std::fs::create_dir(setup.work().join("kept")).unwrap();
        std::fs::write(setup.work().join("kept/file"), "x").unwrap();
        setup.link("kept", "inside");
        setup.link("../outside", "outside");
        setup.link("nowhere", "dangling");
        setup.link("loop", "loop");
        std::fs::create_dir(setup.work().join("tree")).unwrap();
        symlink("../kept", setup.work().join("tree/link")).unwrap();
        symlink("../../outside", setup.work().join("tree/out")).unwrap();
        for path in ["/inside", "/outside", "/dangling", "/loop", "/tree"] {
            setup.files[which].delete(path).await.unwrap();
        }
        assert_eq!(setup.files[which].list("/").await.unwrap(), ["/kept/"]);
        assert_eq!(setup.files[which].list("/kept").await.unwrap(), ["/kept/file"]);
        setup.untouched();
    }
}

#[tokio::test]
async fn links_inside_are_followed_and_writes_go_to_their_targets() {
    for which in 0..2 {
        let mut setup = Setup::new();
        std::fs::create_dir_all(setup.work().join("a/b")).unwrap();
        std::fs::write(setup.work().join("a/b/file"), "1").unwrap();
        setup.link("a/b", "dir");
        setup.link("dir/file", "file");
        setup.link(setup.work().join("a"), "absolute");
        setup.link("a/b/new", "dangling");
        setup.link("a/b/..", "up");
        let files = &mut setup.files[which];
        for path in ["/dir/file", "/file", "/absolute/b/file", "/up/b/file"] {
            assert_eq!(files.read(path).await.unwrap(), b"1", "{path}");
            assert_eq!(files.backend.resolve(&files.state, &p(path)).await.unwrap(), p("/a/b/file"), "{path}");
        }
        files.write("/file", "2").await.unwrap();
        files.write("/dangling", "3").await.unwrap();
        files.write("/dir/x/y", "4").await.unwrap();
        assert_eq!(files.backend.resolve(&files.state, &p("/dir/none/deep")).await.unwrap(), p("/a/b/none/deep"));
        assert_eq!(files.list("/up").await.unwrap(), ["/up/b/"]);
        assert_eq!(files.list("/a/b").await.unwrap(), ["/a/b/file", "/a/b/new", "/a/b/x/"]);
        assert_eq!(files.read("/a/b/file").await.unwrap(), b"2");
        assert!(setup.work().join("file").is_symlink() && setup.work().join("dangling").is_symlink());
    }
}

#[tokio::test]
async fn loops_and_dangling_links_are_errors_and_do_not_hide_a_directory() {
    let mut setup = Setup::new();
    setup.link("b", "a");
    setup.link("a", "b");
    setup.link("self/x", "self");
    setup.link("nowhere/at/all", "dangling");
    std::fs::write(setup.work().join("file"), "x").unwrap();
    for files in &mut setup.files {
        for path in ["/a", "/self", "/a/x"] {
            assert_eq!(files.read(path).await.unwrap_err(), FsError::LinkLoop(p(path)));
            assert_eq!(files.write(path, "x").await.unwrap_err(), FsError::LinkLoop(p(path)));
        }
        assert_eq!(files.read("/dangling").await.unwrap_err(), FsError::NotFound(p("/dangling")));
        let listing = files.backend.list(&files.state, &p("/")).await.unwrap();
        let kinds: Vec<_> = listing.entries.iter().map(|e| (e.path.as_str(), e.kind, e.link)).collect();
        let other = |path| (path, Kind::Other, true);
        assert_eq!(kinds, [other("/a"), other("/b"), other("/dangling"), ("/file", Kind::File, false), other("/self")]);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapping_a_directory_for_a_link_in_mid_operation_never_leads_outside() {
    use rustix::fs::RenameFlags;
    let mut setup = Setup::new();
    std::fs::create_dir(setup.work().join("real")).unwrap();
    std::fs::write(setup.work().join("real/secret"), "inside").unwrap();
    std::fs::create_dir(setup.work().join("real/sub")).unwrap();
    setup.link("../outside", "trap");
    let work = setup.work();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let swapper = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            // `real` alternates between the directory and the link to the outside.
            let (real, trap) = (work.join("real"), work.join("trap"));
            rustix::fs::renameat_with(rustix::fs::CWD, real, rustix::fs::CWD, trap, RenameFlags::EXCHANGE).unwrap();
        }
    });
    for round in 0..2000 {
        for files in &mut setup.files {
            if let Ok(content) = files.read("/real/secret").await {
                assert_eq!(content, b"inside");
            }
            if round % 4 == 0 {
                let _ = files.write("/real/sub/new", "x").await;
                let _ = files.delete("/real/sub/new").await;
                let _ = files.list("/real").await;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    setup.untouched();
}

#[tokio::test]
async fn devices_fifos_and_sockets_are_refused_without_waiting() {
    let mut setup = Setup::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, setup.work().join("fifo"), 0o644.into()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(setup.work().join("socket")).unwrap();
    let zero = std::fs::metadata("/dev/zero").unwrap().rdev();
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        setup.work().join("zero"),
        rustix::fs::FileType::CharacterDevice,
        0o644.into(),
        zero,
    );
    let device = made.is_ok();
    if !device {
        skip("devices", "making one is not permitted here");
    }
    for files in &mut setup.files {
        for path in ["/fifo", "/socket", "/zero"].into_iter().take(if device { 3 } else { 2 }) {
            assert_eq!(files.read(path).await.unwrap_err(), FsError::Special(p(path)));
            assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), FsError::Special(p(path)));
            assert_eq!(files.write(path, "x").await.unwrap_err(), FsError::Special(p(path)));
            assert_eq!(files.backend.stat(&files.state, &p(path)).await.unwrap().kind, Kind::Other);
        }
    }
    setup.files[0].delete("/fifo").await.unwrap();
    assert!(!setup.work().join("fifo").exists());
}

#[tokio::test]
async fn writing_through_a_hard_link_leaves_the_other_name_unchanged() {
    let mut setup = Setup::new();
    std::fs::hard_link(setup.secret(), setup.work().join("hard")).unwrap();
    setup.files[0].write("/hard", "changed").await.unwrap();
    assert_eq!(setup.files[0].read("/hard").await.unwrap(), b"changed");
    setup.untouched();
}

#[tokio::test]
async fn file_modes_are_kept_and_read_only_files_stay_read_only() {
    let mut setup = Setup::new();
    setup.files.push(Files::new(Arc::new(PortableBackend::open(setup.work()).unwrap())));
    let script = setup.work().join("run.sh");
    for files in &mut setup.files {
        std::fs::write(&script, "old").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o4751)).unwrap();
        files.write("/run.sh", "new").await.unwrap();
        // The setuid bit is dropped, so that content written by an agent does not run with another user's rights.
        assert_eq!(std::fs::metadata(&script).unwrap().mode() & 0o7777, 0o751);
    }
    setup.files[0].write("/fresh", "new").await.unwrap();
    assert_eq!(std::fs::metadata(setup.work().join("fresh")).unwrap().mode() & 0o777 & !0o644, 0);
    if rustix::process::geteuid().is_root() {
        skip("unprivileged user", "read-only files are not tried: root may write them");
        return;
    }
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o444)).unwrap();
    assert!(setup.files[0].write("/run.sh", "x").await.is_err());
    assert_eq!(std::fs::read(&script).unwrap(), b"new");
}

#[tokio::test]
async fn unrepresentable_names_are_counted() {
    let mut setup = Setup::new();
    std::fs::write(setup.work().join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    std::fs::write(setup.work().join("back\\slash"), "x").unwrap();
    std::fs::create_dir(setup.work().join("tree")).unwrap();
    std::fs::write(setup.work().join("tree").join(OsStr::from_bytes(b"\xfe")), "x").unwrap();
    for files in &mut setup.files {
        let listing = files.backend.list(&files.state, &p("/")).await.unwrap();
        assert_eq!((listing.entries.len(), listing.unnameable), (1, 2));
        let found = files.glob(&GlobQuery::new("*", p("/")).unwrap()).await.unwrap();
        assert_eq!((found.files.len(), found.errors.count, found.errors.unnameable), (0, 0, 3));
        let found = files.grep(&GrepQuery::new("x", p("/tree"))).await.unwrap();
        assert_eq!((found.matches, found.errors.count, found.errors.unnameable), (0, 0, 1));
    }
    setup.files[0].delete("/tree").await.unwrap();
    assert!(!setup.work().join("tree").exists());
}

#[tokio::test]
async fn a_directory_that_is_deleted_in_part_is_reported_with_how_much_is_gone() {
    if rustix::process::geteuid().is_root() {
        skip("unprivileged user", "no deletion is tried that fails midway: root may delete everything");
        return;
    }
    let mut setup = Setup::new();
    setup.files.push(Files::new(Arc::new(PortableBackend::open(setup.work()).unwrap())));
    let tree = setup.work().join("tree");
    for (index, files) in setup.files.iter_mut().enumerate() {
        std::fs::create_dir_all(tree.join("locked")).unwrap();
        for name in ["a", "b", "locked/c"] {
            std::fs::write(tree.join(name), "x").unwrap();
        }
        std::fs::set_permissions(tree.join("locked"), PermissionsExt::from_mode(0o555)).unwrap();
        let error = files.delete("/tree").await.unwrap_err();
        std::fs::set_permissions(tree.join("locked"), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(tree.join("locked/c").exists());
        let gone = ["a", "b"].iter().filter(|name| !tree.join(name).exists()).count() as u64;
        // The portable backend deletes in the order of the directory.
        assert!(gone == 2 || index == 4);
        let cause = FsError::io(&p("/tree"), std::io::ErrorKind::PermissionDenied, "permission denied");
        if gone == 0 {
            assert_eq!(error, cause);
            continue;
        }
        assert_eq!(error, FsError::PartlyDeleted { removed: gone, source: Box::new(cause) });
        let text = format!("/tree: permission denied; {gone} of the entries below it are already deleted");
        assert_eq!((error.to_string(), error.path()), (text, &p("/tree")));
    }
}

#[tokio::test]
async fn the_longest_names_work_and_longer_ones_are_errors() {
    let mut setup = Setup::new();
    for files in &mut setup.files {
        let longest = format!("/{}", "n".repeat(255));
        files.write(&longest, "x").await.unwrap();
        assert_eq!(files.read(&longest).await.unwrap(), b"x");
        files.delete(&longest).await.unwrap();
        let longer = format!("/{}", "n".repeat(256));
        assert!(matches!(files.write(&longer, "x").await.unwrap_err(), FsError::BadName { .. }));
        assert!(matches!(files.read(&longer).await.unwrap_err(), FsError::BadName { .. }));
    }
}

#[tokio::test]
async fn trees_too_deep_for_one_system_call_work() {
    let mut setup = Setup::new();
    let path = format!("/deep{}/file", "/0123456789".repeat(1000));
    for files in &mut setup.files {
        files.write(&path, "x").await.unwrap();
        assert_eq!(files.read(&path).await.unwrap(), b"x");
        files.delete("/deep").await.unwrap();
        assert!(files.list("/").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_failed_write_leaves_no_directories() {
    let mut setup = Setup::new();
    std::fs::create_dir(setup.work().join("there")).unwrap();
    for files in &mut setup.files {
        let long = "n".repeat(256);
        for path in [format!("/new/deep/{long}"), format!("/there/new/{long}/x"), "/new/.git/x".to_owned()] {
            files.write(&path, "x").await.unwrap_err();
        }
        let version = deepagents_fs::Version::new("another");
        files.write_mode("/new/f", "x", deepagents_fs::WriteMode::IfVersion(version)).await.unwrap_err();
        assert_eq!(files.list("/").await.unwrap(), ["/there/"]);
        assert!(files.list("/there").await.unwrap().is_empty());
        files.write("/there/new/f", "x").await.unwrap();
        files.write(&format!("/there/new/{long}"), "x").await.unwrap_err();
        assert_eq!(files.read("/there/new/f").await.unwrap(), b"x");
        files.delete("/there/new").await.unwrap();
    }
}

#[tokio::test]
async fn a_huge_file_is_deleted_without_being_read() {
    let mut setup = Setup::new();
    for which in 0..4 {
        std::fs::create_dir_all(setup.work().join("tree")).unwrap();
        for name in ["huge", "tree/huge"] {
            let file = std::fs::File::create(setup.work().join(name)).unwrap();
            // Reading a sparse terabyte takes minutes, hashing it hours.
            file.set_len(1 << 40).unwrap();
        }
        let files = &mut setup.files[which];
        crate::shell::ends(files.delete("/huge")).await.unwrap();
        crate::shell::ends(files.delete("/tree")).await.unwrap();
        assert!(files.list("/").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_tree_containing_a_mount_is_not_deleted_and_stays_whole() {
    // This test runs itself where it may mount an outside directory inside the workspace, on the same disk.
    const ROLE: &str = "a_tree_in_which_something_is_mounted";
    let mut setup = Setup::new();
    std::fs::create_dir_all(setup.work().join("tree/deep/mounted")).unwrap();
    std::fs::write(setup.work().join("tree/file"), "mine").unwrap();
    if std::env::var_os(ROLE).is_none() {
        let name = "attack::a_tree_containing_a_mount_is_not_deleted_and_stays_whole";
        let mut program = std::process::Command::new("unshare");
        program.args(["-Urm", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
        let Ok(told) = program.args([name, "--exact", "--nocapture"]).env(ROLE, "1").output() else {
            return skip("mounts", "there is no unshare");
        };
        skip::pass_on(&told);
        match String::from_utf8_lossy(&told.stdout).contains("running 1 test") {
            true => assert!(told.status.success(), "{told:?}"),
            false => skip("mounts", format_args!("none can be made here: {told:?}")),
        }
        return;
    }
    let mounted = setup.work().join("tree/deep/mounted");
    let mut mount = std::process::Command::new("mount");
    let done = mount.arg("--bind").arg(setup.dir.path().join("outside")).arg(&mounted).output().unwrap();
    if !done.status.success() {
        return skip("mounts", format_args!("{done:?}"));
    }
    setup.files.push(Files::new(Arc::new(PortableBackend::open(setup.work()).unwrap())));
    for which in 0..5 {
        for path in ["/tree", "/tree/deep", "/tree/deep/mounted"] {
            let error = setup.files[which].delete(path).await.unwrap_err();
            assert!(matches!(error, FsError::Fixed(_)), "{which} {path}: {error}");
            setup.untouched();
            assert_eq!(std::fs::read(setup.work().join("tree/file")).unwrap(), b"mine");
        }
    }
    // Only this process has the mount. Without it, the tree can be deleted.
    assert!(std::process::Command::new("umount").arg(&mounted).status().unwrap().success());
    setup.files[0].delete("/tree").await.unwrap();
    setup.untouched();
}

#[tokio::test]
async fn reads_are_size_limited() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "0123456789").unwrap();
    let files = Files::new(Arc::new(
        LocalBackend::open_with(dir.path(), LocalOptions { max_read: 5, ..LocalOptions::default() }).unwrap(),
    ));
    assert_eq!(files.read("/f").await.unwrap_err(), FsError::TooLarge { path: p("/f"), size: 10, limit: 5 });
    let part = deepagents_fs::ByteRange { offset: 7, length: Some(100) };
    assert_eq!(&files.backend.read(&files.state, &p("/f"), part).await.unwrap().bytes[..], b"789");
    assert_eq!(files.lines("/f", 0, 1).await.unwrap().lines, ["0123456789"]);
}

#[test]
fn a_workspace_must_be_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "").unwrap();
    assert!(LocalBackend::open(dir.path().join("f")).is_err());
    assert!(LocalBackend::open(dir.path().join("none")).is_err());
}
