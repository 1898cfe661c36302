//! The same operations give the same results on every kind of backend.

use std::sync::Arc;

use deepagents_core::store::MemoryStore;
use deepagents_fs::edit::Edit;
use deepagents_fs::search::{GlobQuery, GrepQuery};
use deepagents_fs::{
    CompositeBackend, LocalBackend, LocalOptions, OverlayBackend, StateBackend, StoreBackend, UndoStore, WriteMode,
};
use proptest::prelude::*;

use crate::semantics::{Inside, in_thread};
use crate::suite::{Files, p, shown};

#[derive(Clone, Debug)]
enum Op {
    Write(String, String),
    Create(String, String),
    Edit(String, String, String, bool),
    Delete(String),
    Read(String),
    Lines(String, u64, u64),
    List(String),
    Glob(String, &'static str),
    Grep(String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", ".c"]), 0..4).prop_map(|c| format!("/{}", c.join("/")))
}

fn content() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "\n", "\r\n", "é"]), 0..8).prop_map(|c| c.concat())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (path(), content()).prop_map(|(p, c)| Op::Write(p, c)),
        1 => (path(), content()).prop_map(|(p, c)| Op::Create(p, c)),
        3 => (path(), content(), content(), any::<bool>()).prop_map(|(p, o, n, a)| Op::Edit(p, o, n, a)),
        1 => path().prop_map(Op::Delete),
        1 => path().prop_map(Op::Read),
        1 => (path(), 0_u64..4, 0_u64..4).prop_map(|(p, o, l)| Op::Lines(p, o, l)),
        1 => path().prop_map(Op::List),
        1 => (path(), prop::sample::select(vec!["*", "**/a", "b/*", ".c/**"])).prop_map(|(p, g)| Op::Glob(p, g)),
        1 => path().prop_map(Op::Grep),
    ]
}

async fn run(files: &mut Files, op: &Op) -> String {
    match op.clone() {
        Op::Write(path, content) => format!("{:?}", files.write(&path, content).await.map(drop)),
        Op::Create(path, content) => {
            format!("{:?}", files.write_mode(&path, content, WriteMode::Create).await.map(drop))
        }
        Op::Edit(path, old, new, replace_all) => {
            format!("{:?}", files.edit(&path, &[Edit { old, new, replace_all }]).await.map(|e| (e.replaced, e.after)))
        }
        Op::Delete(path) => format!("{:?}", files.delete(&path).await),
        Op::Read(path) => format!("{:?}", files.read(&path).await),
        Op::Lines(path, offset, limit) => {
            format!("{:?}", files.lines(&path, offset, limit).await.map(|w| (w.lines, w.total, w.next, w.end)))
        }
        Op::List(path) => format!("{:?}", files.list(&path).await),
        Op::Glob(path, glob) => {
            format!("{:?}", files.glob(&GlobQuery::new(glob, p(&path)).unwrap()).await.map(|out| out.files))
        }
        Op::Grep(path) => format!("{:?}", files.grep(&GrepQuery::new("a", p(&path))).await.map(|out| shown(&out))),
    }
}

/// Deletes empty parent directories, which exist on disk but not in the state.
async fn prune(files: &mut Files, path: &str) {
    for above in p(path).ancestors() {
        let above = above.to_string();
        if above == "/" || !files.list(&above).await.is_ok_and(|entries| entries.is_empty()) {
            break;
        }
        files.delete(&above).await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_backends_agree(ops in prop::collection::vec(op(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut disk = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
            let (recorded_dir, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let options = LocalOptions { undo: Some(UndoStore::at(place.path().join("undo.db"))), ..LocalOptions::default() };
            let recorded = LocalBackend::open_with(recorded_dir.path(), options).unwrap();
            let mut recorded = in_thread(Files::new(Arc::new(recorded)));
            let mut state = Files::new(Arc::new(StateBackend::new()));
            let namespace = vec!["files".to_owned()];
            let mut store = Files::new(Arc::new(StoreBackend::new(Arc::new(MemoryStore::default()), namespace)));
            let empty = tempfile::tempdir().unwrap();
            let lower = Arc::new(LocalBackend::open(empty.path()).unwrap());
            let mut overlay = Files::new(Arc::new(OverlayBackend::new(Arc::new(StateBackend::new()), lower)));
            let routed = Arc::new(StateBackend::new().under(p("/routed")));
            let composite = CompositeBackend::new(Arc::new(StateBackend::new())).route(p("/routes/deep"), routed);
            let mut composite = Files::new(Arc::new(Inside(composite)));
            for op in &ops {
                let want = run(&mut disk, op).await;
                for other in [&mut recorded, &mut state, &mut store, &mut overlay, &mut composite] {
                    assert_eq!(run(other, op).await, want, "{op:?} in {ops:?}");
                }
                if let Op::Delete(path) = op {
                    prune(&mut disk, path).await;
                    prune(&mut recorded, path).await;
                }
            }
        });
    }
}
