use std::sync::{Arc, Mutex};

use deepagents_core::store::MemoryStore;
use deepagents_fs::permissions::{Asking, Guarded, Mode, Permissions, Rule};
use deepagents_fs::{
    Backend, CompositeBackend, LocalBackend, LocalOptions, OverlayBackend, StateBackend, StoreBackend, VPath,
};

use crate::suite;

/// Makes local backends in temporary directories that live as long as the maker.
fn local(kernel: bool) -> impl Fn() -> Arc<dyn Backend> {
    let kept = Mutex::new(Vec::new());
    move || {
        let dir = tempfile::tempdir().unwrap();
        let backend = LocalBackend::open_with(dir.path(), LocalOptions::default().kernel_resolution(kernel)).unwrap();
        kept.lock().unwrap().push(dir);
        Arc::new(backend)
    }
}

#[tokio::test]
async fn files_in_the_state_follow_the_rules() {
    suite::run(|| Arc::new(StateBackend::new())).await;
}

#[tokio::test]
async fn files_in_a_directory_of_the_state_follow_the_rules() {
    suite::run(|| Arc::new(StateBackend::new().under(VPath::parse("/some/place").unwrap()))).await;
}

#[tokio::test]
async fn files_that_are_synced_to_disk_follow_the_rules() {
    let kept = Mutex::new(Vec::new());
    suite::run(|| {
        let dir = tempfile::tempdir().unwrap();
        let backend = LocalBackend::open_with(dir.path(), LocalOptions::default().sync(true)).unwrap();
        kept.lock().unwrap().push(dir);
        Arc::new(backend)
    })
    .await;
}

#[tokio::test]
async fn files_on_disk_follow_the_rules() {
    suite::run(local(true)).await;
}

#[tokio::test]
async fn files_on_disk_follow_the_rules_without_the_kernels_help() {
    suite::run(local(false)).await;
}

#[tokio::test]
async fn files_in_a_store_follow_the_rules() {
    let namespace = vec!["ada".to_owned(), "files".to_owned()];
    suite::run(|| Arc::new(StoreBackend::new(Arc::new(MemoryStore::default()), namespace.clone()))).await;
}

#[tokio::test]
async fn files_behind_permissions_follow_the_rules() {
    let local = local(true);
    let rules = Permissions::new([Rule::new(Mode::Deny, ["/no/such/place/**"])]).unwrap();
    suite::run(|| Arc::new(Guarded::new(local(), rules.clone(), Asking::Refused))).await;
}

#[tokio::test]
async fn files_of_a_composite_follow_the_rules() {
    suite::run(|| Arc::new(CompositeBackend::new(Arc::new(StateBackend::new())))).await;
}

#[tokio::test]
async fn files_of_overlays_follow_the_rules() {
    let local = local(true);
    suite::run(|| Arc::new(OverlayBackend::new(Arc::new(StateBackend::new()), local()))).await;
    suite::run(|| Arc::new(OverlayBackend::new(local(), Arc::new(StateBackend::new())))).await;
}

/// Shows a directory of a backend as a backend, so that the suite runs inside of a route.
struct Inside(CompositeBackend);

fn deep(path: &VPath) -> VPath {
    path.under(&VPath::parse("/routes/deep").unwrap())
}

mod inside {
    use bytes::Bytes;
    use deepagents_core::state::{ChannelSpec, State, Update};
    use deepagents_fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Scope};
    use deepagents_fs::{Backend, ByteRange, FileRead, FsError, Listing, Stat, VPath, WriteMode, Written};
    use futures_core::future::BoxFuture;

    use super::{Inside, deep};

    fn out(path: &VPath) -> VPath {
        path.strip_prefix(&deep(&VPath::root())).unwrap_or_else(|| path.clone())
    }

    fn back<T>(result: Result<T, FsError>) -> Result<T, FsError> {
        result.map_err(|error| error.map_path(out))
    }

    fn scope(scope: &Scope) -> Scope {
        let visible = scope.visible.clone().map(|sees| -> deepagents_fs::search::PathFilter {
            std::sync::Arc::new(move |path: &VPath| sees(&out(path)))
        });
        Scope { path: deep(&scope.path), visible, ..scope.clone() }
    }

    impl Backend for Inside {
        fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
            Box::pin(async move { back(self.0.stat(state, &deep(path)).await) })
        }
        fn read<'a>(
            &'a self,
            state: &'a State,
            path: &'a VPath,
            range: ByteRange,
        ) -> BoxFuture<'a, Result<FileRead, FsError>> {
            Box::pin(async move { back(self.0.read(state, &deep(path), range).await) })
        }
        fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
            Box::pin(async move {
                let mut listing = back(self.0.list(state, &deep(path)).await)?;
                listing.entries.iter_mut().for_each(|entry| entry.path = out(&entry.path));
                Ok(listing)
            })
        }
        fn write<'a>(
            &'a self,
            state: &'a State,
            path: &'a VPath,
            data: Bytes,
            mode: WriteMode,
        ) -> BoxFuture<'a, Result<Written, FsError>> {
            Box::pin(async move { back(self.0.write(state, &deep(path), data, mode).await) })
        }
        fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
            Box::pin(async move { back(self.0.delete(state, &deep(path)).await) })
        }
        fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
            Box::pin(async move {
                let mut found =
                    back(self.0.glob(state, &GlobQuery { scope: scope(&query.scope), ..query.clone() }).await)?;
                found.files.iter_mut().for_each(|file| *file = out(file));
                Ok(found)
            })
        }
        fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
            Box::pin(async move {
                let mut found =
                    back(self.0.grep(state, &GrepQuery { scope: scope(&query.scope), ..query.clone() }).await)?;
                found.files.iter_mut().for_each(|file| file.path = out(&file.path));
                Ok(found)
            })
        }
        fn channels(&self) -> Vec<ChannelSpec> {
            self.0.channels()
        }
    }
}

#[tokio::test]
async fn files_of_a_route_follow_the_rules() {
    let local = local(true);
    suite::run(|| {
        let composite = CompositeBackend::new(Arc::new(StateBackend::new()));
        Arc::new(Inside(composite.route(VPath::parse("/routes/deep").unwrap(), local())))
    })
    .await;
}
