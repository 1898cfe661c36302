//! Changes of an overlay are made in the files below it, or dropped.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use deepagents_fs::{
    ApplyError, Backend, ByteRange, FsError, FsFuture, LocalBackend, OverlayBackend, OverlayChange, OverlayChangeKind,
    PortableBackend, ReadOnly, StateBackend, VPath, WriteMode, Written, forward,
};
use deepagents_testing::backend_suite;
use deepagents_testing::suites::attack::Trap;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::suite::{Files, p};

/// An overlay whose changes are kept in the state, over files on disk.
struct Draft {
    dir: TempDir,
    overlay: OverlayBackend,
    files: Files,
}

impl Draft {
    fn of(project: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in project {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let overlay = OverlayBackend::new(StateBackend::new(), LocalBackend::open(dir.path()).unwrap());
        let files = Files::new(Arc::new(overlay.clone()));
        Self { dir, overlay, files }
    }

    async fn changes(&self) -> Vec<OverlayChange> {
        self.overlay.changes(&self.files.state).await.unwrap()
    }

    async fn apply(&mut self, changes: &[OverlayChange]) -> Result<(), ApplyError> {
        let applied = self.overlay.apply(&self.files.state, changes).await?;
        assert_eq!(applied.left, None);
        self.files.state.apply(&applied.update).unwrap();
        Ok(())
    }

    async fn discard(&mut self, changes: &[OverlayChange]) -> Result<(), FsError> {
        let update = self.overlay.discard(&self.files.state, changes).await?;
        self.files.state.apply(&update).unwrap();
        Ok(())
    }
}

/// The files of a directory with their contents, and its directories.
fn tree(directory: &Path) -> BTreeMap<String, String> {
    let (mut found, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(above) = directories.pop() {
        for entry in fs::read_dir(above).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                found.insert(format!("{name}/"), String::new());
                directories.push(path);
            } else {
                found.insert(name, fs::read_to_string(&path).unwrap_or_else(|_| "a link".to_owned()));
            }
        }
    }
    found
}

fn names(changes: &[OverlayChange]) -> Vec<(&str, OverlayChangeKind)> {
    changes.iter().map(|change| (change.path.as_str(), change.kind)).collect()
}

#[tokio::test]
async fn applied_changes_are_in_the_files_below_and_no_longer_in_the_overlay() {
    let mut draft =
        Draft::of(&[("README", "old"), ("src/a", "a"), ("src/deep/b", "b"), ("gone/c", "c"), ("kept", "k")]);
    draft.files.write("/README", "new").await.unwrap();
    draft.files.write("/made/here/x", "x").await.unwrap();
    draft.files.delete("/gone").await.unwrap();
    // A file in place of a directory, and a directory in place of a file.
    draft.files.delete("/src").await.unwrap();
    draft.files.write("/src", "a file now").await.unwrap();
    draft.files.delete("/kept").await.unwrap();
    draft.files.write("/kept/y", "y").await.unwrap();
    let changes = draft.changes().await;
    draft.apply(&changes).await.unwrap();
    let want = [
        ("README", "new"),
        ("kept/", ""),
        ("kept/y", "y"),
        ("made/", ""),
        ("made/here/", ""),
        ("made/here/x", "x"),
        ("src", "a file now"),
    ];
    assert_eq!(tree(draft.dir.path()), want.map(|(path, content)| (path.to_owned(), content.to_owned())).into());
    assert_eq!(draft.changes().await, []);
    // Nothing of the overlay hides what happens to the files later.
    fs::write(draft.dir.path().join("README"), "newer").unwrap();
    fs::create_dir(draft.dir.path().join("gone")).unwrap();
    fs::write(draft.dir.path().join("gone/c"), "again").unwrap();
    assert_eq!(draft.files.read("/README").await.unwrap(), b"newer");
    assert_eq!(draft.files.read("/gone/c").await.unwrap(), b"again");
}

