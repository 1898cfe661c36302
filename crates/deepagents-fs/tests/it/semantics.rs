//! The backend suite, on every backend.

use std::sync::Arc;

use deepagents_core::store::MemoryStore;
use deepagents_fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents_fs::{
    CompositeBackend, FileUndo, LocalBackend, LocalOptions, OverlayBackend, PortableBackend, ReadOnly, StateBackend,
    StoreBackend, UndoStore, VPath,
};
use deepagents_testing::backend_suite;
use tempfile::TempDir;

use crate::suite::{Files, p};

fn local_with(options: LocalOptions) -> (Arc<LocalBackend>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Arc::new(LocalBackend::open_with(dir.path(), options).unwrap()), dir)
}

fn local() -> (Arc<LocalBackend>, TempDir) {
    local_with(LocalOptions::default())
}

fn store() -> Arc<StoreBackend> {
    let namespace = vec!["ada".to_owned(), "files".to_owned()];
    Arc::new(StoreBackend::new(Arc::new(MemoryStore::default()), namespace))
}

mod in_the_state {
    use super::*;
    backend_suite!(async || Some(Files::new(Arc::new(StateBackend::new()))));
}

mod in_a_directory_of_the_state {
    use super::*;
    backend_suite!(async || Some(Files::new(Arc::new(StateBackend::new().under(p("/some/place"))))));
}

mod on_disk {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local();
        Some(Files::new(files).keeping(dir))
    });
}

mod on_disk_without_the_kernels_help {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local_with(LocalOptions { kernel_resolution: false, ..LocalOptions::default() });
        Some(Files::new(files).keeping(dir))
    });
}

mod on_any_system {
    use super::*;
    backend_suite!(async || {
        let dir = tempfile::tempdir().unwrap();
        let backend = PortableBackend::open(dir.path()).unwrap();
        Some(Files::new(Arc::new(backend)).keeping(dir))
    });
}

mod synced_to_disk {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local_with(LocalOptions { sync: true, ..LocalOptions::default() });
        Some(Files::new(files).keeping(dir))
    });
}

mod on_disk_where_changes_are_recorded {
    use super::*;
    backend_suite!(async || {
        let (dir, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = LocalOptions {
            undo: Some(UndoStore { max_file: 64, ..UndoStore::at(place.path().join("undo.db")) }),
            ..LocalOptions::default()
        };
        let backend = LocalBackend::open_with(dir.path(), options).unwrap();
        Some(in_thread(Files::new(Arc::new(backend))).keeping((dir, place)))
    });
}

/// Files of a thread, with recorded changes.
pub(crate) fn in_thread(mut files: Files) -> Files {
    let begun = FileUndo::begin(&files.state, "thread", "log").unwrap();
    files.state.apply(&begun).unwrap();
    files
}

mod in_a_store {
    use super::*;
    backend_suite!(async || Some(Files::new(store())));
}

mod of_a_composite {
    use super::*;
    backend_suite!(async || { Some(Files::new(Arc::new(CompositeBackend::new(Arc::new(StateBackend::new()))))) });
}

mod of_a_route {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local();
        let composite = CompositeBackend::new(Arc::new(StateBackend::new())).route(p("/routes/deep"), files);
        Some(Files::new(Arc::new(Inside(composite))).keeping(dir))
    });
}

mod of_an_overlay_in_the_state {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local();
        Some(Files::new(Arc::new(OverlayBackend::new(Arc::new(StateBackend::new()), files))).keeping(dir))
    });
}

mod of_an_overlay_on_disk {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local();
        Some(Files::new(Arc::new(OverlayBackend::new(files, store()))).keeping(dir))
    });
}

mod behind_permissions {
    use super::*;
    backend_suite!(async || {
        let (files, dir) = local();
        let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/denied-place/**"])]).unwrap();
        Some(Files::new(Arc::new(PermissionedBackend::new(files, rules, OnAsk::Refuse))).keeping(dir))
    });
}

mod read_only {
    use super::*;
    backend_suite!(reading: async || {
        let (files, dir) = local();
        Some(Files::new(Arc::new(ReadOnly::new(files.clone()))).filled_through(files).keeping(dir))
    });
}

mod below_an_overlay {
    use super::*;
    backend_suite!(reading: async || {
        let (lower, dir) = local();
        let overlay = OverlayBackend::new(store(), lower.clone());
        Some(Files::new(Arc::new(overlay)).filled_through(lower).keeping(dir))
    });
}

/// A backend that receives its files when it is made.
mod made_from_its_files {
    use std::collections::BTreeMap;
    use std::future::ready;
    use std::io::ErrorKind;

    use bytes::Bytes;
    use deepagents_core::state::{State, Update};
    use deepagents_fs::{
        Backend, ByteRange, Entry, FileRead, FsError, FsFuture, Listing, Stat, VPath, Version, WriteMode, Written,
    };

    use super::*;

    struct Packed(BTreeMap<VPath, Bytes>);

    impl Packed {
        fn find(&self, path: &VPath) -> Result<(Bytes, Stat), FsError> {
            match self.0.get(path) {
                Some(bytes) => Ok((bytes.clone(), Stat::file(bytes.len() as u64, Version::from_content(bytes)))),
                None => Ok((Bytes::new(), Stat::implied(path, self.0.keys())?)),
            }
        }
    }

    impl Backend for Packed {
        fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
            Box::pin(ready(self.find(path).map(|(_, stat)| stat)))
        }

        fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
            let found = self.find(path);
            Box::pin(ready(found.and_then(|(bytes, stat)| FileRead::from_whole(path, &bytes, stat, range))))
        }

        fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
            let entries = self.0.iter().map(|(path, bytes)| Entry::file(path.clone(), bytes.len() as u64));
            Box::pin(ready(Listing::implied(path, entries)))
        }

        fn write<'a>(&'a self, _: &'a State, path: &'a VPath, _: Bytes, _: WriteMode) -> FsFuture<'a, Written> {
            Box::pin(ready(Err(FsError::io(path, ErrorKind::ReadOnlyFilesystem, "it is packed"))))
        }

        fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
            Box::pin(ready(Err(FsError::io(path, ErrorKind::ReadOnlyFilesystem, "it is packed"))))
        }
    }

    backend_suite!(reading: async || Some(Files::made(Packed)));
}

/// A directory of a composite as a backend, so that the suite runs inside a route.
pub(crate) struct Inside(pub(crate) CompositeBackend);

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
