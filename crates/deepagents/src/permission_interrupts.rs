//! Converts permission rules that ask a person into approvals.

use deepagents_core::message::ToolCall;
use deepagents_core::run::Context;
use deepagents_fs::VPath;
use deepagents_fs::permissions::{AccessMode, CommandReason, Decision, Operation, Permissions};
use deepagents_fs::search::Pattern;
use serde_json::Value;

use crate::approvals::{InterruptOn, InterruptPolicy};
use crate::middleware::filesystem::Patch;

/// The tool that runs commands.
const EXECUTE: &str = "execute";

/// The tool that finds file names; its pattern may be absolute.
const GLOB: &str = "glob";

/// The tool that changes several files.
const APPLY_PATCH: &str = "apply_patch";

/// The file tools: name, operation, the argument with the path, and whether the call covers the whole tree below it.
const TOOLS: [(&str, Operation, &str, bool); 7] = [
    ("read_file", Operation::Read, "file_path", false),
    ("write_file", Operation::Write, "file_path", false),
    ("edit_file", Operation::Write, "file_path", false),
    ("delete", Operation::Write, "file_path", true),
    ("ls", Operation::Read, "path", true),
    (GLOB, Operation::Read, "path", true),
    ("grep", Operation::Read, "path", true),
];

/// Returns the path of a file tool call, and whether the call concerns a link at its end rather than the link's target.
pub(crate) fn path_of(call: &ToolCall) -> Option<(VPath, bool)> {
    let (tool, _, argument, _) = TOOLS.iter().find(|(tool, ..)| *tool == call.name)?;
    Some((VPath::parse(call.args.get(argument)?.as_str()?).ok()?, *tool == "delete"))
}

/// Returns the approvals that the rules require.
pub(crate) fn approvals(rules: &Permissions) -> InterruptPolicy {
    let mut out = InterruptPolicy::new();
    for (tool, operation, argument, tree) in TOOLS {
        if rules.asks_about(operation) {
            let (rules, named) = (rules.clone(), rules.clone());
            let asks = move |call: &ToolCall, _: &Context| asks(&rules, call, operation, argument, tree);
            let name = move |call: &ToolCall, _: &Context| {
                let pattern = decide(&named, call, operation, argument, tree)?.pattern?;
                Some(format!("{} {pattern}", operation.name()))
            };
            out = out.before(tool, InterruptOn::any().required().when(asks).name_rule(name));
        }
    }
    if rules.asks_about(Operation::Write) {
        let (rules, named) = (rules.clone(), rules.clone());
        let asks = move |call: &ToolCall, _: &Context| asked_path(&rules, call).is_some();
        let name = move |call: &ToolCall, _: &Context| {
            Some(format!("{} {}", Operation::Write.name(), asked_path(&named, call)?))
        };
        out = out.before(APPLY_PATCH, InterruptOn::any().required().when(asks).name_rule(name));
    }
    if rules.asks_about_commands() {
        let (rules, named) = (rules.clone(), rules.clone());
        let asks = move |call: &ToolCall, _: &Context| {
            command_of(call).is_some_and(|command| rules.decide_command(command).mode == AccessMode::Ask)
        };
        let name = move |call: &ToolCall, _: &Context| {
            Some(format!("commands: {}", named.decide_command(command_of(call)?).reason))
        };
        out = out.before(EXECUTE, InterruptOn::any().required().when(asks).name_rule(name));
    }
    out
}

/// Returns the rule that allows a call, if any.
pub(crate) fn allowed_by(rules: &Permissions, call: &ToolCall) -> Option<String> {
    if call.name == EXECUTE {
        return match rules.decide_command(command_of(call)?).reason {
            CommandReason::Allowed { by } if !by.is_empty() => Some(format!("commands: {}", by.join(", "))),
            _ => None,
        };
    }
    let (_, operation, argument, tree) = TOOLS.into_iter().find(|(tool, ..)| *tool == call.name)?;
    let decision = decide(rules, call, operation, argument, tree)?;
    let pattern = decision.pattern.filter(|_| decision.mode == AccessMode::Allow)?;
    Some(format!("{} {pattern}", operation.name()))
}

/// Returns the pattern of a rule that asks about a path in a patch.
fn asked_path(rules: &Permissions, call: &ToolCall) -> Option<String> {
    let patch = Patch::parse(call.args.get("input")?.as_str()?).ok()?;
    let decided = patch.paths().map(|path| rules.decide_tree(Operation::Write, path));
    let asks = decided.filter(|decision| decision.mode == AccessMode::Ask).last()?;
    Some(asks.pattern.map_or_else(String::new, |pattern| pattern.to_string()))
}

/// Returns the command that a call would run.
fn command_of(call: &ToolCall) -> Option<&str> {
    call.args.get("command").and_then(Value::as_str)
}

/// Returns `true` if a call needs approval. An invalid or denied call does not: it fails with an error.
fn asks(rules: &Permissions, call: &ToolCall, operation: Operation, argument: &str, tree: bool) -> bool {
    decide(rules, call, operation, argument, tree).is_some_and(|decision| decision.mode == AccessMode::Ask)
}

/// Returns the decision of the rules about the path of a call. For `glob` with an absolute pattern, also checks the
/// directories that the pattern names: a rule that asks about them applies whatever the `path` argument is.
fn decide<'a>(
    rules: &'a Permissions,
    call: &ToolCall,
    operation: Operation,
    argument: &str,
    tree: bool,
) -> Option<Decision<'a>> {
    let path = match call.args.get(argument) {
        None | Some(Value::Null) => VPath::root(),
        Some(Value::String(text)) => VPath::parse(text).ok()?,
        Some(_) => return None,
    };
    let own = if tree { rules.decide_tree(operation, &path) } else { rules.decide(operation, &path) };
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
