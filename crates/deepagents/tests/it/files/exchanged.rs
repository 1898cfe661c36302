//! Directories replaced by links between the approval and the change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents::core::state::{State, Update};
use deepagents::fs::permissions::AccessMode;
use deepagents::fs::{Backend, ByteRange, FileRead, FsFuture, Listing, LocalBackend, Stat, VPath, WriteMode, Written};
use deepagents::middleware::filesystem::{EditTool, FilesystemOptions};
use deepagents::models::scripted::Turn;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{play, results};

/// A directory on disk in which a name becomes a link to the root after the first `resolve`.
struct Exchanging {
    inner: LocalBackend,
    name: PathBuf,
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
    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: bytes::Bytes,
        mode: WriteMode,
    ) -> FsFuture<'a, Written> {
        self.inner.write(state, path, data, mode)
    }
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        self.inner.delete(state, path)
    }
    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(async move {
            let real = self.inner.resolve(state, path).await;
            if !self.name.is_symlink() {
                let _ = std::fs::rename(&self.name, self.name.with_extension("old"));
                std::os::unix::fs::symlink(".", &self.name).unwrap();
            }
            real
        })
    }
    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        self.inner.pinned(path, place)
    }
    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        self.inner.change_access(path)
    }
}

fn exchanging(root: &Path) -> Exchanging {
    Exchanging { inner: LocalBackend::open(root).unwrap(), name: root.join("s") }
}

#[tokio::test]
async fn a_link_created_meanwhile_cannot_bypass_a_required_approval() {
    let patch = "*** Begin Patch\n*** Update File: /s/AGENTS.md\n@@\n-mine\n+evil\n*** End Patch";
    for (tool, name, args) in [
        (EditTool::EditFile, "write_file", json!({"file_path": "/s/AGENTS.md", "content": "evil"})),
        (EditTool::EditFile, "write_file", json!({"file_path": "/s/.deepagents/hooks.json", "content": "evil"})),
        (
            EditTool::EditFile,
            "edit_file",
            json!({"file_path": "/s/AGENTS.md", "old_string": "mine", "new_string": "evil"}),
        ),
        (EditTool::EditFile, "delete", json!({"file_path": "/s/AGENTS.md"})),
        (EditTool::ApplyPatch, "apply_patch", json!({"input": patch})),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("s")).unwrap();
        for file in ["AGENTS.md", "s/AGENTS.md"] {
            std::fs::write(folder.path().join(file), "mine\n").unwrap();
        }
        let free = FilesystemOptions { read_before_edit: false, edit_tool: Some(tool), ..FilesystemOptions::default() };
        let script = [Turn::call(name, args.clone()), Turn::text("Done.")];
        let (outcome, _) = play(script, |b| b.backend(exchanging(folder.path())).files(free)).await;
        let (text, error) = results(&outcome).remove(0);
        assert!(error && text.contains("does not lead where it did"), "{args}: {text}");
        assert_eq!(std::fs::read_to_string(folder.path().join("AGENTS.md")).unwrap(), "mine\n", "{args}");
        assert!(!folder.path().join(".deepagents").exists(), "{args}");
    }
}