#[tokio::test]
async fn only_the_chosen_changes_are_applied_or_discarded() {
    use OverlayChangeKind::{Added, Deleted, Modified};

    let mut draft = Draft::of(&[("src/a", "a"), ("src/b", "b"), ("src/sub/c", "c"), ("other", "o")]);
    draft.files.delete("/src").await.unwrap();
    draft.files.write("/src/b", "new").await.unwrap();
    draft.files.write("/src/new", "n").await.unwrap();
    let changes = draft.changes().await;
    let all = [("/src/a", Deleted), ("/src/b", Modified), ("/src/new", Added), ("/src/sub/c", Deleted)];
    assert_eq!(names(&changes), all);

    draft.discard(&changes[..1]).await.unwrap();
    assert_eq!(draft.files.read("/src/a").await.unwrap(), b"a");
    assert_eq!(names(&draft.changes().await), all[1..]);
    assert_eq!(draft.files.found("/", "*").await, ["/other", "/src/a", "/src/b", "/src/new"]);
    assert_eq!(fs::read_to_string(draft.dir.path().join("src/b")).unwrap(), "b");

    draft.apply(&changes[1..2]).await.unwrap();
    assert_eq!(fs::read_to_string(draft.dir.path().join("src/b")).unwrap(), "new");
    assert_eq!(names(&draft.changes().await), all[2..]);
    assert_eq!(draft.files.found("/", "*").await, ["/other", "/src/a", "/src/b", "/src/new"]);

    let rest = draft.changes().await;
    draft.apply(&rest).await.unwrap();
    assert!(!draft.dir.path().join("src/sub").exists() && draft.dir.path().join("src/new").exists());
    assert_eq!(draft.changes().await, []);
}

#[tokio::test]
async fn a_deletion_is_not_dropped_while_something_takes_the_place_of_what_was_deleted() {
    let mut draft = Draft::of(&[("README", "old")]);
    draft.files.delete("/README").await.unwrap();
    draft.files.write("/README/x", "x").await.unwrap();
    let changes = draft.changes().await;
    assert_eq!(draft.discard(&changes[..1]).await.unwrap_err(), FsError::IsDirectory(p("/README")));
    assert_eq!(draft.files.read("/README/x").await.unwrap(), b"x");
    draft.discard(&changes).await.unwrap();
    assert_eq!(draft.files.read("/README").await.unwrap(), b"old");
    assert_eq!(draft.changes().await, []);
}

#[tokio::test]
async fn nothing_is_applied_if_a_file_has_changed_in_either_layer() {
    for changed in ["below", "deleted below", "above", "made below"] {
        let mut draft = Draft::of(&[("a", "a"), ("b", "b")]);
        draft.files.write("/a", "new").await.unwrap();
        draft.files.write("/b", "new").await.unwrap();
        draft.files.write("/c", "new").await.unwrap();
        let changes = draft.changes().await;
        let stale = match changed {
            "below" => fs::write(draft.dir.path().join("b"), "theirs").map(|()| "/b"),
            "deleted below" => fs::remove_file(draft.dir.path().join("b")).map(|()| "/b"),
            "made below" => fs::write(draft.dir.path().join("c"), "theirs").map(|()| "/c"),
            _ => draft.files.write("/c", "newer").await.map(|_| "/c").map_err(std::io::Error::other),
        };
        let (stale, before) = (p(stale.unwrap()), tree(draft.dir.path()));
        let error = draft.apply(&changes).await.unwrap_err();
        assert!(
            matches!(&error, ApplyError::Stale(paths) if *paths == std::slice::from_ref(&stale)),
            "{changed}: {error:?}"
        );
        assert!(error.to_string().contains("list them again"), "{error}");
        assert_eq!(tree(draft.dir.path()), before, "{changed}");
        let changes = draft.changes().await;
        draft.apply(&changes).await.unwrap();
        assert_eq!(fs::read_to_string(draft.dir.path().join("a")).unwrap(), "new");
        assert_eq!(draft.changes().await, []);
    }
}

