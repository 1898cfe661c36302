//! Which middlewares must stand before which: the one place that says so.
//!
//! The first of a stack is the outermost. `before_*` hooks run in order and `after_*` hooks in reverse; every
//! `modify_request` runs before any wrap; the wraps of model and tool calls nest. What follows from that for parts that
//! know nothing of each other is written here, and looked at when an agent is built.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::DynMiddleware;

/// Two parts that work in one order alone.
struct Rule {
    /// The name of the one that stands before.
    first: &'static str,
    /// The name of the one that stands behind.
    then: &'static str,
    /// What goes wrong otherwise.
    otherwise: &'static str,
    /// What to do about it.
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

/// Refuses a stack that cannot work.
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
