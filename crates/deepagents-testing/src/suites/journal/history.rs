//! Checkpoints, branches, pruning, open turns.

use deepagents_core::journal::{
    CheckpointSource, JournalError, LogPosition, Record, RecordUpdate, RetentionPolicy, checkpoints, encode, load,
    prune,
};
use deepagents_core::message::{Message, MessageOp};
use deepagents_core::state::{MessagesChannel, Update};
use serde_json::{Value, json};

use super::{Any, calls, ended, live, minute, notes, own, result, says, schema, started, state, states, step, write};
use crate::suites::TestClock;

fn back(to: LogPosition) -> Record {
    Record::Rewind { to, turn: 50 }
}

/// Lists all checkpoints of a thread, whatever created them.
pub async fn checkpoints_are_newest_first_with_parents_and_runs(journal: Any, clock: TestClock) {
    use deepagents_core::env::Clock;
    write(&journal, "t", vec![started("r1"), says("m", "x"), step(0), notes(json!({"a": 1})), step(1), ended("r1")])
        .await;
    clock.pass(minute());
    let Record::Update { update } = notes(json!({"a": 2})) else { panic!("an update") };
    write(&journal, "t", vec![Record::StateUpdated { update, run: None }]).await;
    write(&journal, "t", vec![back(5), started("r2"), step(1)]).await;
    let found = checkpoints(&*journal, "t", None, 99).await.unwrap();
    let shown: Vec<_> = found.iter().map(|c| (c.position, c.parent, c.run.as_deref(), c.origin)).collect();
    assert_eq!(
        shown,
        [
            (10, Some(8), Some("r2"), CheckpointSource::Input),
            (8, Some(5), Some("r1"), CheckpointSource::Rewind),
            (7, Some(5), Some("r1"), CheckpointSource::Update),
            (5, Some(3), Some("r1"), CheckpointSource::Step),
            (3, None, Some("r1"), CheckpointSource::Input),
        ]
    );
    assert_eq!((found[0].at, found[4].at), (clock.now(), clock.now() - minute()));
    assert!(checkpoints(&*journal, "nobody", None, 9).await.unwrap().is_empty());
}

/// Lists at most `limit` checkpoints before a position.
pub async fn checkpoints_are_read_in_pages(journal: Any, _: TestClock) {
    live(&journal, "t", 5).await;
    let positions = async |before, limit| {
        let found = checkpoints(&*journal, "t", before, limit).await.unwrap();
        found.iter().map(|c| c.position).collect::<Vec<_>>()
    };
    assert_eq!(positions(None, 2).await, [23, 18]);
    assert_eq!(positions(Some(18), 2).await, [13, 8]);
    assert_eq!(positions(Some(8), 9).await, [3]);
    assert!(positions(Some(3), 9).await.is_empty());
    assert!(positions(None, 0).await.is_empty());
}

