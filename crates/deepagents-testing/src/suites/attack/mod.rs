//! A directory that tries to lead a backend outside of it. For the tests of anyone who writes a backend for
//! directories:
//!
//! ```
//! use std::sync::Arc;
//! use deepagents_fs::{LocalBackend, VPath};
//! use deepagents_testing::suites::attack::Trap;
//! # let (dir, root) = (tempfile::tempdir().unwrap(), VPath::parse("/").unwrap());
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let trap = Trap::set(dir.path());
//! let backend = LocalBackend::open(trap.work()).unwrap();
//! trap.attack(Arc::new(backend), &root).await;
//! # });
//! ```
#![allow(clippy::disallowed_methods, reason = "what is attacked are files of the test's own")]

mod attempts;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents_fs::{Backend, VPath};
use rustix::fs::{CWD, mkfifoat};

use self::attempts::{attempts, try_all_operations};
use super::backend::Files;

const SECRET: &str = "the-secret-words";
const CONFIG: &str = "[core]\n";

/// A workspace full of traps, next to a directory that holds a secret.
#[derive(Debug)]
pub struct Trap {
    dir: PathBuf,
    repositories: bool,
}

impl Trap {
    /// Creates the traps in an empty directory.
    ///
    /// # Panics
    /// Panics if the directory cannot be written.
    pub fn set(dir: &Path) -> Self {
        let (outside, work) = (dir.join("outside"), dir.join("work"));
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
        mkfifoat(CWD, work.join("fifo"), 0o644.into()).unwrap();
        std::fs::write(work.join(OsStr::from_bytes(b"bad\xffname")), "x").unwrap();
        std::fs::write(work.join("huge"), "first line\n").unwrap();
        std::fs::OpenOptions::new().write(true).open(work.join("huge")).unwrap().set_len(1 << 40).unwrap();
        for name in ["foo..bar", "[...slug]", "new\nline", "🦀", "Case"] {
            std::fs::write(work.join(name), name).unwrap();
        }
        Self { dir: dir.to_owned(), repositories: true }
    }

    /// Allows the backend to change Git's own files in a repository. The backends of this library do not.
    #[must_use]
    pub fn without_repositories(mut self) -> Self {
        self.repositories = false;
        self
    }

    /// Returns the workspace in which to open the backend.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Tries every operation on paths that climb, follow links, are too long or are not regular files. Checks that
    /// nothing outside the workspace is read, written or named, and that a refusal is an error and not a panic.
    ///
    /// On Linux, it also exchanges a directory for a link while operations run. `below` is the workspace's path in the
    /// backend.
    ///
    /// Outside the exchange, what is read is searched for the words of the secret. If the backend changes contents, as
    /// one that encrypts them does, also attack the backend that it wraps.
    ///
    /// # Panics
    /// Panics if the backend leaves the workspace.
    pub async fn attack(&self, backend: Arc<dyn Backend>, below: &VPath) {
        let mut files = Files::new(backend);
        let host = self.dir.to_string_lossy().into_owned();
        for attempt in attempts() {
            let Ok(path) = VPath::parse(&attempt) else { continue };
            let path = path.under(below);
            for told in try_all_operations(&mut files, &path).await {
                assert!(!told.contains(SECRET), "{attempt:?} tells what is outside: {told}");
                assert!(!told.contains(&host), "{attempt:?} names the directory of the host: {told}");
                assert!(!told.contains("root:x:0"), "{attempt:?} tells what is outside: {told}");
            }
            self.assert_untouched(&format!("after {attempt:?}"));
        }
        #[cfg(target_os = "linux")]
        self.race(&mut files, below).await;
    }

    /// Exchanges a directory and a link to the outside while the backend works there.
    #[cfg(target_os = "linux")]
    async fn race(&self, files: &mut Files, below: &VPath) {
        use std::sync::atomic::{AtomicBool, Ordering};

        use deepagents_fs::search::GrepQuery;
        use deepagents_fs::{ByteRange, WriteMode};
        use rustix::fs::{RenameFlags, renameat_with};

        /// Stops the thread when dropped, however the test ends.
        struct Ends(Arc<AtomicBool>);

        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let (real, trap) = (self.work().join("swapped"), self.work().join("swapped-for"));
        std::fs::create_dir_all(real.join("sub")).unwrap();
        std::fs::write(real.join("secret"), "inside").unwrap();
        symlink("../outside", &trap).unwrap();
        let at = |name: &str| super::backend::p(name).under(below);
        let (secret, new, place) = (at("/swapped/secret"), at("/swapped/sub/new"), at("/swapped"));
        let inside = files.backend.read(&files.state, &secret, ByteRange::ALL).await.ok().map(|read| read.bytes);
        let ended = Arc::new(AtomicBool::new(false));
        let (ends, flag) = (Ends(ended.clone()), ended);
        let swapper = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                renameat_with(CWD, &real, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..500 {
            if let Ok(read) = files.backend.read(&files.state, &secret, ByteRange::ALL).await {
                assert_eq!(Some(&read.bytes), inside.as_ref(), "a link that came under way was followed");
            }
            let found = files.backend.grep(&files.state, &GrepQuery::new("secret", place.clone())).await;
            assert!(!format!("{found:?}").contains(SECRET), "{found:?}");
            if let Ok(written) = files.backend.write(&files.state, &new, "x".into(), WriteMode::Overwrite).await {
                files.state.apply(&written.update).unwrap();
            }
            if let Ok(update) = files.backend.delete(&files.state, &new).await {
                files.state.apply(&update).unwrap();
            }
        }
        drop(ends);
        swapper.join().unwrap();
        self.assert_untouched("while a directory was exchanged for a link");
    }

    /// Checks that nothing outside the workspace or belonging to Git has changed.
    ///
    /// # Panics
    /// Panics if anything has.
    pub fn assert_untouched(&self, when: &str) {
        let outside = self.dir.join("outside");
        let names = |dir: &Path| {
            let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), SECRET, "{when}");
        assert_eq!(std::fs::read_to_string(outside.join("sub/secret")).unwrap(), SECRET, "{when}");
        assert_eq!(names(&outside), ["secret", "sub"], "{when}");
        assert_eq!(names(&self.dir), ["outside", "work"], "{when}");
        if !self.repositories {
            return;
        }
        for (repository, held) in [(".git", vec!["config", "hooks"]), ("sub/repo/.git", vec!["config"])] {
            let repository = self.work().join(repository);
            assert_eq!(std::fs::read_to_string(repository.join("config")).unwrap(), CONFIG, "{when}");
            assert_eq!(names(&repository), held, "{when}");
        }
        assert!(names(&self.work().join(".git/hooks")).is_empty(), "{when}");
    }
}
