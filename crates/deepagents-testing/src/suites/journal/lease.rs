//! Ownership of threads.

use std::time::Duration;

use deepagents_core::journal::{Claim, JournalError, Snapshot, TakeOver};

use super::{Any, minute, own, step, write};
use crate::suites::TestClock;

/// Another claim fails and reports the owner and the end of its lease.
pub async fn a_thread_has_one_owner(journal: Any, clock: TestClock) {
    use deepagents_core::env::Clock;
    journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    let error = journal.claim("t", Claim::new("bob", minute())).await.unwrap_err();
    let JournalError::Busy { owner, until, .. } = error else { panic!("{error:?}") };
    assert_eq!((owner.as_str(), until), ("ada", clock.now() + minute()));
    journal.claim("u", Claim::new("bob", minute())).await.unwrap();
}

/// A claim's metadata are stored together with the owner. An owner without them could not be recognised as gone after
/// its process was killed, so its lease would have to run out.
pub async fn what_a_claim_says_of_a_thread_is_there_with_its_owner_and_of_one_that_fails_nothing_is(
    journal: Any,
    _: TestClock,
) {
    let says =
        |text: &str| [("process".to_owned(), serde_json::json!(text))].into_iter().collect::<serde_json::Map<_, _>>();
    journal.threads().set_metadata("t", [("user".to_owned(), "ada".into())].into_iter().collect()).await.unwrap();
    journal.claim("t", Claim::new("ada", minute()).metadata(says("1"))).await.unwrap();
    let known = async || serde_json::Value::Object(journal.threads().get("t").await.unwrap().unwrap().metadata);
    assert_eq!(known().await, serde_json::json!({"user": "ada", "process": "1"}));
    journal.claim("t", Claim::new("bob", minute()).metadata(says("2"))).await.unwrap_err();
    assert_eq!(known().await["process"], "1");
    let deep = (0..400).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let odd = [("deep".to_owned(), deep)].into_iter().collect();
    let refused = journal.claim("u", Claim::new("bob", minute()).metadata(odd)).await;
    assert!(refused.is_err() && journal.threads().get("u").await.unwrap().is_none(), "{refused:?}");
    journal.claim("t", Claim::new("bob", minute()).take_over().metadata(says("2"))).await.unwrap();
    assert_eq!(known().await["process"], "2");
}

/// Another owner may claim the thread between the check that the previous one is gone and the claim.
pub async fn a_thread_is_taken_from_the_owner_that_a_claim_names_and_from_no_other(journal: Any, clock: TestClock) {
    let from = |owner: &str| Claim::new("bob", minute()).take_over_from(TakeOver::From(owner.to_owned()));
    let held = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    let error = journal.claim("t", from("eve")).await.unwrap_err();
    assert!(matches!(error, JournalError::Busy { ref owner, .. } if owner == "ada"), "{error:?}");
    assert_eq!(journal.append("t", held, 0, vec![step(1)]).await.unwrap().end, 1);
    let taken = journal.claim("t", from("ada")).await.unwrap();
    assert!(matches!(journal.append("t", held, 1, vec![step(2)]).await, Err(JournalError::Fenced { .. })));
    assert_eq!(journal.append("t", taken, 1, vec![step(2)]).await.unwrap().end, 2);
    // After the lease, nobody owns the thread.
    clock.pass(minute() * 2);
    journal.claim("t", from("eve")).await.unwrap();
}

/// An owner loses its thread by a later claim, not by the end of its lease.
pub async fn an_owner_whose_lease_ran_out_goes_on_while_nobody_has_claimed_its_thread(journal: Any, clock: TestClock) {
    let fence = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    clock.pass(minute() * 3);
    assert_eq!(journal.append("t", fence, 0, vec![step(1)]).await.unwrap().end, 1);
    journal.put_snapshot("t", fence, Snapshot { position: 1, body: "{}".to_owned() }).await.unwrap();
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().owner, None, "others may claim it");
    journal.renew("t", fence, minute()).await.unwrap();
    let error = journal.claim("t", Claim::new("bob", minute())).await.unwrap_err();
    assert!(matches!(error, JournalError::Busy { ref owner, .. } if owner == "ada"), "{error:?}");
    clock.pass(minute());
    journal.release("t", fence).await.unwrap();
    let error = journal.append("t", fence, 1, vec![step(2)]).await.unwrap_err();
    assert!(matches!(error, JournalError::Fenced { .. }), "a thread that was released is nobody's: {error:?}");
}

