//! Files and conversation are rewound together: real directories, real SQLite.

mod commands;
mod damage;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use deepagents::core::journal::{Claim, Journal};
use deepagents::fs::{
    ConflictReason, FileUndo, LocalBackend, LocalOptions, OnConflict, RestoreError, UndoStore, UndoUpdate, VPath,
};
use deepagents::middleware::filesystem::{EditTool, FilesystemOptions};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::rewind::{Rewind, RewindError, RewindReport};
use deepagents::{DeepAgent, Middleware, Result, RunInput, ToolNext, ToolRequest, ToolResponse};
use deepagents_persist::Sqlite;
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::Notify;

/// A directory, a second one with the undo database, and a thread database.
struct World {
    dir: tempfile::TempDir,
    beside: tempfile::TempDir,
    db: Arc<Sqlite>,
    files: LocalBackend,
}

/// The content of a directory: contents of files, targets of links, `None` for directories.
type Tree = BTreeMap<String, Option<String>>;

fn tree(root: &Path) -> Tree {
    fn add(root: &Path, at: &Path, out: &mut Tree) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_symlink() {
                out.insert(name, Some(format!("-> {}", path.read_link().unwrap().display())));
            } else if meta.is_dir() {
                out.insert(name, None);
                add(root, &path, out);
            } else {
                out.insert(name, Some(std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut out = Tree::new();
    add(root, root, &mut out);
    out
}

fn write(path: &str, content: &str) -> Turn {
    Turn::call("write_file", json!({"file_path": path, "content": content}))
}

fn delete(path: &str) -> Turn {
    Turn::call("delete", json!({"file_path": path}))
}

fn paths<'a>(paths: impl IntoIterator<Item = &'a VPath>) -> Vec<&'a str> {
    paths.into_iter().map(VPath::as_str).collect()
}

impl World {
    async fn new() -> Self {
        Self::recording(|store| store).await
    }

    async fn recording(how: impl FnOnce(UndoStore) -> UndoStore) -> Self {
        let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let db = Arc::new(Sqlite::open(beside.path().join("t.db")).await.unwrap());
        let options = LocalOptions {
            undo: Some(how(UndoStore::at(beside.path().join("undo/undo.db")))),
            ..LocalOptions::default()
        };
        let files = LocalBackend::open_with(dir.path(), options).unwrap();
        Self { dir, beside, db, files }
    }

    fn store(&self) -> UndoStore {
        UndoStore::at(self.undo_file())
    }

    fn undo_file(&self) -> std::path::PathBuf {
        self.beside.path().join("undo/undo.db")
    }

    /// The undo database, to inspect or damage it.
    fn undo_db(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.undo_file()).unwrap()
    }

    fn builder(&self, turns: impl IntoIterator<Item = Turn>) -> deepagents::DeepAgentBuilder {
        let turns = turns.into_iter().chain([Turn::text("Done.")]);
        DeepAgent::builder()
            .model(ScriptedModel::new(turns))
            .backend(self.files.clone())
            .files(FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() })
            .journal(self.db.clone())
    }

    fn agent(&self, turns: impl IntoIterator<Item = Turn>) -> DeepAgent {
        self.builder(turns).build().unwrap()
    }

    /// Plays a script in a thread. Returns the position after it.
    async fn play(&self, thread: &str, turns: impl IntoIterator<Item = Turn>) -> u64 {
        let outcome = self.agent(turns).invoke(RunInput::new("Go.").thread(thread)).await.unwrap();
        let failed = outcome.messages().iter().filter_map(|m| m.as_tool()).find(|tool| tool.is_error);
        assert!(failed.is_none(), "{failed:?}");
        self.head(thread).await
    }

    async fn head(&self, thread: &str) -> u64 {
        self.db.threads().get(thread).await.unwrap().unwrap().end
    }

    fn back(&self, thread: &str, to: u64) -> Rewind {
        Rewind::new(&self.agent([]), &self.files, thread, to)
    }

    async fn go_back(&self, thread: &str, to: u64, on: OnConflict) -> Result<RewindReport, RewindError> {
        let back = self.back(thread, to);
        back.apply(&back.plan().await?, on).await
    }

    fn put(&self, path: &str, content: &str) {
        std::fs::write(self.dir.path().join(path), content).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(path)).ok()
    }

    fn tree(&self) -> Tree {
        tree(self.dir.path())
    }
}

