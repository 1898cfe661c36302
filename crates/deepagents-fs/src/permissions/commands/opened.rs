//! What the rules for files say about a file that the shell opens.

use super::script::Redirection;
use crate::VPath;
use crate::permissions::{AccessMode, Decision, Operation, Permissions};

/// What the rules say, as far as it is known which file it is.
pub(super) enum Opened<'a> {
    /// No rule applies.
    Free,
    /// A rule applies, wherever the command runs.
    Decided { mode: AccessMode, pattern: &'a str, path: VPath },
    /// This rule, which denies or asks, may apply.
    Unclear(&'a str),
}

/// Decides about a file by its path in the workspace. The place of the workspace on the host is not known, so that an
/// absolute path, or one that leads out of it, may be any file in it whose path it ends with.
pub(super) fn opened_file<'a>(redirection: &Redirection, operation: Operation, files: &'a Permissions) -> Opened<'a> {
    let Some(paths) = redirection.paths() else {
        let mut rules = files.rules.iter().filter(|rule| rule.mode != AccessMode::Allow);
        let rule = rules.find(|rule| rule.operations.contains(&operation));
        let pattern = rule.and_then(|rule| rule.patterns.first());
        return pattern.map_or(Opened::Free, |pattern| Opened::Unclear(pattern.as_str()));
    };
    let mut decided: Option<(Decision<'a>, VPath)> = None;
    let (mut is_same, mut strict) = (true, None);
    for path in &paths {
        let inside = VPath::try_from(path.clone()).ok().filter(|_| is_inside(path));
        is_same &= inside.is_some();
        for path in inside.map_or_else(|| ends(path), |inside| vec![inside]) {
            let decision = files.decide(operation, &path);
            if decision.mode != AccessMode::Allow {
                strict = strict.or(decision.pattern);
            }
            match &decided {
                Some((first, _)) => {
                    is_same &= first.mode == decision.mode && first.pattern.is_some() == decision.pattern.is_some();
                }
                None => decided = Some((decision, path)),
            }
        }
    }
    match (decided, strict) {
        // Behind a link, `..` leads elsewhere, so that such a path is not allowed by a rule.
        (Some((Decision { mode, pattern: Some(pattern) }, path)), _)
            if is_same && (mode != AccessMode::Allow || !goes_up(redirection)) =>
        {
            Opened::Decided { mode, pattern, path }
        }
        (_, Some(pattern)) => Opened::Unclear(pattern),
        _ => Opened::Free,
    }
}

fn goes_up(redirection: &Redirection) -> bool {
    redirection.to.known().is_none_or(|path| path.split('/').any(|part| part == ".."))
}

fn is_inside(path: &str) -> bool {
    !path.starts_with('/') && path != ".." && !path.starts_with("../")
}

/// Returns the paths in the workspace that a path outside, or an absolute one, may stand for.
fn ends(path: &str) -> Vec<VPath> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "..")).collect();
    (0..parts.len()).filter_map(|from| VPath::try_from(parts.get(from..)?.join("/")).ok()).collect()
}