/// A process that slept past its lease can change nothing after another one has claimed the thread.
pub async fn a_frozen_owner_with_a_successor_writes_nothing(journal: Any, clock: TestClock) {
    let late = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    journal.append("t", late, 0, vec![step(1)]).await.unwrap();
    clock.pass(minute());
    let next = journal.claim("t", Claim::new("bob", minute())).await.unwrap();
    let fenced = |result: Result<_, JournalError>| matches!(result, Err(JournalError::Fenced { .. }));
    for _ in 0..2 {
        assert!(fenced(journal.append("t", late, 1, vec![step(2)]).await.map(|_| ())));
        assert!(fenced(journal.append("t", late, 0, vec![step(1)]).await.map(|_| ())), "nor repeats it what it wrote");
        let snapshot = Snapshot { position: 1, body: "{}".to_owned() };
        assert!(fenced(journal.put_snapshot("t", late, snapshot).await.map(|_| ())));
        assert!(fenced(journal.renew("t", late, minute()).await));
        journal.release("t", late).await.unwrap();
        // This still holds after the new owner's lease has run out.
        clock.pass(minute());
    }
    assert_eq!(journal.append("t", next, 1, vec![step(3)]).await.unwrap().end, 2, "the new owner still has it");
}

/// A lease lasts as long as it is renewed.
pub async fn a_renewed_lease_lasts(journal: Any, clock: TestClock) {
    let fence = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    for _ in 0..5 {
        clock.pass(Duration::from_secs(40));
        journal.renew("t", fence, minute()).await.unwrap();
    }
    journal.append("t", fence, 0, vec![step(1)]).await.unwrap();
    assert!(journal.claim("t", Claim::new("bob", minute())).await.is_err());
}

/// The owner may renew an expired lease if nobody else has claimed the thread.
pub async fn a_lease_that_ran_out_is_begun_anew(journal: Any, clock: TestClock) {
    let fence = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    clock.pass(minute());
    journal.renew("t", fence, minute()).await.unwrap();
    assert!(matches!(journal.claim("t", Claim::new("bob", minute())).await, Err(JournalError::Busy { .. })));
}

/// Taking over a thread fences its previous owner.
pub async fn a_taken_thread_is_lost_to_its_owner(journal: Any, _: TestClock) {
    let old = journal.claim("t", Claim::new("ada", minute())).await.unwrap();
    let new = journal.claim("t", Claim::new("bob", minute()).take_over()).await.unwrap();
    assert!(new > old);
    assert!(matches!(journal.append("t", old, 0, vec![step(1)]).await, Err(JournalError::Fenced { .. })));
    assert!(matches!(journal.renew("t", old, minute()).await, Err(JournalError::Fenced { .. })));
    journal.append("t", new, 0, vec![step(1)]).await.unwrap();
}

/// A release takes effect at once.
pub async fn a_released_thread_is_free_and_its_owner_writes_nothing(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    let old = own(&journal, "t").await;
    journal.release("t", old).await.unwrap();
    assert!(matches!(journal.append("t", old, 1, vec![step(1)]).await, Err(JournalError::Fenced { .. })));
    own(&journal, "t").await;
}

/// A fence identifies one owner for ever.
pub async fn a_later_owner_has_a_greater_fence_even_if_the_thread_was_deleted_between(journal: Any, _: TestClock) {
    let first = own(&journal, "t").await;
    journal.append("t", first, 0, vec![step(1)]).await.unwrap();
    assert!(journal.threads().delete("t").await.unwrap());
    let second = own(&journal, "t").await;
    assert!(second > first);
    assert!(matches!(journal.append("t", first, 0, vec![step(1)]).await, Err(JournalError::Fenced { .. })));
    let other = own(&journal, "u").await;
    assert!(other > second);
}

/// A run that never began leaves no empty thread behind.
pub async fn a_thread_that_was_only_claimed_leaves_nothing(journal: Any, _: TestClock) {
    let fence = own(&journal, "t").await;
    journal.release("t", fence).await.unwrap();
    assert!(journal.threads().get("t").await.unwrap().is_none());
}

/// Of concurrent claims, one succeeds.
pub async fn of_many_claims_exactly_one_wins(journal: Any, _: TestClock) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let journal = journal.clone();
        tasks.spawn(async move { journal.claim("t", Claim::new(format!("{n}"), minute())).await });
    }
    let mut won = 0;
    while let Some(result) = tasks.join_next().await {
        match result.unwrap() {
            Ok(_) => won += 1,
            Err(JournalError::Busy { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
}
