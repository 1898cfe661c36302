//! Processes that ended in the middle of a change, and damaged or foreign databases.

use super::*;

/// Never returns the result of a call.
struct Hangs(Arc<Notify>);

impl Middleware for Hangs {
    fn name(&self) -> &str {
        "Hangs"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let response = next.run(request).await?;
        self.0.notify_one();
        std::future::pending::<()>().await;
        Ok(response)
    }
}

#[tokio::test]
async fn a_write_whose_result_was_lost_in_a_crash_is_listed_and_rewound() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one")]).await;
    let written = Arc::new(Notify::new());
    let agent = world.builder([write("/a.txt", "two")]).middleware(Hangs(written.clone())).build().unwrap();
    tokio::select! {
        _ = agent.invoke(RunInput::new("Go.").thread("t")) => panic!("it hangs"),
        () = written.notified() => {}
    }
    assert_eq!(world.read("a.txt").as_deref(), Some("two"));
    let plan = world.back("t", first).plan().await.unwrap();
    assert_eq!(paths(&plan.unrecorded), ["/a.txt"], "{plan:?}");
    assert!(plan.conflicts.is_empty(), "{plan:?}");
    let done = world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("one"));
    world.go_back("t", done.left, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("two"));
}

#[tokio::test]
async fn a_change_announced_but_not_made_before_a_crash_is_recognised() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one")]).await;
    world.play("t", [write("/a.txt", "two")]).await;
    // As if the process had ended between the row and the change.
    let undone = world.undo_db().execute("UPDATE change SET done = 0 WHERE seq = 2", []).unwrap();
    assert_eq!(undone, 1);
    world.put("a.txt", "one");
    assert!(world.back("t", first).plan().await.unwrap().is_empty());
    // The file has its new content, so the change was made.
    world.put("a.txt", "two");
    let plan = world.back("t", first).plan().await.unwrap();
    assert!(plan.conflicts.is_empty() && plan.changes.len() == 1, "{plan:?}");
    // The row does not block later changes.
    world.play("t", [write("/a.txt", "three")]).await;
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("one"));
}

#[tokio::test]
async fn damaged_content_is_not_restored() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one"), write("/b.txt", "b1")]).await;
    world.play("t", [write("/a.txt", "two"), write("/b.txt", "b2")]).await;
    world.undo_db().execute("UPDATE content SET body = x'6f6e6f' WHERE body = x'6f6e65'", []).unwrap();
    let plan = world.back("t", first).plan().await.unwrap();
    assert_eq!(paths(plan.skipped.iter().map(|skipped| &skipped.path)), ["/a.txt"]);
    assert_eq!(plan.skipped[0].reason, "its content is no longer stored");
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!((world.read("a.txt").as_deref(), world.read("b.txt").as_deref()), (Some("two"), Some("b1")));
}

#[tokio::test]
async fn a_damaged_database_is_reported_and_no_file_is_touched() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "one"), write("/a.txt", "two")]).await;
    let (before, head) = (world.tree(), world.head("t").await);
    let another = || {
        LocalBackend::open_with(world.dir.path(), LocalOptions { undo: Some(world.store()), ..LocalOptions::default() })
            .unwrap()
    };
    let whole = std::fs::read(world.undo_file()).unwrap();
    let mut torn = whole.clone();
    torn[100..].fill(0x5a);
    for (damage, why) in [(b"This is a note of somebody.".to_vec(), "file is not a database"), (torn, "malformed")] {
        // Another file at the same path, which open connections must notice.
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", world.undo_file().display()));
        }
        std::fs::write(world.undo_file(), &damage).unwrap();
        for files in [world.files.clone(), another()] {
            let back = Rewind::new(&world.agent([]), &files, "t", 0);
            let told = back.plan().await.unwrap_err();
            assert!(
                matches!(told, RewindError::Files(RestoreError::Undo(_))) && told.to_string().contains(why),
                "{told}"
            );
            assert!(!told.to_string().contains(&*world.beside.path().to_string_lossy()), "{told}");
        }
        let collected = world.store().gc(|_| true).unwrap_err();
        assert!(collected.to_string().contains(why), "{collected}");
        // A file is not changed if the change cannot be recorded.
        let outcome = world.agent([write("/a.txt", "three"), delete("/a.txt")]);
        let outcome = outcome.invoke(RunInput::new("Go.").thread(why)).await.unwrap();
        let refused: Vec<_> = outcome.messages().iter().filter_map(|message| message.as_tool()).collect();
        assert!(refused.len() == 2 && refused.iter().all(|result| result.is_error), "{refused:?}");
        assert!(format!("{refused:?}").contains("so it was not changed"), "{refused:?}");
        assert_eq!(std::fs::read(world.undo_file()).unwrap(), damage, "nothing is written over it");
    }
    assert_eq!((world.tree(), world.head("t").await), (before, head));
    // The conversation can go back without the files.
    world.agent([]).rewind("t", first).await.unwrap();
}

