//! Sub-agents, whose records are in the log of their thread.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use deepagents_core::agent::Agent;
use deepagents_core::journal::{Record, RetentionPolicy, RunStatus};
use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest, StopReason};
use deepagents_core::run::RunInput;
use deepagents_core::tool::{Tool, ToolContext, ToolError, ToolOutput};
use futures_core::Stream;
use futures_core::stream::BoxStream;
use serde_json::{Value, json};

use super::Any;
use crate::suites::TestClock;

/// A model that makes two tool calls in each of two turns and then finishes.
struct Twice(&'static str);

impl ChatModel for Twice {
    fn name(&self) -> &str {
        "suite:twice"
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let turn = request.messages.iter().filter(|message| message.as_assistant().is_some()).count();
        let content = if turn < 2 {
            (0..2).map(|n| Block::call(format!("c{turn}{n}"), self.0, json!({}))).collect()
        } else {
            vec![Block::text("done")]
        };
        let stop = if turn < 2 { StopReason::ToolCalls } else { StopReason::End };
        let output = ModelOutput { message: AssistantMessage::new(content), stop, ..ModelOutput::default() };
        Box::pin(Once(Some(ModelEvent::Finished(Box::new(output)))))
    }
}

/// A stream of one event.
struct Once(Option<ModelEvent>);

impl Stream for Once {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

/// A tool that records its calls.
#[derive(Clone, Default)]
struct Work(Arc<Mutex<Vec<String>>>);

impl Tool for Work {
    type Args = Value;

    fn name(&self) -> &str {
        "work"
    }

    fn description(&self) -> &str {
        "Works."
    }

    async fn call(&self, _args: Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.lock().unwrap().push(cx.call_id().to_string());
        Ok("worked".into())
    }
}

/// A tool that delegates to a sub-agent.
struct Task(Agent);

impl Tool for Task {
    type Args = Value;

    fn name(&self) -> &str {
        "task"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn idempotent(&self, _args: &Value) -> bool {
        true
    }

    async fn call(&self, _args: Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let given = cx.state().fork(self.0.schema().clone())?;
        Ok(cx.run_child(&self.0, "task", given, "do it").await?.result?.text().into())
    }
}

/// Builds an agent with four sub-agents, two at a time, that make four calls each.
fn family(journal: &Any, work: &Work) -> Agent {
    let below = Agent::builder(Twice("work")).name("below").tool(work.clone()).build().unwrap();
    Agent::builder(Twice("task")).tool(Task(below)).journal(journal.clone()).build().unwrap()
}

fn noted(work: &Work) -> BTreeSet<String> {
    let list = work.0.lock().unwrap();
    let set: BTreeSet<String> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "no call is made twice");
    set
}

/// Returns the finished `work` calls, each with the position after its result.
async fn finished(journal: &Any, thread: &str) -> Vec<(u64, String)> {
    let entries = journal.read(thread, 0..u64::MAX).await.unwrap();
    let ends = entries.into_iter().filter_map(|entry| match entry.record {
        Record::Child { entry: record, .. } => match *record {
            Record::ToolFinished { call, .. } => Some((entry.position + 1, call.to_string())),
            _ => None,
        },
        _ => None,
    });
    ends.collect()
}

/// Simulates a crash after each result: a copy of the thread up to that point resumes inside both sub-agents of the
/// turn.
pub async fn sub_agents_go_on_where_they_were(journal: Any, _: TestClock) {
    let work = Work::default();
    family(&journal, &work).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let all = noted(&work);
    assert_eq!(all.len(), 16);
    let ends = finished(&journal, "t").await;
    assert_eq!(ends.len(), 16);
    for (done, (cut, _)) in ends.iter().enumerate() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(*cut)).await.unwrap();
        let work = Work::default();
        let outcome = family(&journal, &work).invoke(RunInput::resume(thread)).await.unwrap();
        assert_eq!(outcome.text(), "done");
        let before: BTreeSet<String> = ends.iter().take(done + 1).map(|(_, call)| call.clone()).collect();
        assert!(noted(&work).is_disjoint(&before), "what had ended is not done again");
        let later = all.difference(&before).filter(|call| !noted(&work).contains(*call)).count();
        assert!(later <= 3, "only what was in doubt is left out: {later}");
    }
}

/// Each sub-agent's conversation can be read under its path.
pub async fn sub_agents_have_conversations_of_their_own(journal: Any, _: TestClock) {
    let agent = family(&journal, &Work::default());
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let all = agent.sub_agents("t").await.unwrap();
    let paths: Vec<String> = all.iter().map(|info| info.path.join("/")).collect();
    assert_eq!(paths.len(), 4);
    for info in all {
        assert_eq!((info.agent.as_str(), info.status), ("below", RunStatus::Ended));
        let state = agent.sub_agent_state("t", &info.path).await.unwrap();
        assert_eq!(state.messages().len(), 8, "a task, two answers with two results each, and the last answer");
    }
    assert!(agent.sub_agent_state("t", &["task:7.0".to_owned()]).await.is_err());
}

/// A thread can be pruned and then resumed while its sub-agents are part way through their work.
pub async fn sub_agents_go_on_after_history_was_removed(journal: Any, _: TestClock) {
    family(&journal, &Work::default()).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let ends = finished(&journal, "t").await;
    for (done, (cut, _)) in ends.iter().enumerate() {
        let (thread, work) = (format!("t{cut}"), Work::default());
        journal.threads().copy("t", &thread, Some(*cut)).await.unwrap();
        let agent = family(&journal, &work);
        agent.prune(&thread, &RetentionPolicy::Latest).await.unwrap();
        assert_eq!(agent.invoke(RunInput::resume(thread)).await.unwrap().text(), "done");
        let before: BTreeSet<String> = ends.iter().take(done + 1).map(|(_, call)| call.clone()).collect();
        assert!(noted(&work).is_disjoint(&before));
    }
}
