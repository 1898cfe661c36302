//! The todo list and its rules.

use deepagents::channels::{TodoStatus, Todos};
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::scripted::Turn;
use deepagents::{Message, Outcome, Stop};
use serde_json::{Value, json};

use crate::{play, results};

fn write(items: &[(&str, &str)]) -> Turn {
    Turn::call("write_todos", todos(items))
}

fn todos(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> =
        items.iter().map(|(content, status)| json!({"content": content, "status": status})).collect();
    json!({ "todos": items })
}

fn list(outcome: &Outcome) -> Vec<(String, TodoStatus)> {
    outcome.state.get::<Todos>().unwrap().iter().map(|t| (t.content.clone(), t.status)).collect()
}

#[tokio::test]
async fn a_write_replaces_the_whole_list() {
    let script = [
        write(&[("Read", "in_progress"), ("Write", "pending")]),
        write(&[("Read", "completed"), ("Write", "completed")]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(
        list(&outcome),
        [("Read".to_owned(), TodoStatus::Completed), ("Write".to_owned(), TodoStatus::Completed)]
    );
}

#[tokio::test]
async fn two_writes_in_one_turn_are_both_refused_and_other_calls_of_the_turn_run() {
    let script = [
        Turn::calls([
            ("write_todos", todos(&[("A", "pending")])),
            ("ls", json!({"path": "/"})),
            ("write_todos", todos(&[("B", "pending")])),
        ]),
        Turn::text("Sorry."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert!(list(&outcome).is_empty());
    let errors: Vec<bool> = results(&outcome).into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors.iter().filter(|e| **e).count(), 2);
    assert_eq!(errors.len(), 3);
}

#[tokio::test]
async fn an_unknown_status_is_an_error_that_names_the_place() {
    let (outcome, _) = play([write(&[("A", "doing")]), Turn::text("Hm.")], |b| b).await;
    let (text, error) = results(&outcome).remove(0);
    assert!(error && text.contains("/todos/0/status"), "{text}");
}

#[tokio::test]
async fn ids_and_times_stay_with_an_item_while_its_status_or_its_words_change() {
    let rename = json!({"todos": [{"id": "1", "content": "Read all of it", "status": "completed"}]});
    let script = [write(&[("Read", "pending")]), Turn::call("write_todos", rename), Turn::text("Done.")];
    let (outcome, _) = play(script, |b| b).await;
    let todos = outcome.state.get::<Todos>().unwrap();
    assert_eq!((todos[0].id.as_str(), todos[0].content.as_str()), ("1", "Read all of it"));
    assert!(!todos[0].created_at.is_empty());
}

#[tokio::test]
async fn finished_items_that_a_write_leaves_out_are_kept_and_the_model_is_told() {
    let script =
        [write(&[("Read", "completed"), ("Write", "pending")]), write(&[("Write", "completed")]), Turn::text("Done.")];
    let (outcome, _) = play(script.clone(), |b| b).await;
    assert_eq!(list(&outcome).len(), 2);
    assert!(results(&outcome)[1].0.contains("have been kept: Read"), "{:?}", results(&outcome));

    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::off())).await;
    assert_eq!(list(&outcome).len(), 1);
}

#[tokio::test]
async fn an_empty_list_clears() {
    let (outcome, _) = play([write(&[("A", "completed")]), write(&[]), Turn::text("Done.")], |b| b).await;
    assert!(list(&outcome).is_empty());
}

#[tokio::test]
async fn a_run_that_is_about_to_end_with_open_items_is_asked_once() {
    let script = [write(&[("A", "pending")]), Turn::text("Finished."), Turn::text("Really.")];
    let (outcome, model) = play(script.clone(), |b| b).await;
    assert_eq!((outcome.stop.clone(), outcome.text().as_str()), (Stop::Done, "Really."));
    assert!(model.requests()[2].messages.last().unwrap().text().contains("- [pending] A"));

    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::default().ask_before_end(false))).await;
    assert_eq!(outcome.text(), "Finished.");
}

#[tokio::test]
async fn a_list_that_does_not_move_is_recalled_at_the_end_of_the_conversation() {
    let look = || Turn::call("ls", json!({"path": "/"}));
    let script = [
        write(&[("A", "in_progress")]),
        look(),
        look(),
        look(),
        look(),
        write(&[("A", "completed")]),
        Turn::text("Done."),
    ];
    let policy = TodoPolicy::default().remind_after(Some(2));
    let (outcome, model) = play(script, |b| b.todos(policy)).await;
    let reminders: Vec<usize> = (0..outcome.messages().len())
        .filter(|&at| outcome.messages().get(at).unwrap().text().starts_with("Reminder:"))
        .collect();
    assert_eq!(reminders.len(), 2, "one for every two calls: {reminders:?}");
    // A reminder is stored, so that later requests begin with what earlier ones were.
    assert!(matches!(&**model.requests()[3].messages.last().unwrap(), Message::User(_)));
}

#[tokio::test]
async fn read_todos_shows_the_list() {
    let script = [
        Turn::call("read_todos", json!({})),
        write(&[("A", "completed")]),
        Turn::call("read_todos", json!({})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(results(&outcome)[0].0, "The todo list is empty.");
    assert_eq!(results(&outcome)[2].0, "1. [completed] A");
}