#[tokio::test]
async fn edits_creations_and_deletions_are_rewound_with_the_conversation() {
    let world = World::new().await;
    world.put("a.txt", "mine");
    world.put("b.txt", "also mine");
    let before = world.tree();
    let first = world.play("t", [write("/a.txt", "one"), write("/new/deep/c.txt", "c")]).await;
    let middle = world.tree();
    let edit = Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": "one", "new_string": "two"}));
    world.play("t", [edit, delete("/b.txt"), delete("/new")]).await;
    let after = world.tree();

    let plan = world.back("t", first).plan().await.unwrap();
    assert_eq!(
        paths(plan.changes.iter().map(|c| &c.path)),
        ["/a.txt", "/b.txt", "/new", "/new/deep", "/new/deep/c.txt"]
    );
    assert!(plan.conflicts.is_empty() && plan.skipped.is_empty() && plan.unrecorded.is_empty(), "{plan:?}");
    assert_eq!(world.tree(), after, "a plan changes nothing");
    let done = world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), middle);
    assert_eq!(world.agent([]).state("t").await.unwrap().messages().len(), 6);

    world.go_back("t", done.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), after, "going back is undone");
    world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), before);
    assert!(world.agent([]).state("t").await.unwrap().messages().is_empty());
    // The thread continues as usual, with its history.
    let again = world.play("t", [write("/a.txt", "three")]).await;
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), middle);
    world.go_back("t", again, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("three"));
    assert_eq!(world.read("b.txt").as_deref(), Some("also mine"));
}

#[tokio::test]
async fn everything_a_patch_changed_is_rewound() {
    let world = World::new().await;
    let first = world.play("t", ["/a.txt", "/b.txt", "/c.txt"].map(|path| write(path, "one\n"))).await;
    let before = world.tree();
    let patch = "*** Begin Patch\n*** Add File: /d.txt\n+new\n*** Update File: /a.txt\n-one\n+two\n\
                 *** Update File: /b.txt\n*** Move to: /e/b.txt\n*** Delete File: /c.txt\n*** End Patch";
    let files = FilesystemOptions {
        edit_tool: Some(EditTool::ApplyPatch),
        read_before_edit: false,
        ..FilesystemOptions::default()
    };
    let turns = [Turn::call("apply_patch", json!({ "input": patch }))];
    world.builder(turns).files(files).build().unwrap().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(world.read("e/b.txt").as_deref(), Some("one\n"));
    assert_eq!((world.read("a.txt").as_deref(), world.read("c.txt")), (Some("two\n"), None));
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), before);
}

#[tokio::test]
async fn every_checkpoint_of_a_run_has_its_files() {
    let world = World::new().await;
    world.play("t", (0..4).map(|n| write("/n.txt", &n.to_string()))).await;
    let mut seen = Vec::new();
    for checkpoint in world.agent([]).history("t", None, 100).await.unwrap().iter().rev() {
        world.go_back("t", checkpoint.position, OnConflict::Refuse).await.unwrap();
        let results = world.agent([]).state("t").await.unwrap();
        let results = results.messages().iter().filter(|message| message.as_tool().is_some()).count();
        let expected = results.checked_sub(1).map(|n| n.to_string());
        assert_eq!(world.read("n.txt"), expected, "{checkpoint:?}");
        seen.push(results);
    }
    assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&4)));
}

