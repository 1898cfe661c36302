//! `execute`.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use deepagents_fs::shell::{Command, Executed, Exit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::failed;
use crate::middleware::filesystem::Filesystem;

pub(in crate::middleware::filesystem) struct Execute(pub(in crate::middleware::filesystem) Arc<Filesystem>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::middleware::filesystem) struct ExecuteArgs {
    /// A shell command.
    command: String,
    /// Seconds it may run.
    timeout: Option<u64>,
}

impl Tool for Execute {
    type Args = ExecuteArgs;

    fn name(&self) -> &str {
        "execute"
    }

    fn description(&self) -> &str {
        "Runs a shell command in the workspace and gives its output and exit code. Each command runs in a shell of its own, without input; what it leaves running is ended. For reading, writing and searching files the file tools are better."
    }

    fn effect(&self, _args: &ExecuteArgs) -> Effect {
        Effect::External
    }

    async fn call(&self, args: ExecuteArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let backend = self.0.workspace.of(&cx);
        let Some(shell) = backend.shell() else {
            return Err(failed("this workspace runs no commands"));
        };
        let longest = self.0.options.max_execute_seconds;
        let mut command = Command::new(args.command);
        if let Some(seconds) = args.timeout {
            if seconds > longest {
                return Err(failed(format!("a command may run {longest} seconds at most, not {seconds}")));
            }
            command = command.timeout(Duration::from_secs(seconds));
        }
        let (pieces, mut from) = tokio::sync::mpsc::channel(16);
        let run = shell.run(command, cx.cancellation().clone(), Some(pieces));
        let tell = async {
            while let Some(piece) = from.recv().await {
                cx.progress(piece).await;
            }
        };
        let (executed, ()) = futures_util::future::join(run, tell).await;
        Ok(show(&executed.map_err(failed)?))
    }
}

/// The output, and how the command ended: the number of a signal below zero stands for an exit code, as is usual. A
/// command that failed by its own account is a result like any other.
fn show(executed: &Executed) -> ToolOutput {
    let output = executed.output.trim_end_matches('\n');
    let output = if output.is_empty() { "(no output)" } else { output };
    let (end, stopped) = match executed.exit {
        Exit::Code(code) => (format!("exit code {code}"), false),
        Exit::TimedOut { after } => (format!("stopped: it ran longer than {} s", after.as_secs()), true),
        Exit::Cancelled => ("stopped: the run was cancelled".to_owned(), true),
        Exit::OutOfSpace => ("stopped: it left too little space on the disk".to_owned(), true),
        Exit::Signal(signal) => {
            let name = executed.exit.signal_name().map(|name| format!(" ({name})")).unwrap_or_default();
            (format!("exit code {}: ended by signal {signal}{name}", -signal), false)
        }
        _ => ("it did not end by itself".to_owned(), true),
    };
    let dropped = match executed.dropped {
        0 => String::new(),
        bytes => format!("\n[{bytes} bytes of output are missing]"),
    };
    let refused = match executed.refused.join(", ") {
        hosts if hosts.is_empty() => hosts,
        hosts => format!("\n[refused, since commands may not reach it: {hosts}]"),
    };
    let code = match executed.exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(signal) => Some(-signal),
        _ => None,
    };
    let artifact = json!({"exit_code": code, "truncated": executed.truncated(), "sandbox": executed.level.to_string()});
    let shown = ToolOutput::text(format!("{output}{dropped}{refused}\n[{end}]")).with_artifact(artifact);
    if stopped { shown.as_error() } else { shown }
}
