//! The blocking interface, within another runtime.

use deepagents::blocking::BlockingAgent;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind};
use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::task::coop::has_budget_remaining;

/// A model that answers in many pieces, and yields before each.
struct Pieces(usize);

impl ChatModel for Pieces {
    fn name(&self) -> &str {
        "pieces"
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let content = vec![Block::text("a".repeat(self.0))];
        let message = AssistantMessage { content, ..AssistantMessage::default() };
        let pieces = stream::iter(0..self.0).then(|_| async {
            tokio::task::yield_now().await;
            Ok(ModelEvent::Text { block: 0, delta: "a".to_owned() })
        });
        pieces.chain(stream::iter([Ok(ModelEvent::Finished(Box::new(ModelOutput::new(message))))])).boxed()
    }
}

/// Returns the number of threads that the process has started so far.
fn threads_so_far() -> u64 {
    let id = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
    format!("{id:?}").trim_start_matches("ThreadId(").trim_end_matches(')').parse().unwrap()
}

#[tokio::test]
async fn reading_events_within_a_runtime_starts_no_thread_for_each() {
    // As many as no reader misses.
    const PIECES: usize = 1_000;
    let agent = BlockingAgent::new(DeepAgent::builder().model(Pieces(PIECES)).build().unwrap()).unwrap();
    let before = threads_so_far();
    let mut run = agent.run("Say a lot.");
    let pieces = run.by_ref().filter(|event| matches!(event.kind, EventKind::TextDelta { .. })).count();
    assert_eq!(pieces, PIECES);
    assert_eq!(run.outcome().unwrap().text().len(), PIECES);
    // Other tests start threads meanwhile, but not so many.
    assert!(threads_so_far() - before < 500);
}

#[tokio::test]
async fn an_outcome_arrives_in_a_task_that_has_used_its_share_of_polls() {
    let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello.")])).build().unwrap();
    let agent = BlockingAgent::new(agent).unwrap();
    let run = agent.run("Say hello.");
    let handle = run.handle();
    while has_budget_remaining() {
        tokio::task::consume_budget().await;
    }
    assert_eq!(run.outcome().unwrap().text(), "Hello.");
    assert!(handle.is_finished() && !handle.steer("late"));
}