#[tokio::test]
async fn a_conflicting_change_is_refused_skipped_or_overwritten_as_requested() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "a1"), write("/b.txt", "b1"), write("/c.txt", "c1")]).await;
    world.play("t", [write("/a.txt", "a2"), write("/b.txt", "b2"), write("/c.txt", "c2")]).await;
    world.put("a.txt", "my own work");
    std::fs::remove_file(world.dir.path().join("c.txt")).unwrap();
    world.put("other.txt", "nobody else's business");
    let (before, head) = (world.tree(), world.head("t").await);

    let refused = world.go_back("t", first, OnConflict::Refuse).await.unwrap_err();
    let RewindError::Files(RestoreError::Conflicts(plan)) = &refused else { panic!("{refused}") };
    assert_eq!(paths(plan.conflicts.iter().map(|c| &c.change.path)), ["/a.txt", "/c.txt"]);
    assert!(plan.conflicts.iter().all(|conflict| conflict.reason == ConflictReason::Changed));
    assert_eq!((world.tree(), world.head("t").await), (before.clone(), head), "nothing at all was changed");
    assert!(refused.to_string().contains("/a.txt, /c.txt were changed by somebody else"), "{refused}");

    let skipped = world.go_back("t", first, OnConflict::Skip).await.unwrap();
    assert_eq!((paths(&skipped.restored), paths(&skipped.skipped)), (vec!["/b.txt"], vec!["/a.txt", "/c.txt"]));
    assert_eq!(world.read("a.txt").as_deref(), Some("my own work"));
    assert_eq!((world.read("b.txt").as_deref(), world.read("c.txt")), (Some("b1"), None));
    // Skipped files are part of the thread's current state.
    let here = world.head("t").await;
    world.play("t", [write("/a.txt", "over it")]).await;
    world.go_back("t", here, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("my own work"));

    let overwritten = world.go_back("t", first, OnConflict::Overwrite).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("a1"));
    assert_eq!(world.read("c.txt").as_deref(), Some("c1"));
    assert_eq!(world.read("other.txt").as_deref(), Some("nobody else's business"));
    world.go_back("t", overwritten.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("my own work"), "what was overwritten was kept");
    assert_eq!(world.read("c.txt"), None);
    let again = world.back("t", first).plan().await.unwrap();
    assert_eq!(again.conflicts.len(), 2, "and it is asked about again: {again:?}");
}

#[tokio::test]
async fn foreign_work_beneath_a_later_agent_change_is_a_conflict() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one")]).await;
    world.put("a.txt", "one, and a page of my own");
    let second = world.play("t", [write("/a.txt", "two, and a page of my own")]).await;
    let plan = world.back("t", first).plan().await.unwrap();
    assert_eq!(
        plan.conflicts.iter().map(|c| c.reason).collect::<Vec<_>>(),
        [ConflictReason::ChangedBetween],
        "{plan:?}"
    );
    let third = world.play("t", [write("/a.txt", "three, and a page of my own")]).await;
    assert!(world.back("t", second).plan().await.unwrap().conflicts.is_empty(), "nothing of it is lost there");
    world.go_back("t", first, OnConflict::Overwrite).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("one"));
    world.go_back("t", third, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("three, and a page of my own"));
}

#[tokio::test]
async fn two_rewinds_can_both_be_undone() {
    let world = World::new().await;
    let one = world.play("t", [write("/a.txt", "1")]).await;
    let two = world.play("t", [write("/a.txt", "2"), write("/b.txt", "2")]).await;
    world.play("t", [delete("/a.txt"), write("/b.txt", "3")]).await;
    let three = world.tree();
    let first = world.go_back("t", two, OnConflict::Refuse).await.unwrap();
    let at_two = world.tree();
    let second = world.go_back("t", one, OnConflict::Refuse).await.unwrap();
    assert_eq!((world.read("a.txt").as_deref(), world.read("b.txt")), (Some("1"), None));
    world.go_back("t", second.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), at_two);
    world.go_back("t", first.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), three);
}

#[tokio::test]
async fn a_sub_agents_changes_are_rewound_too() {
    use deepagents::subagents::SubAgentSpec;
    let world = World::new().await;
    world.put("a.txt", "mine");
    let before = world.play("t", []).await;
    let child = ScriptedModel::new([write("/a.txt", "the child's"), write("/b.txt", "b"), Turn::text("Done below.")]);
    let helper = SubAgentSpec::new("helper", "Helps.").model(child);
    let task = Turn::call("task", json!({"description": "Help.", "subagent_type": "helper"}));
    let agent = world.builder([task, write("/a.txt", "the parent's")]).sub_agent(helper).build().unwrap();
    agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("the parent's"));
    assert_eq!(world.read("b.txt").as_deref(), Some("b"));
    let plan = world.back("t", before).plan().await.unwrap();
    assert!(plan.conflicts.is_empty() && plan.unrecorded.is_empty(), "{plan:?}");
    world.go_back("t", before, OnConflict::Refuse).await.unwrap();
    assert_eq!((world.read("a.txt").as_deref(), world.read("b.txt")), (Some("mine"), None));
}

