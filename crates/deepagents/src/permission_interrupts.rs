//! Converts permission rules that ask a person into approvals.

use deepagents_core::message::ToolCall;
use deepagents_fs::VPath;
use deepagents_fs::permissions::{AccessMode, CommandReason, Decision, Operation, Permissions};
use deepagents_fs::search::Pattern;
use serde_json::Value;

use crate::approvals::{InterruptOn, InterruptPolicy};
use crate::middleware::filesystem::Patch;
use crate::workspace::AtLink;

/// The tool that runs commands.
const EXECUTE: &str = "execute";

/// The tool that finds file names; its pattern may be absolute.
const GLOB: &str = "glob";

/// The tool that changes several files.
const APPLY_PATCH: &str = "apply_patch";

/// What a file tool does with the path in one of its arguments.
struct PathTool {
    name: &'static str,
    operation: Operation,
    argument: &'static str,
    /// Whether a call covers the whole tree below the path.
    tree: bool,
}

/// The file tools that take one path.
static TOOLS: [PathTool; 7] = [
    PathTool { name: "read_file", operation: Operation::Read, argument: "file_path", tree: false },
    PathTool { name: "write_file", operation: Operation::Write, argument: "file_path", tree: false },
    PathTool { name: "edit_file", operation: Operation::Write, argument: "file_path", tree: false },
    PathTool { name: "delete", operation: Operation::Write, argument: "file_path", tree: true },
    PathTool { name: "ls", operation: Operation::Read, argument: "path", tree: true },
    PathTool { name: GLOB, operation: Operation::Read, argument: "path", tree: true },
    PathTool { name: "grep", operation: Operation::Read, argument: "path", tree: true },
];

/// Returns the argument of a file tool that holds its path.
pub(crate) fn path_argument(tool: &str) -> Option<&'static str> {
    TOOLS.iter().find(|known| known.name == tool).map(|tool| tool.argument)
}

/// Returns the path of a file tool call, and how the call treats a link at its end.
pub(crate) fn path_of(call: &ToolCall) -> Option<(VPath, AtLink)> {
    let path = VPath::parse(call.args.get(path_argument(&call.name)?)?.as_str()?).ok()?;
    Some((path, if call.name == "delete" { AtLink::NoFollow } else { AtLink::Follows }))
}

/// Returns the rule that asks about a call, if one does.
type AskingRule = fn(&Permissions, &ToolCall) -> Option<String>;

/// Returns the approvals that the rules require.
pub(crate) fn approvals(rules: &Permissions) -> InterruptPolicy {
    let asking_path: AskingRule = |rules, call| path_rule(rules, call, AccessMode::Ask);
    let of_paths = TOOLS.iter().filter(|tool| rules.asks_about(tool.operation)).map(|tool| (tool.name, asking_path));
    let of_patches = rules.asks_about(Operation::Write).then_some((APPLY_PATCH, patch_rule as AskingRule));
    let of_commands = rules.asks_about_commands().then_some((EXECUTE, command_rule as AskingRule));
    of_paths.chain(of_patches).chain(of_commands).fold(InterruptPolicy::new(), |policy, (tool, rule)| {
        let (asking, named) = (rules.clone(), rules.clone());
        let ask = InterruptOn::any().required().when(move |call, _| rule(&asking, call).is_some());
        policy.before(tool, ask.name_rule(move |call, _| rule(&named, call)))
    })
}

/// Returns the rule that allows a call, if any.
pub(crate) fn allowed_by(rules: &Permissions, call: &ToolCall) -> Option<String> {
    if call.name == EXECUTE {
        return match rules.decide_command(command_of(call)?).reason {
            CommandReason::Allowed { by } if !by.is_empty() => Some(format!("commands: {}", by.join(", "))),
            _ => None,
        };
    }
    path_rule(rules, call, AccessMode::Allow)
}

/// Returns the rule that decides a call of a file tool, if it decides on this mode. No rule decides an invalid call,
/// which fails with an error.
fn path_rule(rules: &Permissions, call: &ToolCall, mode: AccessMode) -> Option<String> {
    let tool = TOOLS.iter().find(|tool| tool.name == call.name)?;
    let decision = decide(rules, call, tool)?;
    let pattern = decision.pattern.filter(|_| decision.mode == mode)?;
    Some(format!("{} {pattern}", tool.operation.name()))
}

/// Returns the rule that asks about a path in a patch.
fn patch_rule(rules: &Permissions, call: &ToolCall) -> Option<String> {
    let patch = Patch::parse(call.args.get("input")?.as_str()?).ok()?;
    let decided = patch.paths().map(|path| rules.decide_tree(Operation::Write, path));
    let pattern = decided.filter(|decision| decision.mode == AccessMode::Ask).last()?.pattern?;
    Some(format!("{} {pattern}", Operation::Write.name()))
}

/// Returns the rule that asks about a command.
fn command_rule(rules: &Permissions, call: &ToolCall) -> Option<String> {
    let decision = rules.decide_command(command_of(call)?);
    (decision.mode == AccessMode::Ask).then(|| format!("commands: {}", decision.reason))
}

/// Returns the command that a call would run.
fn command_of(call: &ToolCall) -> Option<&str> {
    call.args.get("command").and_then(Value::as_str)
}

/// Returns the decision of the rules about the path of a call. For `glob` with an absolute pattern, also checks the
/// directories that the pattern names: a rule that asks about them applies whatever the `path` argument is.
fn decide<'a>(rules: &'a Permissions, call: &ToolCall, tool: &PathTool) -> Option<Decision<'a>> {
    let path = match call.args.get(tool.argument) {
        None | Some(Value::Null) => VPath::root(),
        Some(Value::String(text)) => VPath::parse(text).ok()?,
        Some(_) => return None,
    };
    let operation = tool.operation;
    let own = if tool.tree { rules.decide_tree(operation, &path) } else { rules.decide(operation, &path) };
    if own.mode != AccessMode::Allow || call.name != GLOB {
        return Some(own);
    }
    let mut named = named_by_pattern(call).into_iter().map(|path| rules.decide_tree(operation, &path));
    Some(named.find(|decision| decision.mode == AccessMode::Ask).unwrap_or(own))
}

/// Returns the paths that an absolute pattern names.
fn named_by_pattern(call: &ToolCall) -> Vec<VPath> {
    let text = call.args.get("pattern").and_then(Value::as_str).filter(|text| text.starts_with('/'));
    let pattern = text.and_then(|text| Pattern::new(text).ok());
    pattern.iter().flat_map(Pattern::anchors).collect()
}
