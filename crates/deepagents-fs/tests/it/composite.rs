use std::sync::Arc;
use std::time::Duration;

use deepagents_core::store::MemoryStore;
use deepagents_fs::permissions::AccessMode;
use deepagents_fs::search::{GlobQuery, GrepQuery, Truncation};
use deepagents_fs::{
    Backend, CompositeBackend, FsError, LocalBackend, OverlayBackend, ReadOnly, StateBackend, StoreBackend,
};

use crate::spy::Spy;
use crate::suite::{Files, p, shown};

/// A disk backend with a state backend at `/mem` and another disk at `/mem/deep/disk`.
async fn composite() -> (Files, [tempfile::TempDir; 2]) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let local = |n: usize| Arc::new(LocalBackend::open(dirs[n].path()).unwrap());
    // Hidden by a route.
    std::fs::create_dir(dirs[0].path().join("mem")).unwrap();
    std::fs::write(dirs[0].path().join("mem/hidden.py"), "hit").unwrap();
    let composite = CompositeBackend::new(local(0))
        .route(p("/mem"), Arc::new(StateBackend::new()))
        .route(p("/mem/deep/disk"), local(1));
    let mut files = Files::new(Arc::new(composite));
    for path in ["/a.py", "/mem-evil/x.py", "/z.py", "/mem/m.py", "/mem/n/o.py", "/mem/deep/disk/d.py"] {
        files.write(path, "hit\nmiss\nhit\n").await.unwrap();
    }
    (files, dirs)
}

#[tokio::test]
async fn the_longest_matching_route_gets_the_path() {
    let (files, dirs) = composite().await;
    assert!(dirs[0].path().join("mem-evil/x.py").exists());
    assert!(dirs[1].path().join("d.py").exists());
    assert!(!dirs[0].path().join("mem/m.py").exists());
    assert_eq!(files.read("/mem/n/o.py").await.unwrap(), b"hit\nmiss\nhit\n");
    assert_eq!(files.read("/mem/hidden.py").await.unwrap_err(), FsError::NotFound(p("/mem/hidden.py")));
}

#[tokio::test]
async fn listings_show_each_route_once_and_hide_what_it_covers() {
    let (files, _dirs) = composite().await;
    assert_eq!(files.list("/").await.unwrap(), ["/a.py", "/mem/", "/mem-evil/", "/z.py"]);
    assert_eq!(files.list("/mem").await.unwrap(), ["/mem/deep/", "/mem/m.py", "/mem/n/"]);
    assert_eq!(files.list("/mem/deep").await.unwrap(), ["/mem/deep/disk/"]);
    assert_eq!(files.list("/mem/deep/disk").await.unwrap(), ["/mem/deep/disk/d.py"]);
}

#[tokio::test]
async fn a_missing_directory_is_empty_on_a_route_without_directories() {
    let (files, _dirs) = composite().await;
    assert_eq!(files.list("/mem/none").await.unwrap(), Vec::<String>::new());
    for path in ["/none", "/mem/deep/disk/none"] {
        assert_eq!(files.list(path).await.unwrap_err(), FsError::NotFound(p(path)));
    }
}

#[tokio::test]
async fn searches_cover_all_backends() {
    let (files, _dirs) = composite().await;
    let all = ["/a.py", "/mem-evil/x.py", "/mem/deep/disk/d.py", "/mem/m.py", "/mem/n/o.py", "/z.py"];
    assert_eq!(files.found("/", "*.py").await, all);
    assert_eq!(files.found("/mem", "**/*.py").await, all[2..5]);
    assert_eq!(files.found("/", "mem/*.py").await, ["/mem/m.py"]);
    assert_eq!(files.found("/", "mem/**/d.py").await, ["/mem/deep/disk/d.py"]);
    assert_eq!(files.found("/mem/deep", "*").await, ["/mem/deep/disk/d.py"]);
    let only = GrepQuery::new("hit", p("/")).only("mem/**/*.py").unwrap();
    assert_eq!(files.grep(&only).await.unwrap().files.len(), 3, "a pattern may go through a route");
    let every = shown(&files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap());
    assert_eq!(every.len(), 12);
    for max in [0, 1, 5, 11, 12, 13] {
        let out = files.grep(&GrepQuery { max_count: Some(max), ..GrepQuery::new("hit", p("/")) }).await.unwrap();
        assert_eq!(shown(&out), every[..max.min(12)]);
        assert_eq!(out.truncation, (max < 12).then_some(Truncation::Limit));
    }
    for max in [0, 1, 5, 6, 7] {
        let out =
            files.glob(&GlobQuery { max_files: Some(max), ..GlobQuery::new("*", p("/")).unwrap() }).await.unwrap();
        assert_eq!((out.files.len(), out.truncation), (max.min(6), (max < 6).then_some(Truncation::Limit)));
    }
}