#[tokio::test]
async fn sub_agents_changing_the_same_files_count_as_one_agent_for_the_rewind() {
    use deepagents::subagents::SubAgentSpec;
    let world = World::new().await;
    let before = world.play("t", [write("/new/a.txt", "mine")]).await;
    let helper = |name: &str| {
        let turns = (0..6).map(|n| write(&format!("/new/{}.txt", n % 2), &format!("{name} {n}")));
        let child = ScriptedModel::new(turns.chain([delete("/new/a.txt"), Turn::text("Done below.")]));
        SubAgentSpec::new(name, "Helps.").model(child)
    };
    let task = |name: &str| ("task", json!({"description": "Help.", "subagent_type": name}));
    let agent = world.builder([Turn::calls([task("one"), task("two")])]).sub_agent(helper("one"));
    let agent = agent.sub_agent(helper("two")).build().unwrap();
    agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let after = world.tree();
    let plan = world.back("t", before).plan().await.unwrap();
    assert!(plan.conflicts.is_empty() && plan.unrecorded.is_empty(), "{plan:?}");
    let done = world.go_back("t", before, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree().into_keys().collect::<Vec<_>>(), ["new", "new/a.txt"]);
    world.go_back("t", done.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), after);
}

#[tokio::test]
async fn a_copied_thread_can_rewind_past_the_copy_and_owns_only_its_own_changes() {
    let world = World::new().await;
    let one = world.play("t", [write("/a.txt", "1")]).await;
    let two = world.play("t", [write("/a.txt", "2")]).await;
    world.db.threads().copy("t", "fork", Some(two)).await.unwrap();
    world.go_back("fork", one, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("1"), "before it has run at all");
    world.go_back("fork", two, OnConflict::Refuse).await.unwrap();
    let three = world.play("fork", [write("/a.txt", "3"), write("/b.txt", "3")]).await;
    world.go_back("fork", one, OnConflict::Refuse).await.unwrap();
    assert_eq!((world.read("a.txt").as_deref(), world.read("b.txt")), (Some("1"), None));
    world.go_back("fork", three, OnConflict::Refuse).await.unwrap();
    // To the first thread, the fork's changes belong to somebody else.
    let plan = world.back("t", one).plan().await.unwrap();
    assert_eq!(paths(plan.conflicts.iter().map(|c| &c.change.path)), ["/a.txt"]);
    assert!(plan.changes.is_empty(), "{plan:?}");
}

#[tokio::test]
async fn a_rewind_does_not_follow_links_swapped_into_the_path() {
    let (world, outside) = (World::new().await, tempfile::tempdir().unwrap());
    let root = world.dir.path();
    std::fs::write(outside.path().join("a.txt"), "outside").unwrap();
    let first = world.play("t", [write("/d/a.txt", "1"), write("/b.txt", "1")]).await;
    world.play("t", [write("/d/a.txt", "2"), write("/b.txt", "2")]).await;
    std::fs::remove_dir_all(root.join("d")).unwrap();
    symlink(outside.path(), root.join("d")).unwrap();
    std::fs::remove_file(root.join("b.txt")).unwrap();
    symlink(outside.path().join("a.txt"), root.join("b.txt")).unwrap();
    let plan = world.back("t", first).plan().await.unwrap();
    assert_eq!(paths(plan.skipped.iter().map(|skipped| &skipped.path)), ["/d/a.txt"]);
    assert_eq!(plan.skipped[0].reason, "/d, which is not a directory, is in the way");
    assert_eq!(paths(plan.conflicts.iter().map(|c| &c.change.path)), ["/b.txt"]);
    let done = world.go_back("t", first, OnConflict::Overwrite).await.unwrap();
    assert_eq!(world.read("b.txt").as_deref(), Some("1"));
    assert!(!root.join("b.txt").is_symlink());
    assert_eq!(tree(outside.path()), Tree::from([("a.txt".to_owned(), Some("outside".to_owned()))]));
    world.go_back("t", done.left, OnConflict::Refuse).await.unwrap();
    assert!(root.join("b.txt").is_symlink(), "the link is put back, not what it led to");
}

