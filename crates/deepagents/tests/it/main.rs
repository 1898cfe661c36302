//! Tests of the public interface of the library.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod agent_files;
mod answer_tool;
mod approval;
mod approval_edits;
mod asking;
mod background;
mod blocking;
mod budget;
mod builder;
mod commands;
mod context_editing;
mod decisions;
mod durable_background;
mod files;
mod hooks;
mod hooks_processes;
mod hooks_rewound;
mod hooks_transcript;
mod kept;
mod killed;
mod limits;
mod logs;
mod loop_detection;
mod memory;
mod patch;
mod prefix;
mod profiles;
mod recording;
mod redaction;
mod redaction_finds;
mod redaction_said;
mod retry;
mod rewind;
mod rubric;
mod seeds;
mod shell_session;
mod skills;
mod subagents;
mod subagents_concurrency;
mod subagents_edges;
mod summarization;
mod todos;
mod tool_emulator;
mod tool_search;
mod trust;
mod unsupported;
mod web;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, DeepAgentBuilder, Outcome};

/// Runs a script on the standard stack.
async fn play(
    turns: impl IntoIterator<Item = Turn>,
    configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder,
) -> (Outcome, ScriptedModel) {
    let model = ScriptedModel::new(turns);
    let agent = configure(DeepAgent::builder().model(model.clone())).build().expect("the agent is built");
    let outcome = agent.invoke("Go.").await.expect("the run succeeds");
    (outcome, model)
}

/// Text and error flag of each tool result, in order.
fn results(outcome: &Outcome) -> Vec<(String, bool)> {
    outcome.messages().iter().filter_map(|m| m.as_tool().map(|t| (m.text(), t.is_error))).collect()
}
