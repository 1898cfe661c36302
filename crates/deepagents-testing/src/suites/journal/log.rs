//! Appending and reading.

use std::collections::BTreeSet;

use deepagents_core::env::Timestamp;
use deepagents_core::journal::{JournalError, Record, ThreadInstance, encode};
use deepagents_core::message::ToolMessage;
use deepagents_core::run::FinishReason;
use deepagents_core::state::Inheritance;
use deepagents_core::tool::CallId;
use serde_json::{Value, json};

use super::{Any, notes, own, says, schema, started, state, step, write};
use crate::suites::TestClock;

fn texts(entries: &[deepagents_core::journal::LogEntry]) -> Vec<String> {
    entries.iter().map(|entry| encode(&entry.record).unwrap()).collect()
}

/// A thread that was never written is empty.
pub async fn an_unknown_thread_is_empty(journal: Any, _: TestClock) {
    let loaded = journal.load("nobody", None).await.unwrap();
    assert_eq!((loaded.end, loaded.entries.len(), loaded.snapshot), (0, 0, None));
    assert!(journal.read("nobody", 0..10).await.unwrap().is_empty());
}

/// Order and content are preserved.
pub async fn what_is_appended_is_read_back_in_order(journal: Any, _: TestClock) {
    let records = [started("r"), says("m", "hello"), step(1), notes(json!({"k": 1}))];
    let wanted: Vec<String> = records.iter().map(|record| encode(record).unwrap()).collect();
    let fence = own(&journal, "t").await;
    let first = journal.append("t", fence, 0, records[..1].to_vec()).await.unwrap();
    assert_eq!(first.end, 1);
    assert_eq!(journal.append("t", fence, 1, records[1..].to_vec()).await.unwrap().end, 4);
    let loaded = journal.load("t", None).await.unwrap();
    assert_eq!(loaded.end, 4);
    assert_eq!(texts(&loaded.entries), wanted);
    assert_eq!(loaded.entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// Text, all kinds of numbers, ordered lists and objects, and values that databases handle badly.
pub async fn values_come_back_as_they_were(journal: Any, _: TestClock) {
    let value = json!({
        "text": "ü \u{0} \u{1f600} \\ \" \u{7f} \u{2028}", "empty": "", "zero": 0, "big": u64::MAX, "small": i64::MIN,
        "floats": [0.1, 1e300, -0.0, 5e-324, 1.7976931348623157e308, 123456789.12345679], "list": [[], {}, [null]],
        "z": {"z": 1, "a": 2}, "$blob": "x", "$plain": {"$blob": 1}, "yes": true
    });
    write(&journal, "t", vec![notes(json!({"value": value}))]).await;
    let folded = deepagents_core::journal::load(&*journal, "t", schema(), None).await.unwrap();
    let found = Value::Object(folded.state.to_json(true).unwrap());
    assert_eq!(found["notes"]["value"].to_string(), value.to_string());
}

/// The second of two writers gets a conflict, and the log is unchanged.
pub async fn an_append_elsewhere_than_at_the_end_is_a_conflict_and_appends_nothing(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1), step(2)]).await;
    let fence = own(&journal, "t").await;
    for expected in [0, 1, 3] {
        let error = journal.append("t", fence, expected, vec![step(9)]).await.unwrap_err();
        assert!(matches!(error, JournalError::Conflict { expected: e, found: 2, .. } if e == expected), "{error:?}");
    }
    assert_eq!(journal.load("t", None).await.unwrap().end, 2);
}

/// An empty append changes nothing.
pub async fn an_append_of_nothing_leaves_the_end(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    assert_eq!(write(&journal, "t", Vec::new()).await, 1);
}