#[tokio::test]
async fn what_was_applied_before_a_failure_is_taken_back() {
    let mut draft = Draft::of(&[("a", "a"), (".git/config", "mine"), ("gone", "g")]);
    // Only the write itself finds out where the link leads.
    symlink(".git", draft.dir.path().join("z")).unwrap();
    let before = tree(draft.dir.path());
    draft.files.write("/a", "new").await.unwrap();
    draft.files.write("/made/here/x", "x").await.unwrap();
    draft.files.delete("/gone").await.unwrap();
    draft.files.write("/z/config", "evil").await.unwrap();
    let changes = draft.changes().await;
    let error = draft.apply(&changes).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Failed(FsError::Protected(path)) if *path == p("/z/config")), "{error:?}");
    assert_eq!(tree(draft.dir.path()), before);
    assert_eq!(names(&draft.changes().await), names(&changes));
    // A place that is denied by its name is found before.
    draft.files.write("/.git/new", "evil").await.unwrap();
    let changes = draft.changes().await;
    let error = draft.apply(&changes).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Failed(FsError::Protected(path)) if *path == p("/.git/new")), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_named() {
    let mut draft = Draft::of(&[("a", "a"), ("dir/b", "b")]);
    symlink("a", draft.dir.path().join("link")).unwrap();
    draft.files.delete("/link").await.unwrap();
    draft.files.delete("/dir").await.unwrap();
    draft.files.write("/dir", "a file now").await.unwrap();
    draft.files.write("/a", "new").await.unwrap();
    let changes = draft.changes().await;
    // Not in the list, so it must not be deleted.
    fs::write(draft.dir.path().join("dir/unseen"), "theirs").unwrap();
    let error = draft.apply(&changes).await.unwrap_err();
    let ApplyError::Partly { changed, source } = &error else { panic!("{error:?}") };
    assert_eq!((changed.as_slice(), source), ([p("/link")].as_slice(), &FsError::IsDirectory(p("/dir"))));
    assert!(error.to_string().contains("/link stay changed"), "{error}");
    let left = tree(draft.dir.path());
    let left: Vec<_> = left.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    assert_eq!(left, [("a", "a"), ("dir/", ""), ("dir/b", "b"), ("dir/unseen", "theirs")]);
}

#[tokio::test]
async fn nothing_is_applied_to_files_that_are_read_only() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "a").unwrap();
    let overlay = OverlayBackend::new(StateBackend::new(), ReadOnly::new(LocalBackend::open(dir.path()).unwrap()));
    let mut files = Files::new(Arc::new(overlay.clone()));
    files.write("/a", "new").await.unwrap();
    files.write("/b", "new").await.unwrap();
    let changes = overlay.changes(&files.state).await.unwrap();
    let error = overlay.apply(&files.state, &changes).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Failed(FsError::ReadOnly(_) | FsError::Protected(_))), "{error:?}");
    let update = overlay.discard(&files.state, &changes).await.unwrap();
    files.state.apply(&update).unwrap();
    assert_eq!(files.found("/", "*").await, ["/a"]);
    assert_eq!(files.read("/a").await.unwrap(), b"a");
}

/// An overlay whose changes are applied as soon as they are made.
struct AppliedAtOnce(OverlayBackend);

impl AppliedAtOnce {
    async fn settle(&self, state: &State, path: &VPath, update: Update) -> Result<Update, FsError> {
        let mut now = state.clone();
        now.apply(&update).unwrap();
        let changes = self.0.changes(&now).await?;
        match self.0.apply(&now, &changes).await {
            Ok(applied) => Ok(update.and(applied.update)),
            Err(ApplyError::Failed(error) | ApplyError::Partly { source: error, .. }) => Err(error),
            Err(_) => Err(FsError::Changed(path.clone())),
        }
    }
}

impl Backend for AppliedAtOnce {
    forward!([.0]; stat, read, read_lines, list, glob, grep, resolve, lock, capabilities, change_access, channels);

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            let written = self.0.write(state, path, data, mode).await?;
            let update = self.settle(state, path, written.update).await?;
            let mut now = state.clone();
            now.apply(&update).unwrap();
            Ok(Written { version: self.0.stat(&now, path).await?.version, update })
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { self.settle(state, path, self.0.delete(state, path).await?).await })
    }
}