#[tokio::test]
async fn a_file_written_through_a_link_is_restored_in_its_real_place() {
    let world = World::new().await;
    std::fs::create_dir(world.dir.path().join("real")).unwrap();
    world.put("real/a.txt", "mine");
    symlink("real", world.dir.path().join("alias")).unwrap();
    let before = world.tree();
    world.play("t", [write("/alias/a.txt", "1"), write("/real/a.txt", "2")]).await;
    let plan = world.back("t", 0).plan().await.unwrap();
    assert_eq!(paths(plan.changes.iter().map(|c| &c.path)), ["/real/a.txt"]);
    world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), before);
}

#[tokio::test]
async fn a_deleted_tree_is_restored_with_links_empty_directories_and_permissions() {
    let world = World::new().await;
    let root = world.dir.path();
    std::fs::create_dir_all(root.join("d/e/empty")).unwrap();
    world.put("d/run.sh", "#!/bin/sh");
    std::fs::set_permissions(root.join("d/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("../nowhere", root.join("d/e/link")).unwrap();
    let before = world.tree();
    world.play("t", [delete("/d"), write("/d", "a file now")]).await;
    assert_eq!(world.tree().len(), 1);
    world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.tree(), before);
    assert_eq!(root.join("d/run.sh").metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

fn bits(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_bits(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

#[tokio::test]
async fn restored_files_never_have_wider_permissions_than_before() {
    let world = World::new().await;
    let root = world.dir.path();
    std::fs::create_dir_all(root.join("private/shared")).unwrap();
    world.put("private/key", "secret");
    world.put("tool", "runs as its owner");
    set_bits(&root.join("private/key"), 0o640);
    set_bits(&root.join("private/shared"), 0o775);
    set_bits(&root.join("private"), 0o700);
    set_bits(&root.join("tool"), 0o4755);
    world.play("t", [delete("/private"), delete("/tool")]).await;
    let done = world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    let now = ["private", "private/shared", "private/key", "tool"].map(|path| bits(&root.join(path)));
    // The owner is not recorded, so the setuid bit is not restored for the current owner.
    assert_eq!(now.map(|bits| format!("{bits:o}")), ["700", "775", "640", "755"]);
    world.go_back("t", done.left, OnConflict::Refuse).await.unwrap();
    assert!(world.tree().is_empty());
}

#[tokio::test]
async fn directories_containing_foreign_files_are_kept() {
    let world = World::new().await;
    world.play("t", [write("/d/a.txt", "1")]).await;
    world.put("d/mine.txt", "mine");
    let done = world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    assert_eq!(paths(&done.restored), ["/d/a.txt"]);
    assert_eq!(world.tree().into_keys().collect::<Vec<_>>(), ["d", "d/mine.txt"]);
}

#[tokio::test]
async fn files_below_a_path_now_taken_by_a_foreign_file_are_restored_only_with_it() {
    let world = World::new().await;
    let first = world.play("t", [write("/d/a.txt", "1")]).await;
    world.play("t", [delete("/d")]).await;
    world.put("d", "mine");
    let skipped = world.go_back("t", first, OnConflict::Skip).await.unwrap();
    assert_eq!((paths(&skipped.skipped), world.read("d").as_deref()), (vec!["/d", "/d/a.txt"], Some("mine")));
    let overwritten = world.go_back("t", first, OnConflict::Overwrite).await.unwrap();
    assert_eq!(world.read("d/a.txt").as_deref(), Some("1"));
    world.go_back("t", overwritten.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("d").as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_file_too_large_to_store_is_reported_and_left() {
    let world = World::recording(|store| UndoStore { max_file: 8, max_tree: 8, max_tree_files: 3, ..store }).await;
    world.put("big.txt", "longer than eight");
    std::fs::create_dir(world.dir.path().join("d")).unwrap();
    for name in ["1", "2", "3", "4"] {
        world.put(&format!("d/{name}"), name);
    }
    let grown = write("/grown.txt", "larger than what is kept");
    world.play("t", [write("/big.txt", "small"), write("/b.txt", "b"), delete("/d"), grown]).await;
    let plan = world.back("t", 0).plan().await.unwrap();
    assert_eq!(paths(plan.skipped.iter().map(|skipped| &skipped.path)), ["/big.txt", "/d", "/grown.txt"]);
    let whys: Vec<&str> = plan.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    let now = "what is there is too large to be stored";
    assert_eq!(whys, ["it was too large to be stored", "it held more than 3 files", now]);
    let done = world.go_back("t", 0, OnConflict::Refuse).await.unwrap();
    assert_eq!(done.restored.len(), 4, "three of the tree, and b.txt is gone: {done:?}");
    assert_eq!(world.read("big.txt").as_deref(), Some("small"));
    assert_eq!(world.read("b.txt"), None);
}

#[tokio::test]
async fn a_stale_plan_changes_nothing() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "1")]).await;
    world.play("t", [write("/a.txt", "2")]).await;
    let back = world.back("t", first);
    let plan = back.plan().await.unwrap();
    world.put("a.txt", "saved a moment ago");
    let stale = back.apply(&plan, OnConflict::Overwrite).await.unwrap_err();
    assert!(matches!(stale, RewindError::Files(RestoreError::Stale(_))), "{stale}");
    assert_eq!(world.read("a.txt").as_deref(), Some("saved a moment ago"));
    assert_eq!(world.agent([]).state("t").await.unwrap().messages().len(), 8);
}

#[tokio::test]
async fn a_thread_in_use_cannot_be_rewound() {
    let world = World::new().await;
    world.play("t", [write("/a.txt", "1")]).await;
    let claim = Claim::new("somebody", std::time::Duration::from_secs(60));
    world.db.claim("t", claim).await.unwrap();
    let busy = world.go_back("t", 0, OnConflict::Refuse).await.unwrap_err();
    assert!(matches!(busy, RewindError::Thread(_)), "{busy}");
    assert_eq!(world.read("a.txt").as_deref(), Some("1"));
}

#[tokio::test]
async fn without_a_thread_or_an_undo_store_nothing_is_recorded() {
    let world = World::new().await;
    world.agent([write("/a.txt", "1")]).invoke("Go.").await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("1"));
    assert!(!world.beside.path().join("undo").exists(), "nothing is made before something is kept");
    let plain = LocalBackend::open(world.dir.path()).unwrap();
    world.play("t", [write("/a.txt", "2")]).await;
    let nothing = Rewind::new(&world.agent([]), &plain, "t", 0).plan().await.unwrap_err();
    assert!(matches!(nothing, RewindError::Files(RestoreError::NotRecorded)), "{nothing}");
    let inside =
        LocalOptions { undo: Some(UndoStore::at(world.dir.path().join("undo.db"))), ..LocalOptions::default() };
    let inside = LocalBackend::open_with(world.dir.path(), inside).unwrap_err();
    assert!(inside.source.to_string().contains("put it elsewhere"), "{inside}");
    std::fs::remove_dir_all(world.beside.path().join("undo")).unwrap();
    let lost = world.back("t", 0).plan().await.unwrap_err();
    assert!(matches!(lost, RewindError::Files(RestoreError::Lost)), "{lost}");
}

fn contents(world: &World) -> i64 {
    world.undo_db().query_row("SELECT count(*) FROM content", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn garbage_collection_removes_only_what_no_thread_needs() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "1"), write("/a.txt", "2"), write("/a.txt", "3")]).await;
    world.play("gone", [write("/b.txt", "only here"), write("/c.txt", "3")]).await;
    world.play("t", [write("/a.txt", "4")]).await;
    assert_eq!(contents(&world), 5);
    let removed = world.store().gc(|thread| thread == "t").unwrap();
    assert_eq!((removed.logs, removed.contents, removed.bytes, contents(&world)), (1, 1, 9, 4));
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("3"));

    // A shorter history needs fewer contents; the rest can still be restored.
    let agent = world.agent([]);
    let (here, there) = (agent.state("t").await.unwrap(), agent.state_at("t", first).await.unwrap());
    world.store().trim(&here, [&there]).unwrap();
    world.store().gc(|_| true).unwrap();
    assert!(contents(&world) < 4, "{}", contents(&world));
    world.play("t", [write("/a.txt", "5")]).await;
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_collection_during_a_running_change_loses_nothing() {
    let world = World::new().await;
    let store = world.store();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let removing = {
        let stop = stop.clone();
        tokio::task::spawn_blocking(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                store.gc(|_| true).unwrap();
            }
        })
    };
    let mut positions = Vec::new();
    for n in 0..12 {
        positions.push((world.play("t", [write("/a.txt", &format!("version {n}"))]).await, n));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    removing.await.unwrap();
    for (position, n) in positions {
        world.go_back("t", position, OnConflict::Refuse).await.unwrap();
        assert_eq!(world.read("a.txt").unwrap(), format!("version {n}"));
    }
}

