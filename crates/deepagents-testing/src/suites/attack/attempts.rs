//! The attempted paths and operations.

use std::sync::Arc;

use deepagents_fs::edit::{self, Edit};
use deepagents_fs::lines::LineRange;
use deepagents_fs::search::{GlobQuery, GrepQuery};
use deepagents_fs::{ByteRange, VPath, WriteMode};

use crate::suites::backend::Files;

/// Paths that a model might give. Invalid ones are rejected before a backend sees them.
pub(super) fn attempts() -> Vec<String> {
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

/// Tries every operation at a path and returns the results as text.
pub(super) async fn try_all_operations(files: &mut Files, path: &VPath) -> Vec<String> {
    let (backend, state) = (&*files.backend, &mut files.state);
    let mut told = Vec::new();
    // Limited, because one file is a terabyte long.
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
