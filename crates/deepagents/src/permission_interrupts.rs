//! Permission rules that want a person to be asked, as approvals.

use deepagents_core::message::ToolCall;
use deepagents_fs::VPath;
use deepagents_fs::permissions::{AccessMode, Operation, Permissions};
use serde_json::Value;

use crate::approvals::{InterruptOn, InterruptPolicy};

/// What a file tool does: the operation, the argument that holds its path, and whether it goes for all that lies below.
const TOOLS: [(&str, Operation, &str, bool); 7] = [
    ("read_file", Operation::Read, "file_path", false),
    ("write_file", Operation::Write, "file_path", false),
    ("edit_file", Operation::Write, "file_path", false),
    ("delete", Operation::Write, "file_path", true),
    ("ls", Operation::Read, "path", true),
    ("glob", Operation::Read, "path", true),
    ("grep", Operation::Read, "path", true),
];

/// The approvals that the rules ask for.
pub(crate) fn approvals(rules: &Permissions) -> InterruptPolicy {
    let mut out = InterruptPolicy::new();
    for (tool, operation, argument, tree) in TOOLS {
        if rules.asks_about(operation) {
            let rules = rules.clone();
            let asks = move |call: &ToolCall, _: &_| asks(&rules, call, operation, argument, tree);
            out = out.before(tool, InterruptOn::any().when(asks));
        }
    }
    if rules.asks_about_commands() {
        let rules = rules.clone();
        let asks = move |call: &ToolCall, _: &_| {
            let command = call.args.get("command").and_then(Value::as_str);
            command.is_some_and(|command| rules.decide_command(command).mode == AccessMode::Ask)
        };
        out = out.before("execute", InterruptOn::any().when(asks));
    }
    out
}

/// Whether a call is to be asked about. One that cannot be made as it is, or is denied, is not: it answers with an error.
fn asks(rules: &Permissions, call: &ToolCall, operation: Operation, argument: &str, tree: bool) -> bool {
    let path = match call.args.get(argument) {
        None | Some(Value::Null) => VPath::root(),
        Some(Value::String(text)) => match VPath::parse(text) {
            Ok(path) => path,
            Err(_) => return false,
        },
        Some(_) => return false,
    };
    let decision = if tree { rules.decide_tree(operation, &path) } else { rules.decide(operation, &path) };
    decision.mode == AccessMode::Ask
}
