//! Writes a corpus, to inspect it or as the basis of the next version. An existing corpus is never overwritten.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deepagents::fs::OnConflict;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::rewind::Rewind;
use deepagents::{Decision, DeepAgent, FinishReason, Journal, Message, RunInput, Update};
use deepagents_core::journal::{Record, RetentionPolicy, encode};
use deepagents_core::store::{Query, Store, Write};
use deepagents_persist::{Sqlite, SqliteOptions};
use serde_json::{Value, json};

use super::agents::{builder, clock, reader, with_undo};
use super::expected::{Expected, thread};

/// Threads whose records are not written as text: too large, or without a beginning.
const DATABASE_ONLY: [&str; 2] = ["large", "pruned"];

/// A model with separate scripts for summaries and for the researcher.
fn model(research: impl IntoIterator<Item = Turn>, turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    ScriptedModel::rules()
        .when(|request| request.tools.is_empty(), std::iter::repeat_n(Turn::text("A summary."), 9))
        .when(|request| request.system_text().contains("You find things out"), research)
        .otherwise(turns)
        .build()
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"file_path": path, "content": content}))
}

fn send(to: &str) -> (&'static str, Value) {
    ("send", json!({"to": to, "text": "See you at 8."}))
}

fn research() -> (&'static str, Value) {
    ("task", json!({"subagent_type": "researcher", "description": "On which river is Turin?"}))
}

async fn run(agent: &DeepAgent, input: RunInput) -> FinishReason {
    agent.invoke(input).await.unwrap().stop
}

/// The position after the nth record of a kind in a thread's log.
async fn after(journal: &Sqlite, thread: &str, nth: usize, kind: impl Fn(&Record) -> bool) -> u64 {
    let entries = Journal::read(journal, thread, 0..u64::MAX >> 1).await.unwrap();
    let mut found = entries.iter().filter(|entry| kind(&entry.record));
    found.nth(nth).unwrap_or_else(|| panic!("{thread} has fewer: {entries:?}")).position + 1
}

async fn approvals(db: &Arc<Sqlite>) {
    let calls = || Turn::calls([send("ada@example.org"), write("/sent.md", "Ada\n"), send("all"), send("bob")]);
    let agent = |_| builder(db.clone(), model([], [calls(), Turn::text("Ada knows.")])).build().unwrap();
    for thread in ["answered", "waiting", "half-answered"] {
        let agent = agent(thread);
        let outcome = agent.invoke(RunInput::new("Tell Ada.").thread(thread)).await.unwrap();
        assert_eq!(outcome.stop, FinishReason::Interrupted);
        let ids: Vec<_> = outcome.action_requests().into_iter().map(|question| question.id).collect();
        let reject = Decision::Reject { message: Some("Ada alone.".into()) };
        let mut input = RunInput::resume(thread);
        if thread == "waiting" {
            continue;
        }
        input = input.decide(ids[0].clone(), Decision::Approve);
        if thread == "answered" {
            let edited = json!({"name": "send", "args": {"to": "bob@example.org", "text": "At 9."}});
            let edit: Decision = serde_json::from_value(json!({"type": "edit", "edited_action": edited})).unwrap();
            input = input.decide(ids[1].clone(), reject).decide(ids[2].clone(), edit);
        }
        let stop = run(&agent, input).await;
        assert_eq!(stop == FinishReason::Interrupted, thread != "answered", "{thread}: {stop:?}");
    }
}

async fn sub_agents(db: &Arc<Sqlite>) {
    let found = || Turn::text("On the Po; see /notes.md.");
    let notes = || Turn::calls([write("/notes.md", "Turin lies on the Po.\n")]);
    let both = || [Turn::calls([research(), research()]), Turn::text("It lies on the Po.")];
    let agent = builder(db.clone(), model([notes(), found(), notes(), found()], both())).build().unwrap();
    run(&agent, RunInput::new("What do you know of Turin?").thread("sub-agents")).await;
    let turns = [Turn::calls([research()]), Turn::text("Done.")];
    let agent = builder(db.clone(), model([notes(), Turn::calls([send("ada")]), found()], turns)).build().unwrap();
    assert_eq!(run(&agent, RunInput::new("Ask Ada.").thread("sub-agent-waiting")).await, FinishReason::Interrupted);
}

async fn files(db: &Arc<Sqlite>) {
    let todos = |status: &str| ("write_todos", json!({"todos": [{"content": "Look", "status": status}]}));
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"file_path": "/a.md", "old_string": old, "new_string": new}));
    let turns = [
        Turn::calls([todos("in_progress"), write("/a.md", "one\n"), write("/b.md", "two\n")]),
        Turn::calls([edit("one", "three"), ("delete", json!({"file_path": "/b.md"})), edit("none", "x")]),
        Turn::calls([todos("completed"), ("no_such_tool", json!({}))]),
        Turn::text("Done."),
    ];
    let agent = builder(db.clone(), model([], turns)).build().unwrap();
    run(&agent, RunInput::new("Write.").thread("files")).await;
    agent.update_state("files", Update::message(Message::user("By the way."))).await.unwrap();
    db.threads().set_metadata("files", json!({"title": "Files"}).as_object().unwrap().clone()).await.unwrap();
    // Killed when three calls had started and two had finished, and when one of two children had finished.
    let at = after(db, "files", 1, |record| matches!(record, Record::ToolFinished { .. })).await;
    db.threads().copy("files", "killed", Some(at)).await.unwrap();
    let at = after(db, "sub-agents", 0, |record| matches!(record, Record::ToolFinished { .. })).await;
    db.threads().copy("sub-agents", "killed-in-child", Some(at)).await.unwrap();
}