/// An agent's action in one turn.
#[derive(Clone, Debug)]
enum Act {
    Write(&'static str, u8),
    Delete(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    let path = prop::sample::select(vec!["/a", "/b", "/d/a", "/d/b", "/d/e/a", "/d", "/d/e"]);
    prop_oneof![
        3 => (path.clone(), 0..4_u8).prop_map(|(path, n)| Act::Write(path, n)),
        2 => path.prop_map(Act::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Failed calls are included: they change nothing.
    #[test]
    fn rewinding_to_any_checkpoint_restores_exactly_its_files(
        acts in prop::collection::vec(act(), 1..10), back in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            world.put("a", "mine");
            std::fs::create_dir(world.dir.path().join("d")).unwrap();
            world.put("d/b", "mine too");
            let mut moments = vec![(0, world.tree())];
            for act in acts {
                let turn = match act {
                    Act::Write(path, n) => write(path, &n.to_string()),
                    Act::Delete(path) => delete(path),
                };
                world.agent([turn]).invoke(RunInput::new("Go.").thread("t")).await.unwrap();
                moments.push((world.head("t").await, world.tree()));
            }
            for index in back {
                let (position, expected) = index.get(&moments);
                let done = world.go_back("t", *position, OnConflict::Refuse).await;
                assert!(done.is_ok(), "{done:?}");
                assert_eq!(world.tree(), *expected);
            }
        });
    }

    /// Whatever the agent and the user do in turns, the user's last content is never lost without consent.
    #[test]
    fn the_users_own_changes_are_never_overwritten_unasked(
        acts in prop::collection::vec((act(), any::<bool>()), 1..12),
        back in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            std::fs::create_dir(world.dir.path().join("d")).unwrap();
            let mut positions = vec![0];
            for (n, (act, by_user)) in acts.into_iter().enumerate() {
                match act {
                    Act::Write(path, _) if by_user => {
                        let path = world.dir.path().join(path.trim_start_matches('/'));
                        // Failed writes of the user do not matter here.
                        let _ = std::fs::write(path, format!("the user's {n}"));
                        continue;
                    }
                    Act::Write(path, n) => world.agent([write(path, &n.to_string())]),
                    Act::Delete(path) => world.agent([delete(path)]),
                }
                .invoke(RunInput::new("Go.").thread("t"))
                .await
                .unwrap();
                positions.push(world.head("t").await);
            }
            if world.db.threads().get("t").await.unwrap().is_none() {
                return;
            }
            for (n, index) in back.into_iter().enumerate() {
                let before = world.tree();
                let plan = world.back("t", *index.get(&positions)).plan().await.unwrap();
                let refused = world.go_back("t", *index.get(&positions), OnConflict::Refuse).await;
                assert_eq!(refused.is_err(), !plan.conflicts.is_empty(), "{plan:?}");
                if refused.is_err() {
                    assert_eq!(world.tree(), before);
                }
                let done = world.go_back("t", *index.get(&positions), OnConflict::Skip).await.unwrap();
                let after = world.tree();
                // In later rounds, the user's text may have been restored by a rewind.
                for (path, content) in before.iter().filter(|_| n == 0) {
                    if content.as_ref().is_some_and(|content| content.starts_with("the user's")) {
                        assert_eq!(after.get(path), Some(content), "{path} in {plan:?}");
                    }
                }
                positions.push(done.left);
                // With consent, it is replaced, and can be restored.
                let overwritten = world.go_back("t", *index.get(&positions), OnConflict::Overwrite).await.unwrap();
                world.go_back("t", overwritten.left, OnConflict::Overwrite).await.unwrap();
                assert_eq!(world.tree(), after, "{plan:?}");
            }
        });
    }
}
