//! Values of variables, as far as they are known where they are used.

use std::collections::BTreeMap;

use super::Simple;
use crate::permissions::commands::word::{Word, is_name};
use crate::permissions::commands::{mentions, wrappers};

/// The variables that a script sets. `None`: set in a way that leaves the value unknown, now or later.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    known: BTreeMap<String, Option<String>>,
    /// Whether any variable may have been set, as by a file that was read.
    any: bool,
}

impl Values {
    /// Records what a command sets. `straight`: it is run once, in the shell itself.
    pub(super) fn take(&mut self, simple: &Simple, straight: bool) {
        let Some(program) = simple.words.first() else {
            for (name, value) in &simple.assignments {
                match value.known().filter(|_| straight && self.known.get(name) != Some(&None)) {
                    Some(value) => drop(self.known.insert(name.clone(), Some(value.to_owned()))),
                    None => self.forget(name),
                }
            }
            return;
        };
        match program.known() {
            Some(name) if mentions::sets_variables(name) || matches!(name, "unset" | "read" | "getopts") => {
                for arg in simple.words.iter().skip(1) {
                    let text =
                        wrappers::assignment(arg).map(|(name, _)| name).or_else(|| Some(arg.known()?.to_owned()));
                    match text {
                        Some(name) => self.forget(&name),
                        None => self.any = true,
                    }
                }
            }
            // These may set any variable.
            None | Some("." | "source" | "eval" | "command" | "builtin") => self.any = true,
            Some("printf") if simple.words.get(1).is_some_and(is_option) => self.any = true,
            // In front of a special command, a variable stays set.
            Some(_) => simple.assignments.iter().for_each(|(name, _)| self.forget(name)),
        }
    }

    /// Records that a variable is set in a way that leaves its value unknown.
    pub(super) fn forget(&mut self, name: &str) {
        if is_name(name) {
            self.known.insert(name.to_owned(), None);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.known.get(name).filter(|_| !self.any)?.clone()
    }
}

/// Returns whether a word is an option, or may be one.
fn is_option(arg: &Word) -> bool {
    arg.known().is_none_or(|arg| arg.starts_with('-'))
}