#[tokio::test]
async fn a_foreign_or_newer_database_is_left_alone() {
    let world = World::new().await;
    std::fs::create_dir(world.undo_file().parent().unwrap()).unwrap();
    world.undo_db().execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (1);").unwrap();
    let before = std::fs::read(world.undo_file()).unwrap();
    world.agent([write("/a.txt", "1")]).invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!((world.read("a.txt"), std::fs::read(world.undo_file()).unwrap()), (None, before));
    let foreign = world.store().gc(|_| true).unwrap_err();
    assert!(foreign.to_string().contains("it belongs to another program"), "{foreign}");

    let world = World::new().await;
    world.play("t", [write("/a.txt", "1")]).await;
    world.undo_db().pragma_update(None, "application_id", 0x6461_6702).unwrap();
    let newer = world.store().gc(|_| true).unwrap_err();
    assert!(newer.to_string().contains("newer version"), "{newer}");
}

#[tokio::test]
async fn changes_recorded_by_an_earlier_version_are_reported_and_skipped() {
    let world = World::new().await;
    world.play("t", [write("/a.txt", "one")]).await;
    // The thread's journal as an earlier version would have left it.
    let agent = world.agent([]);
    let directory = |log: &rusqlite::Connection| log.query_row("SELECT directory FROM log", [], |row| row.get(0));
    let root: String = directory(&world.undo_db()).unwrap();
    let begin = r#"[{"begin":{"thread":"old","line":"an id"}},{"reached":{"root":"ROOT","seq":1}}]"#;
    let update: Vec<UndoUpdate> = serde_json::from_str(&begin.replace("ROOT", &root)).unwrap();
    world.play("old", []).await;
    let first = world.head("old").await;
    let update = deepagents::Update::new::<FileUndo>(update);
    agent.update_state("old", update).await.unwrap();
    let plan = world.back("old", first).plan().await.unwrap();
    assert_eq!(paths(plan.skipped.iter().map(|skipped| &skipped.path)), ["/"]);
    assert!(plan.skipped[0].reason.contains("an earlier version"), "{plan:?}");
    // Changes from now on can be rewound.
    let upgraded = world.head("old").await;
    world.play("old", [write("/a.txt", "two")]).await;
    let done = world.go_back("old", upgraded, OnConflict::Refuse).await.unwrap();
    assert_eq!((paths(&done.restored), world.read("a.txt").as_deref()), (vec!["/a.txt"], Some("one")));
    world.go_back("old", first, OnConflict::Refuse).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("one"));
    // An earlier snapshot can be read too.
    let value = r#"{"line":"an id","thread":"old","earlier":["older"],"reached":{"ROOT":3}}"#;
    let value: deepagents::fs::UndoCursor = serde_json::from_str(value).unwrap();
    let again = serde_json::to_value(&value).unwrap();
    assert_eq!(again, json!({"line": "an id", "thread": "old", "copied_from": ["older"], "reached": {"ROOT": 3}}));
}

#[tokio::test]
async fn a_rewind_interrupted_after_restoring_the_files_can_be_repeated() {
    let world = World::new().await;
    let first = world.play("t", [write("/a.txt", "1")]).await;
    world.play("t", [write("/a.txt", "2"), write("/b.txt", "2")]).await;
    let agent = world.agent([]);
    let (here, there) = (agent.state("t").await.unwrap(), agent.state_at("t", first).await.unwrap());
    let plan = world.files.plan_restore("t", &here, &there).await.unwrap();
    world.files.restore("t", &here, &there, &plan, OnConflict::Refuse).await.unwrap();
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 10, "the conversation is where it was");
    assert!(world.back("t", first).plan().await.unwrap().is_empty());
    world.go_back("t", first, OnConflict::Refuse).await.unwrap();
    assert_eq!((world.read("a.txt").as_deref(), world.read("b.txt")), (Some("1"), None));
}
