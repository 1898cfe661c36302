//! Calls in flight when their process ended: their effect decides what happens to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::journal::{Claim, Journal, Record};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::resume::each;

/// The idempotency keys that each tool got, in order.
type Given = Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>;

struct Works {
    name: &'static str,
    effect: Effect,
    idempotent: bool,
    given: Given,
}

impl Tool for Works {
    type Args = Value;

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Works."
    }

    fn effect(&self, _args: &Value) -> Effect {
        self.effect.clone()
    }

    fn idempotent(&self, _args: &Value) -> bool {
        self.idempotent
    }

    async fn call(&self, _args: Value, cx: ToolContext) -> Result<deepagents_core::tool::ToolOutput, ToolError> {
        self.given.lock().unwrap().entry(self.name).or_default().push(cx.key());
        Ok(format!("{} is done", self.name).into())
    }
}

const TOOLS: [&str; 4] = ["read", "write", "send", "pay"];

fn agent(journal: Arc<dyn Journal>, given: &Given) -> Agent {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| {
            if request.messages.iter().any(|message| message.as_tool().is_some()) {
                Turn::text("done")
            } else {
                Turn::calls(TOOLS.map(|name| (name, json!({}))))
            }
        }))
        .build();
    let tool = |name, effect, idempotent| Works { name, effect, idempotent, given: given.clone() };
    Agent::builder(model)
        .tool(tool("read", Effect::Read, false))
        .tool(tool("write", Effect::write("/a"), false))
        .tool(tool("send", Effect::External, false))
        .tool(tool("pay", Effect::External, true))
        .journal(journal)
        .build()
        .unwrap()
}

#[tokio::test]
async fn only_reads_and_idempotent_calls_are_repeated_others_get_an_unknown_outcome() {
    each(async |journal| {
        let first = Given::default();
        agent(journal.clone(), &first).invoke(RunInput::new("go").thread("whole")).await.unwrap();
        let first = first.lock().unwrap().clone();
        let keys: std::collections::BTreeSet<&String> = first.values().flatten().collect();
        assert_eq!(keys.len(), 4, "every call has a key of its own: {first:?}");
        // The process ends when all calls have started and none has finished.
        let entries = journal.load("whole", None).await.unwrap().entries;
        let begun = |entry: &deepagents_core::journal::LogEntry| matches!(entry.record, Record::ToolStarted { .. });
        let last = entries.iter().rposition(begun).unwrap() as u64 + 1;
        // A thread with its own log, not a copy: calls of a copy have other keys.
        let own = |entry: deepagents_core::journal::LogEntry| match entry.record {
            Record::RunStarted { run, at, .. } => Record::RunStarted { run, at, thread: None },
            record => record,
        };
        let log: Vec<Record> = entries.into_iter().take(last as usize).map(own).collect();
        let fence = journal.claim("killed", Claim::new("test", Duration::from_secs(60))).await.unwrap();
        journal.append("killed", fence, 0, log).await.unwrap();
        journal.release("killed", fence).await.unwrap();
        let again = Given::default();
        let outcome = agent(journal.clone(), &again).resume("killed").outcome().await.unwrap();
        assert_eq!(outcome.stop, FinishReason::Done);
        let again = again.lock().unwrap().clone();
        let made: Vec<&str> = again.keys().copied().collect();
        assert_eq!(made, ["pay", "read"]);
        for name in made {
            assert_eq!(again[name], first[name], "the same key as before");
        }
        let results: Vec<String> =
            outcome.messages().iter().filter(|m| m.as_tool().is_some()).map(|message| message.text()).collect();
        for (name, result) in TOOLS.iter().zip(&results) {
            let known = result == &format!("{name} is done");
            assert_eq!(known, matches!(*name, "read" | "pay"), "{name}: {result}");
            assert!(known || result.contains("unknown"), "{name}: {result}");
        }
    })
    .await;
}