async fn history(db: &Arc<Sqlite>) {
    let long = (0..9).map(|n| Turn::text(format!("Answer {n}.")));
    let agent = builder(db.clone(), model([], long)).build().unwrap();
    for n in 0..7 {
        run(&agent, RunInput::new(format!("Question {n}")).thread("compaction")).await;
    }
    let turns = [Turn::calls([write("/a.md", "one\n")]), Turn::text("Done."), Turn::calls([write("/a.md", "two\n")])];
    let agent = builder(db.clone(), model([], turns.into_iter().chain([Turn::text("Done.")]))).build().unwrap();
    run(&agent, RunInput::new("Write one.").thread("rewound")).await;
    let back = agent.history("rewound", None, 100).await.unwrap()[2].position;
    agent.rewind("rewound", back).await.unwrap();
    run(&agent, RunInput::new("Write two.").thread("rewound")).await;
    agent.rewind("rewound", back).await.unwrap();
}

async fn undo(db: &Arc<Sqlite>) {
    let path = crate::sqlite::place();
    let write = |text: &str| Turn::calls([write("/plan.md", text)]);
    let turns = [write("By train."), Turn::text("Done."), write("By boat."), Turn::text("Done.")];
    let (agent, files) = with_undo(path.parent().unwrap(), builder(db.clone(), model([], turns)));
    let agent = agent.build().unwrap();
    run(&agent, RunInput::new("Plan the trip.").thread("undo")).await;
    let checkpoint = agent.history("undo", None, 1).await.unwrap()[0].position;
    run(&agent, RunInput::new("No, by boat.").thread("undo")).await;
    let back = Rewind::new(&agent, &files, "undo", checkpoint);
    back.apply(&back.plan().await.unwrap(), OnConflict::Refuse).await.unwrap();
}

/// Long texts that are stored once, a snapshot, and pruned history.
async fn large(db: &Arc<Sqlite>) {
    let text = "0123456789".repeat(6_600);
    let agent = builder(db.clone(), model([], (0..9).map(|_| Turn::text("Read.")))).build().unwrap();
    for _ in 0..5 {
        run(&agent, RunInput::new(&*text).thread("large")).await;
    }
    assert!(db.load("large", None).await.unwrap().snapshot.is_some());
    db.threads().copy("large", "pruned", None).await.unwrap();
    agent.prune("pruned", &RetentionPolicy::Latest).await.unwrap();
    run(&agent, RunInput::new("And now?").thread("pruned")).await;
}

async fn store(db: &Arc<Sqlite>) {
    let notes = |who: &str| vec![who.to_owned(), "notes".to_owned()];
    db.put(&notes("ada"), "city", json!({"name": "Turin", "size": 1.5})).await.unwrap();
    db.put(&notes("ada"), "city", json!({"name": "Turin", "size": 2})).await.unwrap();
    let write = Write { ttl: Some(Duration::from_secs(3_000_000_000)), size: Some(7), ..Write::default() };
    db.write(&notes("bob"), "/a ü.md", json!("text"), write).await.unwrap();
}

#[tokio::test]
#[ignore = "writes a corpus; DEEPAGENTS_CORPUS names the folder"]
async fn write_a_corpus() {
    let folder = std::env::var("DEEPAGENTS_CORPUS").expect("DEEPAGENTS_CORPUS names a folder that does not exist");
    let folder = Path::new(&folder);
    std::fs::create_dir(folder).expect("a corpus is written to a new folder");
    std::fs::create_dir(folder.join("threads")).unwrap();
    let path = crate::sqlite::place();
    let db =
        Arc::new(SqliteOptions { clock: Arc::new(clock()), ..SqliteOptions::default() }.open(&path).await.unwrap());
    approvals(&db).await;
    sub_agents(&db).await;
    files(&db).await;
    history(&db).await;
    undo(&db).await;
    large(&db).await;
    store(&db).await;

    let infos = db.threads().list(&deepagents_core::journal::ThreadQuery::default()).await.unwrap();
    let mut names: Vec<String> = infos.into_iter().map(|info| info.id).collect();
    names.sort();
    let mut threads = Vec::new();
    for name in &names {
        let agent = reader(name, db.clone());
        threads.push((name.as_str(), thread(&*db, &agent, name).await));
        if !DATABASE_ONLY.contains(&name.as_str()) {
            let entries = Journal::read(&*db, name, 0..u64::MAX >> 1).await.unwrap();
            let text: String = entries.iter().map(|entry| encode(&entry.record).unwrap() + "\n").collect();
            std::fs::write(folder.join("threads").join(format!("{name}.jsonl")), text).unwrap();
        }
    }
    let items = Store::search(&*db, &[], &Query::default()).await.unwrap();
    let items: Vec<Value> = items.iter().map(|item| json!(item)).collect();
    std::fs::write(folder.join("expected.json"), Expected::new(threads, &items.into()).text()).unwrap();
    // Small pages keep the file small; any page size is readable.
    let file = rusqlite::Connection::open(&path).unwrap();
    let into = folder.join("threads.db");
    file.execute_batch("PRAGMA page_size = 1024; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    file.execute("VACUUM INTO ?1", [into.to_str().unwrap()]).unwrap();
}
