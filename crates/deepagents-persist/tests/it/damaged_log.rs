//! An unreadable record does not hide those before it, and a rewind can leave it behind.
#![allow(clippy::disallowed_methods, reason = "tests damage files")]

use std::path::PathBuf;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::error::Error;
use deepagents_core::journal::{CheckpointSource, Journal, JournalError, LogPosition, RetentionPolicy};
use deepagents_core::message::Messages;
use deepagents_core::run::RunInput;
use deepagents_models::scripted::{ScriptedModel, Turn, check_history};
use deepagents_persist::Sqlite;
use rusqlite::Connection;

use crate::sqlite::place;

async fn talker(path: &PathBuf) -> (Agent, Arc<Sqlite>) {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| Turn::text(format!("answer {}", request.messages.len()))))
        .build();
    let database = Arc::new(Sqlite::open(path).await.unwrap());
    (Agent::builder(model).journal(database.clone()).build().unwrap(), database)
}

async fn say(agent: &Agent, text: &str) -> Messages {
    let outcome = agent.invoke(RunInput::new(text).thread("t")).await.unwrap();
    check_history(outcome.messages()).unwrap();
    outcome.messages().clone()
}

fn damage(path: &PathBuf, position: LogPosition) {
    let other = Connection::open(path).unwrap();
    let changed = other.execute("UPDATE event SET body = 'x' WHERE position = ?1", [position as i64]).unwrap();
    assert_eq!(changed, 1);
}

fn damaged_at(error: &Error) -> Option<LogPosition> {
    match error {
        Error::Journal(JournalError::Damaged { position, .. }) => Some(*position),
        _ => None,
    }
}

#[tokio::test]
async fn one_damaged_record_does_not_hide_the_surrounding_history() {
    let path = place();
    let (agent, database) = talker(&path).await;
    for text in ["one", "two", "three"] {
        say(&agent, text).await;
    }
    let whole = agent.history("t", None, usize::MAX).await.unwrap();
    let end = database.threads().get("t").await.unwrap().unwrap().end;
    for position in 0..end {
        let body: String = {
            let other = Connection::open(&path).unwrap();
            other.query_row("SELECT body FROM event WHERE position = ?1", [position as i64], |row| row.get(0)).unwrap()
        };
        damage(&path, position);
        let rest = agent.history("t", None, usize::MAX).await.unwrap();
        let expected: Vec<LogPosition> =
            whole.iter().map(|c| c.position).filter(|checkpoint| *checkpoint != position + 1).collect();
        assert_eq!(rest.iter().map(|c| c.position).collect::<Vec<_>>(), expected, "{position}");
        assert_eq!(damaged_at(&agent.state("t").await.unwrap_err()), Some(position));
        for checkpoint in whole.iter().filter(|checkpoint| checkpoint.position <= position) {
            agent.state_at("t", checkpoint.position).await.unwrap();
        }
        agent.sub_agents("t").await.unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute("UPDATE event SET body = ?2 WHERE position = ?1", (position as i64, &body)).unwrap();
    }
}

#[tokio::test]
async fn rewinding_before_a_damaged_record_repairs_the_thread() {
    for last in [true, false] {
        let path = place();
        let (agent, database) = talker(&path).await;
        say(&agent, "one").await;
        let safe = database.threads().get("t").await.unwrap().unwrap().end;
        say(&agent, "two").await;
        say(&agent, "three").await;
        let end = database.threads().get("t").await.unwrap().unwrap().end;
        damage(&path, if last { end - 1 } else { safe + 1 });
        assert!(damaged_at(&agent.invoke(RunInput::new("four").thread("t")).await.unwrap_err().error).is_some());
        let after = agent.rewind("t", safe).await.unwrap();
        assert_eq!(after, end + 1);
        assert_eq!(agent.state("t").await.unwrap().messages().len(), 2);
        assert_eq!(say(&agent, "again").await.len(), 4);
        let history = agent.history("t", None, usize::MAX).await.unwrap();
        let back = history.iter().find(|c| c.origin == CheckpointSource::Rewind).unwrap();
        assert_eq!((back.position, back.parent), (after, Some(safe)));
        // Also in a new process, and with a second rewind after the first.
        let (agent, _) = talker(&path).await;
        assert_eq!(agent.state("t").await.unwrap().messages().len(), 4);
        agent.rewind("t", after).await.unwrap();
        assert_eq!(agent.state("t").await.unwrap().messages().len(), 2);
        assert_eq!(say(&agent, "and again").await.len(), 4);
    }
}

#[tokio::test]
async fn a_run_can_start_from_a_position_before_a_damaged_record() {
    let path = place();
    let (agent, database) = talker(&path).await;
    say(&agent, "one").await;
    let safe = database.threads().get("t").await.unwrap().unwrap().end;
    say(&agent, "two").await;
    damage(&path, safe + 2);
    let outcome = agent.invoke(RunInput::new("other").thread("t").at(safe)).await.unwrap();
    assert_eq!(outcome.messages().len(), 4);
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 4);
}

#[tokio::test]
async fn a_thread_can_be_pruned_before_a_damaged_record_and_after_rewinding() {
    let path = place();
    let (agent, database) = talker(&path).await;
    say(&agent, "one").await;
    let safe = database.threads().get("t").await.unwrap().unwrap().end;
    say(&agent, "two").await;
    let end = database.threads().get("t").await.unwrap().unwrap().end;
    damage(&path, end - 1);
    agent.prune("t", &RetentionPolicy::From(safe)).await.unwrap();
    assert_eq!(agent.state_at("t", safe).await.unwrap().messages().len(), 2);
    assert!(agent.prune("t", &RetentionPolicy::Latest).await.is_err(), "its latest state cannot be read");
    agent.rewind("t", safe).await.unwrap();
    agent.prune("t", &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 2);
    assert_eq!(say(&agent, "on").await.len(), 4);
    database.check().await.unwrap();
}
