//! `.gitignore` files found on the way down.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{FsError, VPath};

/// Maximum number of rules that apply in one directory, including those of its ancestors. Each takes memory, and time
/// for each file.
const MAX_RULES: usize = 5_000;
/// Maximum length of a rule in bytes. Paths in real rules are shorter.
const MAX_RULE_BYTES: usize = 1_000;

/// The rules that apply in a directory: those of its `.gitignore`, then those of its ancestors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignores(Option<Arc<Node>>);

#[derive(Debug)]
struct Node {
    rules: Gitignore,
    /// Number of rules, including inherited ones.
    number: usize,
    above: Ignores,
}

impl Ignores {
    /// Returns the rules of a directory with a `.gitignore`. Skips lines that are not rules, as git does. Rules beyond
    /// the limits are skipped too and reported in the error.
    pub(crate) fn enter(&self, directory: &VPath, content: &[u8]) -> (Self, Option<FsError>) {
        let mut builder = GitignoreBuilder::new(directory.as_str());
        let above = self.0.as_ref().map_or(0, |node| node.number);
        let mut number = above;
        let mut left_out = false;
        for line in String::from_utf8_lossy(content).lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            left_out |= number >= MAX_RULES || line.len() > MAX_RULE_BYTES;
            if number >= MAX_RULES {
                break;
            }
            if line.len() <= MAX_RULE_BYTES && builder.add_line(None, line).is_ok() {
                number += 1;
            }
        }
        let error = left_out.then(|| {
            let reason = format!("only {MAX_RULES} rules of up to {MAX_RULE_BYTES} bytes are applied, the rest is not");
            FsError::io(&directory.child(".gitignore"), std::io::ErrorKind::InvalidData, reason)
        });
        let rules = match builder.build() {
            Ok(rules) if number > above => Self(Some(Arc::new(Node { rules, number, above: self.clone() }))),
            _ => self.clone(),
        };
        (rules, error)
    }

    pub(crate) fn hides(&self, path: &VPath, directory: bool) -> bool {
        let mut level = self;
        while let Some(node) = &level.0 {
            match node.rules.matched(Path::new(path.as_str()), directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => level = &node.above,
            }
        }
        false
    }
}