#[tokio::test]
async fn routes_cannot_be_replaced_or_deleted() {
    let (mut files, _dirs) = composite().await;
    for path in ["/", "/mem", "/mem/deep", "/mem/deep/disk"] {
        assert_eq!(files.delete(path).await.unwrap_err(), FsError::Fixed(p(path)));
        assert_eq!(files.write(path, "x").await.unwrap_err(), FsError::IsDirectory(p(path)));
        assert_eq!(files.backend.change_access(&p(path)).await, AccessMode::Allow, "{path}: nobody is asked in vain");
    }
    assert_eq!(files.backend.change_access(&p("/mem/deep/disk/AGENTS.md")).await, AccessMode::Ask);
    files.delete("/mem/n").await.unwrap();
    assert_eq!(files.list("/mem").await.unwrap(), ["/mem/deep/", "/mem/m.py"]);
}

#[tokio::test]
async fn errors_show_the_full_path() {
    let (mut files, _dirs) = composite().await;
    let missing = files.read("/mem/deep/disk/none").await.unwrap_err();
    assert_eq!(missing.to_string(), "/mem/deep/disk/none does not exist");
    assert_eq!(files.write("/mem/m.py/x", "").await.unwrap_err(), FsError::NotADirectory(p("/mem/m.py")));
    let query = GrepQuery::new("x", p("/mem/none"));
    assert_eq!(files.grep(&query).await.unwrap_err(), FsError::NotFound(p("/mem/none")));
}

#[tokio::test]
async fn two_routes_into_one_state_are_kept_apart_by_their_directories() {
    let state = |path: &str| Arc::new(StateBackend::new().under(p(path)));
    let composite = CompositeBackend::new(state("/")).route(p("/a"), state("/a")).route(p("/b"), state("/b"));
    let mut files = Files::new(Arc::new(composite));
    for path in ["/x", "/a/x", "/b/x"] {
        files.write(path, path.to_owned()).await.unwrap();
    }
    assert_eq!(files.found("/", "x").await, ["/a/x", "/b/x", "/x"]);
    assert_eq!(files.read("/a/x").await.unwrap(), b"/a/x");
    files.delete("/a/x").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a/", "/b/", "/x"]);
    assert!(files.list("/a").await.unwrap().is_empty());
}

#[tokio::test]
async fn backends_are_searched_concurrently() {
    let meet = Arc::new(tokio::sync::Barrier::new(3));
    let spy = || Spy {
        meet: Some(meet.clone()),
        ..Spy::on(StoreBackend::new(Arc::new(MemoryStore::default()), vec!["n".to_owned()]))
    };
    let stores = || Arc::new(spy());
    let composite = CompositeBackend::new(stores()).route(p("/a"), stores()).route(p("/a/b"), stores());
    let mut files = Files::new(Arc::new(composite));
    for path in ["/x", "/a/x", "/a/b/x"] {
        files.write(path, "hit").await.unwrap();
    }
    // Sequential searches would wait forever.
    let soon = Duration::from_secs(60);
    assert_eq!(tokio::time::timeout(soon, files.found("/", "*")).await.unwrap(), ["/a/b/x", "/a/x", "/x"]);
    let lines = tokio::time::timeout(soon, files.lines_with(&GrepQuery::new("hit", p("/")))).await.unwrap();
    assert_eq!(lines, ["/a/b/x:1:hit", "/a/x:1:hit", "/x:1:hit"]);
}

