//! Usage of a thread, including what a rewind leaves behind.

use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::env::RandomIds;
use deepagents_core::journal::{MemoryJournal, ThreadUsage};

use deepagents_core::message::{Message, Usage};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{BudgetUsage, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{agent, echo, tool};

fn using(input: u64) -> Usage {
    Usage { input, ..Usage::default() }
}

/// An agent that delegates, and whose tool calls a model outside the conversation.
fn delegating(journal: &Arc<MemoryJournal>) -> Agent {
    let below =
        ScriptedModel::new([Turn::call("echo", json!({})).usage(using(10)), Turn::text("found").usage(using(20))]);
    let below = agent(below).name("below").ids(RandomIds).tool(echo()).build().unwrap();
    let task = tool("task", move |_, cx| {
        let below = below.clone();
        async move {
            let given = State::new(below.schema().clone());
            Ok(cx.run_child(&below, "task", given, "do it").await?.result?.text())
        }
    });
    let aside = tool("aside", |_, cx| async move {
        let model = Arc::new(ScriptedModel::new([Turn::text("Yes.").usage(using(3_000))])) as _;
        cx.context().invoke_model(&model, ModelRequest::new("Meanwhile?")).await?;
        Ok("asked")
    });
    let model = ScriptedModel::new([
        Turn::call("task", json!({})).usage(using(100)),
        Turn::call("aside", json!({})).usage(using(200)),
        Turn::text("done").usage(using(400)),
        Turn::call("echo", json!({})).usage(using(50_000)),
        Turn::text("again").usage(using(60_000)),
    ]);
    agent(model).ids(RandomIds).tool(echo()).tool(task).tool(aside).journal(journal.clone()).build().unwrap()
}

#[tokio::test]
async fn model_usage_counts_once_even_where_the_thread_was_rewound() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = delegating(&journal);
    let threads = agent.threads().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let first = threads.usage("t", ThreadUsage::default()).await.unwrap();
    assert_eq!((first.total(), first.outside_conversations()), (using(3_730), using(3_000)));
    assert_eq!(threads.usage("t", first.clone()).await.unwrap(), first, "there is nothing more");
    agent.rewind("t", 0).await.unwrap();
    agent.invoke(RunInput::new("go on").thread("t")).await.unwrap();
    let second = threads.usage("t", first).await.unwrap();
    assert_eq!(second.total(), using(113_730));
    assert_eq!(second, threads.usage("t", ThreadUsage::default()).await.unwrap());
    let mut spent = BudgetUsage::default();
    spent.usage = using(1_000_000);
    threads.update_state_charged("t", Update::message(Message::harness("noted")), spent).await.unwrap();
    let third = threads.usage("t", second).await.unwrap();
    assert_eq!((third.total(), third.outside_conversations()), (using(1_113_730), using(1_003_000)));
    assert_eq!(third.models().collect::<Vec<_>>(), [("", using(110_730))]);
    let mut answers: Vec<u64> = third.answers().map(|(_, usage)| usage.input).collect();
    answers.sort_unstable();
    assert_eq!(answers, [10, 20, 100, 200, 400, 50_000, 60_000]);
}

#[tokio::test]
async fn the_calls_of_the_current_branch_include_those_of_sub_agents() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = delegating(&journal);
    let threads = agent.threads().unwrap();
    let names = async |from| -> Vec<String> {
        let calls = threads.calls_since("t", from).await.unwrap();
        calls
            .into_iter()
            .map(|(call, name)| format!("{}{name}", if call.path.is_empty() { "" } else { "below " }))
            .collect()
    };
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(names(0).await, ["task", "below echo", "aside"]);
    let left = threads.rewind("t", 0).await.unwrap() - 1;
    assert!(names(0).await.is_empty());
    agent.invoke(RunInput::new("go on").thread("t")).await.unwrap();
    assert_eq!(names(0).await, ["echo"]);
    // Back to the abandoned branch.
    agent.rewind("t", left).await.unwrap();
    assert_eq!(names(0).await, ["task", "below echo", "aside"]);
    assert!(names(left).await.is_empty());
}
