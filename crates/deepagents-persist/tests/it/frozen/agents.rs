//! The agents that wrote the corpus, and those that read it.

use std::path::Path;
use std::sync::Arc;

use deepagents::core::env::{FixedClock, Timestamp};
use deepagents::fs::{LocalBackend, LocalOptions, UndoStore};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger};
use deepagents::models::scripted::ScriptedModel;
use deepagents::subagents::SubAgentSpec;
use deepagents::{DecisionKind, DeepAgent, DeepAgentBuilder, InterruptOn, InterruptPolicy, Journal, tool_fn};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Mail {
    to: String,
    text: String,
}

pub(super) fn clock() -> FixedClock {
    FixedClock("2026-11-22T12:34:56.789Z".parse::<Timestamp>().unwrap())
}

/// An agent with files in its state, a tool that needs approval, a subagent, and early compaction.
pub(super) fn builder(journal: Arc<dyn Journal>, model: ScriptedModel) -> DeepAgentBuilder {
    let send = tool_fn("send", "Sends a message.", |mail: Mail, _cx| async move {
        Ok(format!("Sent to {}: {}", mail.to, mail.text))
    });
    let ask = InterruptOn::only([DecisionKind::Approve, DecisionKind::Edit, DecisionKind::Reject]);
    DeepAgent::builder()
        .model(model)
        .journal(journal)
        .clock(clock())
        .tool(send)
        .interrupt_on(InterruptPolicy::new().before("send", ask))
        .sub_agent(SubAgentSpec::new("researcher", "Finds things out.").system_prompt("You find things out."))
        .summarization(SummarizationOptions::default().trigger(Trigger::messages(8)).keep(Size::Messages(3)))
        .files(FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() })
}

/// The same with files in a directory, and undo.
pub(super) fn with_undo(folder: &Path, agent: DeepAgentBuilder) -> (DeepAgentBuilder, LocalBackend) {
    let (files, undo) = (folder.join("files"), folder.join("undo.db"));
    std::fs::create_dir_all(&files).unwrap();
    let files =
        LocalBackend::open_with(files, LocalOptions { undo: Some(UndoStore::at(undo)), ..LocalOptions::default() })
            .unwrap();
    (agent.backend(files.clone()), files)
}

/// An agent that reads the states of a thread.
pub(super) fn reader(thread: &str, journal: Arc<dyn Journal>) -> DeepAgent {
    let agent = builder(journal, ScriptedModel::new([]));
    if thread == "undo" {
        let path = crate::sqlite::place();
        return with_undo(path.parent().unwrap(), agent).0.build().unwrap();
    }
    agent.build().unwrap()
}
