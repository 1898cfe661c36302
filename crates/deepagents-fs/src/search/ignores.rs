//! `.gitignore` files met on the way down.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::VPath;

/// The rules that hold in a directory: those of its `.gitignore`, then those of the directories above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignores(Option<Arc<Node>>);

#[derive(Debug)]
struct Node {
    rules: Gitignore,
    above: Ignores,
}

impl Ignores {
    /// The rules in a directory with a `.gitignore`. Lines that are not rules are passed over, as git does.
    pub(crate) fn enter(&self, directory: &VPath, content: &[u8]) -> Self {
        let mut builder = GitignoreBuilder::new(directory.as_str());
        for line in String::from_utf8_lossy(content).lines() {
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) => Self(Some(Arc::new(Node { rules, above: self.clone() }))),
            Err(_) => self.clone(),
        }
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