/// A record contains only what changed. At every position, all channels have the values they had then, and removed
/// values do not come back.
pub async fn a_change_of_one_channel_leaves_the_others_at_every_position(journal: Any, _: TestClock) {
    let at = async |position| {
        let state: Value = serde_json::from_str(&state(&journal, "t", Some(position)).await).unwrap();
        (state["messages"].as_array().map_or(0, Vec::len), state["notes"].clone())
    };
    write(&journal, "t", vec![says("m", "x"), notes(json!({"a": 1})), notes(json!({"b": 2})), says("n", "y")]).await;
    write(&journal, "t", vec![notes(json!({"a": 3})), notes(json!({"b": null})), says("o", "z")]).await;
    let wanted = [
        (0, json!({})),
        (1, json!({})),
        (1, json!({"a": 1})),
        (1, json!({"a": 1, "b": 2})),
        (2, json!({"a": 1, "b": 2})),
        (2, json!({"a": 3, "b": 2})),
        (2, json!({"a": 3})),
        (3, json!({"a": 3})),
    ];
    for (position, wanted) in (0..).zip(wanted) {
        assert_eq!(at(position).await, wanted, "at {position}");
    }
    let record = encode(&journal.read("t", 4..5).await.unwrap()[0].record).unwrap();
    assert!(record.contains(r#"[["notes",{"a":3}]]"#), "only what changed: {record}");
}

/// Replacing a message, removing one or removing all appends ordinary records, and earlier states can still be loaded.
pub async fn replacing_and_removing_messages_rewrites_no_history(journal: Any, _: TestClock) {
    let ops = |ops: Vec<MessageOp>| Record::Update { update: RecordUpdate::Live(Update::new::<MessagesChannel>(ops)) };
    write(&journal, "t", vec![says("a", "one"), says("b", "two"), says("c", "three")]).await;
    let before = states(&journal, "t").await;
    let mut other = Message::user("other");
    other.set_id("b".to_owned());
    write(&journal, "t", vec![ops(vec![MessageOp::put(other)])]).await;
    write(&journal, "t", vec![ops(vec![MessageOp::Remove("a".to_owned()), MessageOp::Remove("nobody".to_owned())])])
        .await;
    write(&journal, "t", vec![ops(vec![MessageOp::RemoveAll]), says("a", "again")]).await;
    let texts = async |at| {
        let folded = load(&*journal, "t", schema(), Some(at)).await.unwrap();
        folded.state.messages().iter().map(|message| message.text()).collect::<Vec<_>>()
    };
    assert_eq!(texts(4).await, ["one", "other", "three"], "in its place");
    assert_eq!(texts(5).await, ["other", "three"]);
    assert!(texts(6).await.is_empty());
    assert_eq!(texts(7).await, ["again"]);
    let now = states(&journal, "t").await;
    assert!(before.iter().all(|(at, state)| now.get(at) == Some(state)), "what was before is as it was");
    prune(&journal, "t", schema(), &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(texts(7).await, ["again"]);
}

/// The abandoned branch can still be loaded.
pub async fn going_back_begins_a_branch(journal: Any, _: TestClock) {
    write(&journal, "t", vec![says("1", "one"), says("2", "two"), says("3", "three")]).await;
    let all = states(&journal, "t").await;
    write(&journal, "t", vec![back(1), says("4", "four")]).await;
    assert_eq!(state(&journal, "t", Some(4)).await, all[&1]);
    let now = state(&journal, "t", None).await;
    assert!(now.contains("one") && now.contains("four") && !now.contains("two"), "{now}");
    assert_eq!(state(&journal, "t", Some(3)).await, all[&3]);
    write(&journal, "t", vec![back(3)]).await;
    assert_eq!(state(&journal, "t", None).await, all[&3]);
    write(&journal, "t", vec![back(0)]).await;
    assert_eq!(state(&journal, "t", None).await, all[&0]);
}

/// Branches of branches, with snapshots on some of them.
pub async fn going_back_twice_and_across_a_snapshot_is_followed(journal: Any, _: TestClock) {
    write(&journal, "t", (0..6).map(|n| says(&format!("{n}"), "x")).collect()).await;
    write(&journal, "t", vec![back(4), says("a", "x"), back(2), says("b", "x")]).await;
    write(&journal, "t", vec![back(8), says("c", "x"), says("d", "x")]).await;
    let wanted = states(&journal, "t").await;
    assert_eq!(wanted.len(), 14);
    let fence = own(&journal, "t").await;
    for position in [5, 8, 9, 12] {
        // Pruning a copy creates a genuine snapshot for this position.
        journal.threads().copy("t", &format!("at-{position}"), Some(position)).await.unwrap();
        prune(&journal, &format!("at-{position}"), schema(), &RetentionPolicy::Latest).await.unwrap();
        let snapshot = journal.load(&format!("at-{position}"), None).await.unwrap().snapshot.unwrap();
        journal.put_snapshot("t", fence, snapshot).await.unwrap();
        assert_eq!(states(&journal, "t").await, wanted, "with a snapshot at {position}");
    }
}

/// It also removes the records.
pub async fn pruning_to_the_latest_keeps_the_state_byte_for_byte(journal: Any, _: TestClock) {
    let end = live(&journal, "t", 6).await;
    live(&journal, "u", 1).await;
    let others = states(&journal, "u").await;
    let before = state(&journal, "t", None).await;
    prune(&journal, "t", schema(), &RetentionPolicy::Latest).await.unwrap();
    let kept: Vec<LogPosition> = states(&journal, "t").await.into_keys().collect();
    assert_eq!(kept, [0, end], "nothing is known between");
    assert_eq!(state(&journal, "t", None).await, before);
    assert!(journal.read("t", 0..99).await.unwrap().is_empty());
    prune(&journal, "t", schema(), &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(state(&journal, "t", None).await, before);
    assert_eq!(write(&journal, "t", vec![says("more", "x")]).await, end + 1);
    assert_eq!(states(&journal, "u").await, others);
}

/// All states from the position on are kept.
pub async fn pruning_from_a_position_keeps_every_later_state(journal: Any, _: TestClock) {
    live(&journal, "t", 5).await;
    let before = states(&journal, "t").await;
    for from in [3, 10, 24] {
        prune(&journal, "t", schema(), &RetentionPolicy::From(from)).await.unwrap();
        assert_eq!(
            states(&journal, "t").await,
            before.clone().into_iter().filter(|(at, _)| *at >= from || *at == 0).collect()
        );
    }
}

/// What was appended earlier is replaced by a snapshot.
pub async fn pruning_by_time_keeps_what_is_younger(journal: Any, clock: TestClock) {
    use deepagents_core::env::Clock;
    live(&journal, "t", 2).await;
    clock.pass(minute());
    let time = clock.now();
    write(&journal, "t", vec![says("young", "x"), step(9)]).await;
    let before = states(&journal, "t").await;
    prune(&journal, "t", schema(), &RetentionPolicy::Since(time)).await.unwrap();
    assert_eq!(states(&journal, "t").await, before.into_iter().filter(|(at, _)| *at >= 10 || *at == 0).collect());
    clock.pass(minute());
    prune(&journal, "t", schema(), &RetentionPolicy::Since(clock.now())).await.unwrap();
    assert!(state(&journal, "t", None).await.contains("young"));
}

/// States before, between and after the pruned runs are kept.
pub async fn pruning_runs_keeps_the_states_outside_them(journal: Any, _: TestClock) {
    let end = live(&journal, "t", 5).await;
    let before = states(&journal, "t").await;
    let without = |runs: &[&str]| RetentionPolicy::NotRuns(runs.iter().map(|run| (*run).to_owned()).collect());
    prune(&journal, "t", schema(), &without(&[])).await.unwrap();
    prune(&journal, "t", schema(), &without(&["run_9"])).await.unwrap();
    assert_eq!(states(&journal, "t").await, before);
    prune(&journal, "t", schema(), &without(&["run_1", "run_3"])).await.unwrap();
    let outside = |at: &LogPosition| !(6..10).contains(at) && !(16..20).contains(at);
    assert_eq!(states(&journal, "t").await, before.clone().into_iter().filter(|(at, _)| outside(at)).collect());
    prune(&journal, "t", schema(), &without(&["run_0", "run_4"])).await.unwrap();
    assert_eq!(state(&journal, "t", None).await, before[&end]);
    assert_eq!(state(&journal, "t", Some(13)).await, before[&13]);
    let left: Vec<LogPosition> = journal.read("t", 0..99).await.unwrap().iter().map(|entry| entry.position).collect();
    assert!(left.iter().all(|at| (10..15).contains(at)), "their records are gone: {left:?}");
}

/// A thread can be pruned while its run waits to be resumed.
pub async fn pruning_keeps_the_results_of_an_open_turn(journal: Any, _: TestClock) {
    write(&journal, "t", [vec![started("r"), says("m", "x"), step(1)], calls(3), vec![result(2)]].concat()).await;
    let before = state(&journal, "t", None).await;
    assert!(before.contains("result 2"), "{before}");
    prune(&journal, "t", schema(), &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(state(&journal, "t", None).await, before);
    let folded = load(&*journal, "t", schema(), None).await.unwrap();
    assert_eq!(folded.in_doubt.len(), 2);
    assert!(folded.machine.is_some());
    write(&journal, "t", vec![result(0), result(1)]).await;
    let whole = state(&journal, "t", None).await;
    let place = |n: u32| whole.find(&format!("result {n}")).unwrap();
    assert!(place(0) < place(1) && place(1) < place(2), "in the order of the calls: {whole}");
}

/// A branch does not depend on the pruned records it branched from.
pub async fn pruning_keeps_what_goes_back_to_what_was_pruned(journal: Any, _: TestClock) {
    live(&journal, "t", 2).await;
    write(&journal, "t", vec![back(3), says("x", "branch"), back(7), says("y", "other")]).await;
    let before = states(&journal, "t").await;
    prune(&journal, "t", schema(), &RetentionPolicy::From(8)).await.unwrap();
    assert_eq!(states(&journal, "t").await, before.into_iter().filter(|(at, _)| *at >= 8 || *at == 0).collect());
}

/// A refused prune removes nothing.
pub async fn pruning_a_thread_that_is_worked_on_or_unknown_is_refused(journal: Any, _: TestClock) {
    live(&journal, "t", 2).await;
    let before = states(&journal, "t").await;
    let fence = own(&journal, "t").await;
    assert!(matches!(prune(&journal, "t", schema(), &RetentionPolicy::Latest).await, Err(JournalError::Busy { .. })));
    journal.release("t", fence).await.unwrap();
    assert_eq!(states(&journal, "t").await, before);
    assert!(matches!(
        prune(&journal, "u", schema(), &RetentionPolicy::Latest).await,
        Err(JournalError::NotFound { .. })
    ));
    assert!(journal.threads().get("u").await.unwrap().is_none());
}

/// Loading such a position fails instead of returning another state.
pub async fn what_was_pruned_cannot_be_loaded(journal: Any, _: TestClock) {
    live(&journal, "t", 2).await;
    prune(&journal, "t", schema(), &RetentionPolicy::From(6)).await.unwrap();
    for at in 1..6 {
        let error = load(&*journal, "t", schema(), Some(at)).await.unwrap_err();
        assert!(matches!(error, JournalError::NoState { position, .. } if position == at), "{error:?}");
    }
}

/// Results count as soon as they finish. They appear in the order of their calls.
pub async fn results_of_an_open_turn_count_and_are_kept_once(journal: Any, _: TestClock) {
    write(&journal, "t", calls(3)).await;
    for (finished, index) in [(1, 2), (2, 0)] {
        write(&journal, "t", vec![result(index)]).await;
        let folded = load(&*journal, "t", schema(), None).await.unwrap();
        assert_eq!(folded.state.messages().len(), 1 + finished);
        assert_eq!(folded.in_doubt.len(), 3 - finished);
    }
    let folded = load(&*journal, "t", schema(), None).await.unwrap();
    let (id, (wire, name, repeatable)) = folded.in_doubt.into_iter().next().unwrap();
    assert_eq!((id, wire.as_str(), name.as_str(), repeatable), (super::call(1), "c1", "work", false));
    assert_eq!(state(&journal, "t", None).await.matches("result 2").count(), 1);
}

/// After a commit, no call is in doubt.
pub async fn an_open_turn_is_over_when_it_is_committed(journal: Any, _: TestClock) {
    let turn = [calls(2), vec![result(1), result(0)]].concat();
    write(&journal, "t", turn).await;
    let before = state(&journal, "t", None).await;
    write(&journal, "t", vec![Record::ToolsCommitted { calls: vec![super::call(0), super::call(1)] }, step(2)]).await;
    let folded = load(&*journal, "t", schema(), None).await.unwrap();
    assert!(folded.in_doubt.is_empty() && folded.late.is_empty());
    assert_eq!(state(&journal, "t", None).await, before);
}
