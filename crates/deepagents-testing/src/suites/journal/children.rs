//! Child threads.

use deepagents_core::journal::{Claim, JournalError, ThreadQuery};
use serde_json::json;

use super::{Any, live, minute, own, says, state, step, write};
use crate::suites::TestClock;

/// Returns the names that a query finds, sorted.
async fn names(journal: &Any, query: ThreadQuery) -> Vec<String> {
    let mut names: Vec<String> = journal.threads().list(&query).await.unwrap().into_iter().map(|t| t.id).collect();
    names.sort();
    names
}

async fn all(journal: &Any) -> Vec<String> {
    names(journal, ThreadQuery::default().any_parent()).await
}

/// Creates `t` with two children, one of which has a child, and an unrelated thread with a similar name.
async fn family(journal: &Any) {
    for thread in ["t", "t/a", "t/a/b", "t/c", "t/mine", "tt"] {
        write(journal, thread, vec![says("m", thread)]).await;
    }
    for (child, parent) in [("t/a", "t"), ("t/a/b", "t/a"), ("t/c", "t")] {
        journal.threads().set_parent(child, Some(parent)).await.unwrap();
    }
}

/// A listing contains only threads without a parent unless the query asks for more.
pub async fn children_are_listed_by_their_parent(journal: Any, _: TestClock) {
    family(&journal).await;
    let query = ThreadQuery::default;
    assert_eq!(names(&journal, query()).await, ["t", "t/mine", "tt"]);
    assert_eq!(names(&journal, query().parent("t")).await, ["t/a", "t/c"]);
    assert_eq!(names(&journal, query().parent("t/a")).await, ["t/a/b"]);
    assert_eq!(names(&journal, query().parent("t").prefix("t/c").limit(1)).await, ["t/c"]);
    assert_eq!(names(&journal, query().parent("t").limit(1).offset(1)).await.len(), 1);
    assert!(names(&journal, query().parent("nobody")).await.is_empty());
    assert!(names(&journal, query().parent("a\0b")).await.is_empty());
    assert_eq!(all(&journal).await, ["t", "t/a", "t/a/b", "t/c", "t/mine", "tt"]);
    assert_eq!(journal.threads().get("t/a").await.unwrap().unwrap().parent.as_deref(), Some("t"));
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().parent, None);
    journal.threads().set_parent("t/a", None).await.unwrap();
    assert_eq!(names(&journal, query()).await, ["t", "t/a", "t/mine", "tt"]);
}

/// A child may be created before its first run and before its parent.
pub async fn a_thread_may_begin_as_a_child(journal: Any, _: TestClock) {
    journal.threads().set_parent("t/a", Some("t")).await.unwrap();
    let fence = own(&journal, "t/a").await;
    journal.release("t/a", fence).await.unwrap();
    assert_eq!(all(&journal).await, ["t/a"], "it stays when a run comes to nothing");
    assert!(journal.threads().get("t").await.unwrap().is_none());
}

/// A child's name is its parent's name, a slash, and another name.
pub async fn a_child_has_the_name_of_its_parent_in_its_own(journal: Any, _: TestClock) {
    for (child, parent) in [("x", "t"), ("t", "t"), ("t/", "t"), ("ta", "t"), ("/a", ""), ("t/a\0", "t")] {
        let error = journal.threads().set_parent(child, Some(parent)).await.unwrap_err();
        assert!(matches!(error, JournalError::Name { .. }), "{child} of {parent}: {error:?}");
    }
    assert!(all(&journal).await.is_empty());
}

/// Their own children are deleted as well.
pub async fn children_are_deleted_with_their_parent(journal: Any, _: TestClock) {
    family(&journal).await;
    assert!(journal.threads().delete("t/a").await.unwrap());
    assert_eq!(all(&journal).await, ["t", "t/c", "t/mine", "tt"]);
    assert!(journal.threads().delete("t").await.unwrap());
    assert_eq!(all(&journal).await, ["t/mine", "tt"]);
    assert_eq!(journal.load("t/c", None).await.unwrap().end, 0);
}

/// The copies are children of the copied parent.
pub async fn children_are_copied_with_their_parent(journal: Any, _: TestClock) {
    family(&journal).await;
    live(&journal, "u", 2).await;
    journal.threads().copy("t", "new", None).await.unwrap();
    assert_eq!(names(&journal, ThreadQuery::default()).await, ["new", "t", "t/mine", "tt", "u"]);
    assert_eq!(names(&journal, ThreadQuery::default().parent("new")).await, ["new/a", "new/c"]);
    assert_eq!(names(&journal, ThreadQuery::default().parent("new/a")).await, ["new/a/b"]);
    for (copy, source) in [("new", "t"), ("new/a", "t/a"), ("new/a/b", "t/a/b"), ("new/c", "t/c")] {
        assert_eq!(state(&journal, copy, None).await, state(&journal, source, None).await);
    }
    journal.threads().copy("t/a", "alone", Some(0)).await.unwrap();
    let alone = journal.threads().get("alone").await.unwrap().unwrap();
    assert_eq!((alone.parent, alone.end), (None, 0), "a copy is nobody's child");
    assert_eq!(journal.threads().get("alone/b").await.unwrap().unwrap().end, 1, "what is below it is whole");
    journal.threads().delete("t").await.unwrap();
    assert!(state(&journal, "new/a/b", None).await.contains("t/a/b"));
}

/// In that case nothing is copied.
pub async fn a_copy_whose_child_exists_already_is_refused(journal: Any, _: TestClock) {
    family(&journal).await;
    write(&journal, "new/c", vec![step(1)]).await;
    let before = all(&journal).await;
    let error = journal.threads().copy("t", "new", None).await.unwrap_err();
    assert!(matches!(error, JournalError::Exists { ref thread } if thread == "new/c"), "{error:?}");
    assert_eq!(all(&journal).await, before);
}

/// This holds whether the parent is swept or created anew.
pub async fn children_go_when_the_time_of_their_parent_is_over(journal: Any, clock: TestClock) {
    for sweep in [true, false] {
        family(&journal).await;
        journal.threads().set_ttl("t", Some(minute())).await.unwrap();
        clock.pass(minute());
        if sweep {
            assert_eq!(journal.threads().sweep().await.unwrap(), 4);
        } else {
            let metadata = json!({"new": true});
            journal.threads().set_metadata("t", metadata.as_object().unwrap().clone()).await.unwrap();
            journal.threads().delete("t").await.unwrap();
        }
        assert_eq!(all(&journal).await, ["t/mine", "tt"]);
    }
}

/// The same holds for grandchildren.
pub async fn a_parent_is_not_over_while_somebody_works_on_a_child(journal: Any, clock: TestClock) {
    family(&journal).await;
    journal.threads().set_ttl("t", Some(minute())).await.unwrap();
    let fence = journal.claim("t/a/b", Claim::new("works", minute() * 3)).await.unwrap();
    clock.pass(minute() * 2);
    assert_eq!(journal.threads().sweep().await.unwrap(), 0);
    assert_eq!(journal.load("t", None).await.unwrap().end, 1);
    assert_eq!(names(&journal, ThreadQuery::default()).await, ["t", "t/mine", "tt"]);
    let parent = own(&journal, "t").await;
    journal.release("t", parent).await.unwrap();
    assert_eq!(journal.append("t/a/b", fence, 1, vec![step(1)]).await.unwrap().end, 2);
    own(&journal, "t/mine").await;
    journal.release("t/a/b", fence).await.unwrap();
    assert_eq!(journal.threads().sweep().await.unwrap(), 4, "one that is only named like a child does not matter");
}