/// Reads a part of a log.
pub async fn entries_are_read_by_position(journal: Any, _: TestClock) {
    write(&journal, "t", (0..10).map(step).collect()).await;
    let positions =
        |entries: Vec<deepagents_core::journal::LogEntry>| entries.iter().map(|e| e.position).collect::<Vec<_>>();
    assert_eq!(positions(journal.read("t", 3..6).await.unwrap()), [3, 4, 5]);
    assert_eq!(positions(journal.read("t", 8..99).await.unwrap()), [8, 9]);
    assert!(journal.read("t", 4..4).await.unwrap().is_empty());
    assert!(journal.read("t", 20..30).await.unwrap().is_empty());
}

/// A position stands for the records before it.
pub async fn a_log_is_loaded_up_to_any_position(journal: Any, _: TestClock) {
    write(&journal, "t", (0..5).map(|n| says(&format!("m{n}"), "x")).collect()).await;
    for at in 0..=5 {
        let loaded = journal.load("t", Some(at)).await.unwrap();
        assert_eq!((loaded.entries.len() as u64, loaded.end), (at, 5));
    }
    let error = deepagents_core::journal::load(&*journal, "t", schema(), Some(6)).await.unwrap_err();
    assert!(matches!(error, JournalError::NoState { position: 6, .. }), "{error:?}");
}

/// Threads are separate, whatever their names.
pub async fn threads_do_not_see_each_other(journal: Any, _: TestClock) {
    let names = ["t", "T", "t ", "t/1", "t%", "t_", "ţ", "' OR 1=1 --"];
    for name in names {
        write(&journal, name, vec![says("m", name)]).await;
    }
    for name in names {
        assert_eq!(journal.load(name, None).await.unwrap().end, 1, "{name}");
        assert!(state(&journal, name, None).await.contains(&json!(name).to_string()));
    }
}

/// Names that are empty, too long or contain NUL are rejected.
pub async fn a_name_that_cannot_be_used_is_refused(journal: Any, _: TestClock) {
    for name in ["", "a\0b", &"x".repeat(513)] {
        let claim = deepagents_core::journal::Claim::new("suite", super::minute());
        assert!(matches!(journal.claim(name, claim).await, Err(JournalError::Name { .. })), "{name:?}");
    }
    write(&journal, &"x".repeat(512), vec![step(1)]).await;
}

/// Megabytes in one record, as text and as lists, with one value repeated.
pub async fn large_values_come_back_and_do_not_disturb_small_ones(journal: Any, _: TestClock) {
    let large = "0123456789abcdef".repeat(128 * 1024);
    let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} of a large file")).collect();
    let records =
        vec![notes(json!({"a": large, "b": {"same": large}})), says("m", "small"), notes(json!({"c": lines})), step(1)];
    let wanted: Vec<String> = records.iter().map(|record| encode(record).unwrap()).collect();
    write(&journal, "t", records).await;
    assert_eq!(texts(&journal.load("t", None).await.unwrap().entries), wanted);
    assert_eq!(texts(&journal.read("t", 1..2).await.unwrap()), wanted[1..2]);
}

