//! What the program reports about a thread: `deepagents threads export` and `threads show`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::log::Log;

/// The program with its threads.
pub(crate) struct ThreadsCommand {
    pub(crate) program: PathBuf,
    /// The folder with its home and its database.
    pub(crate) folder: PathBuf,
}

/// The calls of all agents of a thread, by tag.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) calls: BTreeSet<String>,
    pub(crate) results: BTreeSet<String>,
}

impl ThreadsCommand {
    async fn json(&self, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.folder.join("home")).arg("threads");
        command.arg("--db").arg(self.folder.join("threads.db")).args(args).stdin(Stdio::null());
        let output = command.output().await.context("the program could not be started")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`threads {}` failed: {}", args.join(" "), errors.trim());
        serde_json::from_slice(&output.stdout).with_context(|| format!("`threads {}` gives no JSON", args.join(" ")))
    }

    /// Returns the log of a thread.
    pub(crate) async fn export(&self, thread: &str) -> Result<Log> {
        Log::exported(&self.json(&["export", thread]).await?)
    }

    /// Returns the conversations of a thread: that of the main agent, and that of each sub-agent by its path.
    pub(crate) async fn show(&self, thread: &str) -> Result<Shown> {
        let main = self.json(&["show", thread, "--json"]).await?;
        let mut shown = Shown::default();
        shown.add(&main)?;
        for agent in main.get("sub_agents").and_then(Value::as_array).into_iter().flatten() {
            let path = agent.get("path").and_then(Value::as_array).context("a sub-agent without a path")?;
            let path: Vec<&str> = path.iter().filter_map(Value::as_str).collect();
            shown.add(&self.json(&["show", thread, "--json", "--path", &path.join("/")]).await?)?;
        }
        Ok(shown)
    }
}

impl Shown {
    fn add(&mut self, document: &Value) -> Result<()> {
        let messages = document.pointer("/state/messages").and_then(Value::as_array).context("no messages")?;
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        for message in messages {
            let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
            let calls = blocks.filter(|block| text(block, "type").as_deref() == Some("tool_call"));
            self.calls.extend(calls.filter_map(|call| text(call, "id")));
            self.results.extend(text(message, "call_id"));
        }
        Ok(())
    }
}
