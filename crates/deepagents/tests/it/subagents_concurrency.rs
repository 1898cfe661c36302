//! How many sub-agents of a run work at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents::middleware::subagents::DelegationLimits;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{SubAgentResult, SubAgentSpec, sub_agent_fn};
use deepagents::{DeepAgent, FinishReason, ModelRequest};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

fn task(agent: &str, description: &str) -> (&'static str, Value) {
    ("task", json!({"description": description, "subagent_type": agent}))
}

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

/// Fails instead of waiting forever.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap()
}

/// Workers that are at work until they are allowed to end.
#[derive(Clone)]
struct Workers {
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    allowed: Arc<Semaphore>,
}

impl Workers {
    fn new() -> Self {
        Self { open: Arc::default(), most: Arc::default(), allowed: Arc::new(Semaphore::new(0)) }
    }

    fn spec(&self) -> SubAgentSpec {
        let workers = self.clone();
        SubAgentSpec::from(sub_agent_fn("worker", "Works.", move |_, _| {
            let workers = workers.clone();
            async move {
                let open = workers.open.fetch_add(1, Ordering::SeqCst) + 1;
                workers.most.fetch_max(open, Ordering::SeqCst);
                workers.allowed.acquire().await.unwrap().forget();
                workers.open.fetch_sub(1, Ordering::SeqCst);
                Ok(SubAgentResult::text("Worked."))
            }
        }))
    }

    /// Waits until this many are at work, gives others the time to join them, and lets all end.
    async fn settle(&self, workers: usize) {
        while self.open.load(Ordering::SeqCst) < workers {
            tokio::task::yield_now().await;
        }
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        self.allowed.add_permits(100);
    }
}

/// An agent with two leads, each of which has two tasks for workers.
fn two_leads(workers: &Workers, at_once: usize, of_lead: Option<usize>) -> DeepAgent {
    let two = || [Turn::calls([task("worker", "a"), task("worker", "b")]), Turn::text("Led.")];
    let model = ScriptedModel::rules()
        .when(first_asked("Lead one."), two())
        .when(first_asked("Lead two."), two())
        .otherwise([Turn::calls([task("one", "Lead one."), task("two", "Lead two.")]), Turn::text("Done.")])
        .build();
    let lead = |name: &str| {
        let spec = SubAgentSpec::new(name, "Leads.").sub_agent(workers.spec());
        match of_lead {
            Some(at_once) => spec.limits(DelegationLimits { at_once, ..DelegationLimits::default() }),
            None => spec,
        }
    };
    let limits = DelegationLimits { at_once, ..DelegationLimits::default() };
    let builder = DeepAgent::builder().model(model).sub_agent(lead("one")).sub_agent(lead("two"));
    builder.delegation_limits(limits).build().unwrap()
}

#[tokio::test]
async fn runs_of_one_agent_do_not_wait_for_each_others_sub_agents() {
    let meets = Arc::new(Barrier::new(2));
    let worker = sub_agent_fn("worker", "Works.", move |_, _| {
        let meets = meets.clone();
        async move {
            meets.wait().await;
            Ok(SubAgentResult::text("Met."))
        }
    });
    let model = ScriptedModel::rules()
        .when(first_asked("One."), [Turn::calls([task("worker", "Meet.")]), Turn::text("Done.")])
        .when(first_asked("Two."), [Turn::calls([task("worker", "Meet.")]), Turn::text("Done.")])
        .build();
    let limits = DelegationLimits { at_once: 1, ..DelegationLimits::default() };
    let agent = DeepAgent::builder().model(model).sub_agent(worker).delegation_limits(limits).build().unwrap();
    let (one, two) = within(futures_util::future::join(agent.invoke("One."), agent.invoke("Two."))).await;
    assert_eq!((one.unwrap().text(), two.unwrap().text()), ("Done.".to_owned(), "Done.".to_owned()));
}

#[tokio::test]
async fn the_limit_holds_for_the_sub_agents_of_all_agents_at_a_depth() {
    for (at_once, of_lead, expected) in [(2, None, 2), (2, Some(1), 2), (1, None, 1), (4, Some(1), 2), (4, None, 4)] {
        let workers = Workers::new();
        let agent = two_leads(&workers, at_once, of_lead);
        let (outcome, ()) = within(futures_util::future::join(agent.invoke("Go."), workers.settle(expected))).await;
        let outcome = outcome.unwrap();
        assert_eq!((outcome.text(), outcome.stop), ("Done.".to_owned(), FinishReason::Done));
        assert_eq!(workers.most.load(Ordering::SeqCst), expected, "{at_once} {of_lead:?}");
    }
}