/// A backend that always fails.
fn broken() -> Arc<LocalBackend> {
    let dir = tempfile::tempdir().unwrap();
    let backend = LocalBackend::open(dir.path()).unwrap();
    drop(dir);
    Arc::new(backend)
}

#[tokio::test]
async fn a_backend_that_cannot_be_searched_is_reported_beside_the_others_results() {
    let composite = CompositeBackend::new(Arc::new(StateBackend::new())).route(p("/gone"), broken());
    let mut files = Files::new(Arc::new(composite));
    files.write("/x", "hit").await.unwrap();
    let out = files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap();
    assert_eq!(shown(&out), ["/x:1:hit"]);
    let out = files.glob(&GlobQuery::new("*", p("/")).unwrap()).await.unwrap();
    assert_eq!(out.files, [p("/x")]);
    for error in out.errors.errors {
        assert!(error.path().starts_with(&p("/gone")), "{error}");
    }
    assert!(files.list("/").await.unwrap().contains(&"/gone/".to_owned()));
}

#[tokio::test]
async fn beside_a_disk_a_file_in_a_store_is_no_directory_and_a_missing_directory_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Backend> = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let mut files = Files::new(Arc::new(CompositeBackend::new(disk).route(p("/kept"), Arc::new(StateBackend::new()))));
    files.write("/kept/note", "hit").await.unwrap();
    for path in ["/kept/note", "/kept/note/below"] {
        assert_eq!(files.list(path).await.unwrap_err(), FsError::NotADirectory(p("/kept/note")));
    }
    assert_eq!(files.list("/kept/none").await.unwrap(), [""; 0]);
    assert_eq!(files.list("/none").await.unwrap_err(), FsError::NotFound(p("/none")));
}

#[tokio::test]
async fn an_invalid_pattern_is_an_error_however_many_backends_are_searched() {
    let composite =
        CompositeBackend::new(Arc::new(StateBackend::new())).route(p("/kept"), Arc::new(StateBackend::new()));
    let files = Files::new(Arc::new(composite));
    let query = GrepQuery { regex: true, ..GrepQuery::new("(", p("/")) };
    assert!(matches!(files.grep(&query).await, Err(FsError::Pattern { .. })));
}

#[tokio::test]
async fn the_topmost_routes_are_where_commands_see_no_files() {
    let (dir, state) = (tempfile::tempdir().unwrap(), || Arc::new(StateBackend::new()));
    let disk = || Arc::new(LocalBackend::open(dir.path()).unwrap());
    let routes = CompositeBackend::new(disk())
        .route(p("/mem"), state())
        .route(p("/mem-2"), disk())
        .route(p("/mem/deep"), state());
    assert_eq!(ReadOnly::new(routes).shell_unreachable(), [p("/mem"), p("/mem-2")]);
    assert_eq!(disk().shell_unreachable(), []);
    assert_eq!(CompositeBackend::new(state()).route(p("/disk"), disk()).shell_unreachable(), [p("/")]);
}

#[test]
fn directories_are_supported_if_one_of_the_backends_supports_them() {
    let state = || -> Arc<dyn Backend> { Arc::new(StateBackend::new()) };
    let dir = tempfile::tempdir().unwrap();
    let local: Arc<dyn Backend> = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let over = |lower| OverlayBackend::new(state(), lower).capabilities().directories;
    assert!(local.capabilities().directories && !state().capabilities().directories);
    assert!(!CompositeBackend::new(state()).route(p("/kept"), state()).capabilities().directories);
    assert!(CompositeBackend::new(state()).route(p("/disk"), local.clone()).capabilities().directories);
    assert!(!over(state()) && over(local.clone()));
    assert!(!ReadOnly::new(state()).capabilities().directories && ReadOnly::new(local).capabilities().directories);
}