mod applied_to_a_disk {
    use super::*;
    backend_suite!(async || {
        let dir = tempfile::tempdir().unwrap();
        let overlay = OverlayBackend::new(StateBackend::new(), LocalBackend::open(dir.path()).unwrap());
        Some(Files::new(Arc::new(AppliedAtOnce(overlay))).keeping(dir))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applying_changes_leaves_the_files_below_through_no_path_and_no_swapped_link() {
    for portable in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let trap = Trap::set(dir.path());
        let lower: Arc<dyn Backend> = match portable {
            false => Arc::new(LocalBackend::open(trap.work()).unwrap()),
            true => Arc::new(PortableBackend::open(trap.work()).unwrap()),
        };
        let overlay = OverlayBackend::new(StateBackend::new(), lower);
        trap.attack(Arc::new(AppliedAtOnce(overlay)), &p("/")).await;
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(String, String),
    Delete(String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (path(), "[xyz]{0,2}").prop_map(|(path, content)| Op::Write(path, content)),
        2 => path().prop_map(Op::Delete),
    ]
}

async fn run(files: &mut Files, ops: &[Op]) {
    for op in ops {
        // Some fail, as a file is in the way or nothing is there.
        match op {
            Op::Write(path, content) => drop(files.write(path, content.clone()).await),
            Op::Delete(path) => drop(files.delete(path).await),
        }
    }
}

/// The files of a backend with their contents.
async fn contents(files: &mut Files) -> BTreeMap<String, Bytes> {
    let mut found = BTreeMap::new();
    for path in files.found("/", "*").await {
        let read = files.backend.read(&files.state, &p(&path), ByteRange::ALL).await.unwrap();
        found.insert(path, read.bytes);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_changes_can_be_applied_and_discarded_in_parts(
        project in prop::collection::vec((path(), "[xyz]{0,2}"), 0..12),
        work in prop::collection::vec(op(), 1..16),
        chosen in prop::collection::vec(any::<bool>(), 40),
        on_disk in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (below, above) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let open = |dir: &TempDir| LocalBackend::open(dir.path()).unwrap();
            let overlay = match on_disk {
                true => OverlayBackend::new(open(&above), open(&below)),
                false => OverlayBackend::new(StateBackend::new(), open(&below)),
            };
            let mut lower = Files::new(Arc::new(open(&below)));
            let project: Vec<Op> = project.into_iter().map(|(path, content)| Op::Write(path, content)).collect();
            run(&mut lower, &project).await;
            let mut files = Files::new(Arc::new(overlay.clone()));
            run(&mut files, &work).await;
            let original = contents(&mut lower).await;
            let drafted = contents(&mut files).await;
            let changes = overlay.changes(&files.state).await.unwrap();
            let is_chosen = |at: usize| chosen.get(at).copied().unwrap_or_default();
            let (some, rest): (Vec<_>, Vec<_>) = changes.iter().cloned().enumerate().partition(|(at, _)| is_chosen(*at));
            let some: Vec<OverlayChange> = some.into_iter().map(|(_, change)| change).collect();
            let rest: Vec<OverlayChange> = rest.into_iter().map(|(_, change)| change).collect();

            // A part may be impossible without the rest, such as a file in a directory that takes the place of a file.
            match overlay.apply(&files.state, &some).await {
                Err(ApplyError::Failed(_)) if !rest.is_empty() => {
                    assert_eq!(contents(&mut lower).await, original);
                    return;
                }
                applied => {
                    let applied = applied.unwrap();
                    assert_eq!(applied.left, None);
                    files.state.apply(&applied.update).unwrap();
                }
            }
            assert_eq!(contents(&mut files).await, drafted, "the overlay shows the same files");
            let now = contents(&mut lower).await;
            let left = overlay.changes(&files.state).await.unwrap();
            assert_eq!(names(&left), names(&rest), "the others are still changes");
            for change in &some {
                assert_eq!(now.get(change.path.as_str()), drafted.get(change.path.as_str()), "{change:?}");
            }

            let update = overlay.discard(&files.state, &left).await.unwrap();
            files.state.apply(&update).unwrap();
            assert_eq!(contents(&mut lower).await, now, "discarding changes nothing below");
            assert_eq!(contents(&mut files).await, now, "nothing but the files below is left");
            assert_eq!(overlay.changes(&files.state).await.unwrap(), []);
        });
    }
}
