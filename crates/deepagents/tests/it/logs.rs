//! Logs of every version ever written are still readable and yield the same state. Corpus files are never changed, only
//! added.

use std::sync::Arc;
use std::time::Duration;

use deepagents::channels::{Files, Todo, TodoStatus, TodoUpdate, Todos};
use deepagents::core::journal::{Claim, Record, decode, encode};
use deepagents::core::state::Update;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal, RunInput};
use proptest::prelude::*;
use serde_json::{Value, json};

const V1: &str = include_str!("../corpus/v1.jsonl");
const V2: &str = include_str!("../corpus/v2.jsonl");

fn write(items: &[(&str, &str)]) -> (&'static str, Value) {
    let items: Vec<Value> =
        items.iter().map(|(content, status)| json!({"content": content, "status": status})).collect();
    ("write_todos", json!({ "todos": items }))
}

/// The turns of the runs in the corpus.
fn turns() -> [Turn; 4] {
    [
        Turn::calls([
            write(&[("Look", "in_progress"), ("Report", "pending"), ("Rest", "pending")]),
            ("write_file", json!({"file_path": "/a.txt", "content": "one\n"})),
            ("write_file", json!({"file_path": "/b.txt", "content": "two\n"})),
        ]),
        Turn::calls([
            write(&[("Report", "in_progress"), ("Look", "completed"), ("Ask", "pending")]),
            ("delete", json!({"file_path": "/b.txt"})),
            ("edit_file", json!({"file_path": "/a.txt", "old_string": "one", "new_string": "three"})),
        ]),
        Turn::calls([write(&[("Look", "completed"), ("Report", "completed"), ("Ask", "completed")])]),
        Turn::text("Done."),
    ]
}

fn agent(journal: Arc<MemoryJournal>) -> DeepAgent {
    DeepAgent::builder().model(ScriptedModel::new(turns())).journal(journal).build().unwrap()
}

async fn log(journal: &MemoryJournal) -> Vec<Record> {
    journal.load("t", None).await.unwrap().entries.into_iter().map(|entry| entry.record).collect()
}

/// The changes of a channel in a log, as JSON.
fn changes(log: &[Record], channel: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for record in log {
        let record: Value = serde_json::from_str(&encode(record).unwrap()).unwrap();
        for change in record["update"].as_array().into_iter().flatten().filter(|change| change[0] == channel) {
            found.push(change[1].clone());
        }
    }
    found
}

#[tokio::test]
async fn logs_of_every_version_yield_the_same_todos_and_files() {
    for (version, text) in [V1, V2].into_iter().enumerate() {
        let records = text.lines().zip(0..).map(|(line, at)| decode("t", at, line).unwrap()).collect();
        let journal = Arc::new(MemoryJournal::new());
        let fence = journal.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
        journal.append("t", fence, 0, records).await.unwrap();
        let state = agent(journal).state("t").await.unwrap();
        let todos = state.get::<Todos>().unwrap();
        let said: Vec<(&str, &str)> = todos.iter().map(|todo| (&*todo.id, &*todo.content)).collect();
        assert_eq!(said, [("1", "Look"), ("2", "Report"), ("4", "Ask")], "version {}", version + 1);
        assert!(todos.iter().all(|todo| todo.status == TodoStatus::Completed));
        let files = state.to_json(false).unwrap().remove("files").unwrap();
        assert_eq!(files.as_object().unwrap().keys().collect::<Vec<_>>(), ["/a.txt"]);
        assert_eq!(files["/a.txt"]["content"], "three\n");
        assert_eq!(state.messages().len(), 12);
        assert!(state.get::<Files>().is_some());
    }
}

#[tokio::test]
async fn todos_and_files_are_journalled_by_key_with_tombstones() {
    let journal = Arc::new(MemoryJournal::new());
    agent(journal.clone()).invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let log = log(&journal).await;
    let todos: Vec<Value> = changes(&log, "todos");
    let ids = |items: &Value| {
        items.as_array().into_iter().flatten().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<String>()
    };
    let put: Vec<String> = todos.iter().map(|change| ids(&change["put"])).collect();
    assert_eq!(put, ["123", "214", "24"], "{todos:?}");
    assert_eq!(
        todos.iter().map(|change| &change["delete"]).collect::<Vec<_>>(),
        [&Value::Null, &json!(["3"]), &Value::Null]
    );
    assert_eq!(
        todos.iter().map(|change| &change["order"]).collect::<Vec<_>>(),
        [&Value::Null, &json!(["2", "1", "4"]), &json!(["1", "2", "4"])]
    );
    let files = changes(&log, "files");
    let named: Vec<Vec<&str>> =
        files.iter().map(|change| change.as_object().unwrap().keys().map(String::as_str).collect()).collect();
    assert_eq!(named, [["/a.txt"], ["/b.txt"], ["/b.txt"], ["/a.txt"]]);
    assert_eq!(files[2], json!({"/b.txt": null}));
}

#[tokio::test]
async fn moving_one_item_of_a_long_list_writes_one_item() {
    let words: Vec<String> = (0..200).map(|n| format!("Look at the place with the number {n}.")).collect();
    let list = |done: usize| {
        let items: Vec<(&str, &str)> = words
            .iter()
            .enumerate()
            .map(|(n, word)| (word.as_str(), if n < done { "completed" } else { "pending" }))
            .collect();
        Turn::calls([write(&items)])
    };
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([list(0), list(1), list(200), Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).build().unwrap();
    agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let sizes: Vec<usize> =
        changes(&log(&journal).await, "todos").iter().map(|change| change.to_string().len()).collect();
    assert!(sizes[0] > 20_000 && sizes[1] < 200, "{sizes:?}");
}

#[tokio::test]
async fn an_application_can_set_a_whole_list() {
    let agent = agent(Arc::new(MemoryJournal::new()));
    let todo = |id: &str| Todo {
        id: id.to_owned(),
        content: "same".to_owned(),
        status: TodoStatus::Pending,
        created_at: String::new(),
    };
    let whole = TodoUpdate::Whole(vec![todo("x"), todo("x")]);
    agent.update_state("t", Update::new::<Todos>(whole)).await.unwrap();
    assert_eq!(agent.state("t").await.unwrap().get::<Todos>().unwrap().len(), 2);
    let other = serde_json::from_value::<TodoUpdate>(json!([todo("y")])).unwrap();
    assert_eq!(other, TodoUpdate::Whole(vec![todo("y")]));
    assert!(serde_json::from_value::<TodoUpdate>(json!({"puts": [todo("y")]})).is_err());
}

fn any_list() -> impl Strategy<Value = Vec<Todo>> {
    let status = prop_oneof![Just(TodoStatus::Pending), Just(TodoStatus::Completed)];
    let item = ("[1-9]", "[ab]", status).prop_map(|(id, content, status)| Todo {
        id,
        content,
        status,
        created_at: String::new(),
    });
    prop::collection::vec(item, 0..8)
}

proptest! {
    #[test]
    fn the_change_between_two_lists_turns_one_into_the_other(before in any_list(), after in any_list()) {
        use deepagents::core::state::Channel;
        let update = TodoUpdate::between(&before, &after);
        let stored: TodoUpdate = serde_json::from_str(&serde_json::to_string(&update).unwrap()).unwrap();
        prop_assert_eq!(&stored, &update);
        prop_assert_eq!(update.is_empty(), before == after);
        let mut list = before.clone();
        Todos::reduce(&mut list, stored).unwrap();
        prop_assert_eq!(list, after);
    }
}
