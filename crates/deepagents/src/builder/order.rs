//! Constraints on the order of middlewares.
//!
//! The first middleware of a stack is the outermost. `before_*` hooks run in order and `after_*` hooks in reverse;
//! every `modify_request` runs before any wrap; the wraps of model and tool calls nest. The resulting constraints
//! between middlewares that do not know each other are listed here and checked when an agent is built.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::DynMiddleware;

/// Two middlewares that work in one order only.
struct Rule {
    /// The name of the one that must come first.
    first: &'static str,
    /// The name of the one that must come later.
    then: &'static str,
    /// The consequence of the wrong order.
    otherwise: &'static str,
    /// How to fix it.
    advice: &'static str,
}

const RULES: [Rule; 5] = [
    Rule {
        first: "Filesystem",
        then: "Redaction",
        otherwise: "large results would be written to files before it hides anything",
        advice: "give it to the builder with `.redaction(...)`",
    },
    Rule {
        first: "Hooks",
        then: "Redaction",
        otherwise: "hooks would see what it hides",
        advice: "give it to the builder with `.redaction(...)`",
    },
    Rule {
        first: "Summarization",
        then: "ContextEditing",
        otherwise: "compaction would bring back what it clears",
        advice: "give it to the builder with `.middleware(...)`, and not in place of a standard part",
    },
    Rule {
        first: "ToolErrors",
        then: "ToolRetry",
        otherwise: "a failure that should be retried would end the run",
        advice: "give `ToolErrors` to the builder before `ToolRetry`",
    },
    Rule {
        first: "ToolRetry",
        then: "ToolEmulator",
        otherwise: "emulated calls would not be retried",
        advice: "give `ToolRetry` to the builder before `ToolEmulator`",
    },
];

/// Rejects a stack in the wrong order.
pub(super) fn check(stack: &[Arc<dyn DynMiddleware>]) -> Result<(), BuildError> {
    let at = |name: &str| stack.iter().position(|middleware| middleware.name() == name);
    for Rule { first, then, otherwise, advice } in &RULES {
        if let (Some(before), Some(behind)) = (at(first), at(then))
            && before > behind
        {
            return Err(BuildError::Option(format!("`{then}` comes before `{first}`: {otherwise}; {advice}")));
        }
    }
    Ok(())
}