/// Of concurrent appends at the same position, one succeeds.
pub async fn of_writers_at_one_position_exactly_one_wins(journal: Any, _: TestClock) {
    let fence = own(&journal, "t").await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let journal = journal.clone();
        tasks.spawn(async move { journal.append("t", fence, 0, vec![step(n), step(n)]).await });
    }
    let (mut won, mut lost) = (0, 0);
    while let Some(result) = tasks.join_next().await {
        match result.unwrap() {
            Ok(_) => won += 1,
            Err(JournalError::Conflict { .. }) => lost += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((won, lost), (1, 15));
    assert_eq!(journal.load("t", None).await.unwrap().end, 2);
}

/// Writers of different threads do not disturb each other.
pub async fn many_threads_are_written_at_once(journal: Any, _: TestClock) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let journal = journal.clone();
        tasks.spawn(async move {
            let thread = format!("t{n}");
            let fence = own(&journal, &thread).await;
            for at in 0..20_u32 {
                let record = says(&format!("m{at}"), &format!("{n} {at}"));
                journal.append(&thread, fence, u64::from(at), vec![record]).await.unwrap();
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    for n in 0..20 {
        let entries = journal.load(&format!("t{n}"), None).await.unwrap().entries;
        let unique: BTreeSet<u64> = entries.iter().map(|entry| entry.position).collect();
        assert_eq!((entries.len(), unique.len()), (20, 20));
    }
}

/// Times come from the journal's clock, with millisecond precision.
pub async fn entries_have_the_time_of_their_append(journal: Any, clock: TestClock) {
    use deepagents_core::env::Clock;
    let first = clock.now();
    write(&journal, "t", vec![step(1)]).await;
    clock.pass(super::minute());
    write(&journal, "t", vec![Record::Rewind { to: 0, turn: 1 }]).await;
    let entries = journal.read("t", 0..2).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.at).collect::<Vec<_>>(), [first, clock.now()]);
}

/// Includes records of sub-agents' calls, of failed and interrupted runs, and of updates by the application.
pub async fn every_kind_of_record_comes_back(journal: Any, _: TestClock) {
    let below = CallId { path: vec!["task:0.1".to_owned(), "task:3.0".to_owned()], turn: 7, index: 2 };
    let Record::Update { update } = notes(json!({"by": "hand"})) else { panic!("an update") };
    let Record::ToolFinished { message, update: more, .. } = super::result(4) else { panic!("a result") };
    let failed = ToolMessage { is_error: true, artifact: Some(json!({"code": 7})), ..(*message).clone() };
    let begun = Record::AgentStarted {
        path: below.path.clone(),
        call: Some(super::call(3)),
        label: "task".to_owned(),
        agent: "helper".to_owned(),
        inheritance: Inheritance::Fork,
        values: vec![("notes".to_owned(), json!({"handed": "down"}))],
    };
    let stopped = |stop| Record::RunFinished { run: "r".to_owned(), stop };
    let records = vec![
        started("r"),
        Record::RunResumed {
            run: "s".to_owned(),
            at: "2027-01-01T00:00:00.123456789Z".to_owned(),
            thread: Some(ThreadInstance { id: "t".to_owned(), created_at: Some(Timestamp::UNIX_EPOCH) }),
            keys: Some("s/copy_1".to_owned()),
        },
        says("m", "x"),
        Record::StateUpdated { update, run: None },
        Record::ToolStarted {
            call: below.clone(),
            provider_call_id: "w".to_owned(),
            name: "n".to_owned(),
            repeatable: true,
            args: Some(json!({"a": 1})),
        },
        Record::ToolInterrupted { call: below.clone() },
        Record::ToolFinished { call: below.clone(), message: failed.into(), update: more },
        Record::ToolsCommitted { calls: vec![super::call(3), below.clone()] },
        step(9),
        Record::Rewind { to: 2, turn: 11 },
        stopped(None),
        stopped(Some(FinishReason::Interrupted)),
        stopped(Some(FinishReason::Done)),
        Record::Child { path: below.path.clone(), entry: Box::new(begun) },
        Record::Child { path: below.path, entry: Box::new(says("n", "x")) },
    ];
    let wanted: Vec<String> = records.iter().map(|record| encode(record).unwrap()).collect();
    write(&journal, "t", records).await;
    assert_eq!(texts(&journal.read("t", 0..99).await.unwrap()), wanted);
    assert!(wanted[6].contains("task:3.0") && wanted[6].contains("n4"), "{}", wanted[6]);
}

/// A reader never sees part of an append.
pub async fn a_reader_sees_whole_appends_only(journal: Any, _: TestClock) {
    let fence = own(&journal, "t").await;
    let writer = journal.clone();
    let writing = tokio::spawn(async move {
        for end in (0..150).step_by(3) {
            let records = (0..3).map(|n| says(&format!("m{n}"), "x")).collect();
            writer.append("t", fence, end, records).await.unwrap();
        }
    });
    while !writing.is_finished() {
        let loaded = journal.load("t", None).await.unwrap();
        assert_eq!((loaded.end % 3, loaded.entries.len() as u64), (0, loaded.end));
    }
    writing.await.unwrap();
    assert_eq!(journal.load("t", None).await.unwrap().end, 150);
}

/// An append whose response was lost may be repeated unchanged and is not written twice.
pub async fn an_append_that_is_repeated_is_answered_as_the_first_time(journal: Any, _: TestClock) {
    let large = "0123456789".repeat(10_000);
    let records = || vec![started("r"), says("m", "hello"), notes(json!({"large": large}))];
    let fence = own(&journal, "t").await;
    journal.append("t", fence, 0, vec![step(0)]).await.unwrap();
    let first = journal.append("t", fence, 1, records()).await.unwrap();
    let before = journal.threads().get("t").await.unwrap();
    for _ in 0..2 {
        assert_eq!(journal.append("t", fence, 1, records()).await.unwrap(), first);
    }
    assert_eq!(journal.threads().get("t").await.unwrap(), before);
    let mut other = records();
    other[1] = says("m", "hello!");
    let shorter = records()[..2].to_vec();
    for (expected, records) in [(1, other), (1, shorter), (0, records()), (2, records()[1..2].to_vec())] {
        let error = journal.append("t", fence, expected, records).await.unwrap_err();
        assert!(matches!(error, JournalError::Conflict { found: 4, .. }), "{error:?}");
    }
    assert_eq!(journal.append("t", fence, 2, records()[1..].to_vec()).await.unwrap().end, 4, "a part of it too");
    journal.append("t", fence, 4, vec![step(1)]).await.unwrap();
    let error = journal.append("t", fence, 1, records()).await.unwrap_err();
    assert!(matches!(error, JournalError::Conflict { found: 5, .. }), "something follows: {error:?}");
}

/// Short and long texts, in records and in snapshots, as command output contains them.
pub async fn texts_with_a_nul_come_back(journal: Any, _: TestClock) {
    let fence = own(&journal, "t").await;
    let mut end = 0;
    for size in [1, 100_000] {
        let text = format!("ELF\0{}\0", "x\0".repeat(size));
        let records = vec![says("m", &text), notes(json!({"a\0b": [text]}))];
        let wanted: Vec<String> = records.iter().map(|record| encode(record).unwrap()).collect();
        let from = end;
        end = journal.append("t", fence, end, records).await.unwrap().end;
        assert_eq!(texts(&journal.read("t", from..end).await.unwrap()), wanted);
        let body = json!({"text": text}).to_string();
        let snapshot = deepagents_core::journal::Snapshot { position: end, body: body.clone() };
        journal.put_snapshot("t", fence, snapshot).await.unwrap();
        assert_eq!(journal.load("t", None).await.unwrap().snapshot.unwrap().body, body);
    }
    let claim = deepagents_core::journal::Claim::new("a\0b", super::minute()).take_over();
    journal.claim("t", claim).await.unwrap();
}

/// Every method treats such a name as unknown instead of failing with a storage error.
pub async fn a_name_with_a_nul_is_that_of_no_thread(journal: Any, _: TestClock) {
    let fence = own(&journal, "t").await;
    let name = "a\0b";
    let fenced = |result: Result<(), JournalError>| matches!(result, Err(JournalError::Fenced { .. }));
    assert!(fenced(journal.append(name, fence, 0, vec![step(1)]).await.map(|_| ())));
    assert!(fenced(journal.renew(name, fence, super::minute()).await));
    journal.release(name, fence).await.unwrap();
    assert_eq!(journal.load(name, None).await.unwrap().end, 0);
    assert!(journal.read(name, 0..1).await.unwrap().is_empty());
    assert!(journal.threads().get(name).await.unwrap().is_none());
    assert!(!journal.threads().delete(name).await.unwrap());
    assert!(matches!(journal.threads().set_ttl(name, None).await, Err(JournalError::NotFound { .. })));
    assert!(matches!(journal.threads().copy(name, "u", None).await, Err(JournalError::NotFound { .. })));
    let query = deepagents_core::journal::ThreadQuery::default().prefix(name);
    assert!(journal.threads().list(&query).await.unwrap().is_empty());
}
