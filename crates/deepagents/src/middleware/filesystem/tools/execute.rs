//! `execute`.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::tool::{ToolContext, ToolOutput};
use deepagents_fs::shell::{Command, CommandOutput, Exit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Answered, failed};
use crate::middleware::filesystem::Filesystem;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExecuteArgs {
    /// A shell command.
    command: String,
    /// Seconds it may run.
    timeout: Option<u64>,
}

pub(super) async fn execute(files: Arc<Filesystem>, args: ExecuteArgs, cx: ToolContext) -> Answered {
    let backend = files.workspace.backend_for(&cx);
    let Some(shell) = backend.shell() else {
        return Err(failed("this workspace runs no commands"));
    };
    let longest = files.options.max_execute_seconds;
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
            cx.progress(piece);
        }
    };
    let (executed, ()) = futures_util::future::join(run, tell).await;
    Ok(show(&executed.map_err(failed)?))
}

/// The output, and how the command ended: the number of a signal below zero stands for an exit code, as is usual. A
/// command that failed by its own account is a result like any other.
fn show(executed: &CommandOutput) -> ToolOutput {
    let output = executed.output.trim_end_matches('\n');
    let output = if output.is_empty() { "(no output)" } else { output };
    let (end, code) = match executed.exit {
        Exit::Code(code) => (format!("exit code {code}"), Some(code)),
        Exit::TimedOut { after } => (format!("stopped: it ran longer than {} s", after.as_secs()), None),
        Exit::Cancelled => ("stopped: the run was cancelled".to_owned(), None),
        Exit::OutOfSpace => ("stopped: it left too little space on the disk".to_owned(), None),
        Exit::Signal(signal) => {
            let name = executed.exit.signal_name().map(|name| format!(" ({name})")).unwrap_or_default();
            (format!("exit code {}: ended by signal {signal}{name}", -signal), Some(-signal))
        }
        _ => ("it did not end by itself".to_owned(), None),
    };
    let dropped = match executed.dropped {
        0 => String::new(),
        bytes => format!("\n[{bytes} bytes of output are missing]"),
    };
    let refused = match executed.refused.join(", ") {
        hosts if hosts.is_empty() => hosts,
        hosts => format!("\n[refused, since commands may not reach it: {hosts}]"),
    };
    let artifact = json!({"exit_code": code, "truncated": executed.truncated(), "sandbox": executed.level.to_string()});
    let shown = ToolOutput::text(format!("{output}{dropped}{refused}\n[{end}]")).with_artifact(artifact);
    if code.is_none() { shown.as_error() } else { shown }
}
