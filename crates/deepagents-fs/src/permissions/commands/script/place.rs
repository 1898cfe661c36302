//! Where, and how often, the parts of a script run.

use std::ops::Range;

use rable::Node;

use super::Script;
use crate::permissions::commands::directory::Directories;

impl Script {
    /// Adds what the parts of a compound command run, each of which may be left out.
    pub(super) fn parts<'a>(&mut self, parts: impl IntoIterator<Item = &'a Node>, repeats: bool, depth: usize) {
        let (from, start) = (self.commands.len(), self.place.clone());
        for part in parts {
            let before = self.place.clone();
            self.apart(true, |script| script.try_node(part, depth));
            self.place.or(&before);
        }
        if repeats && self.place != start {
            self.lose_place(from..self.commands.len());
            self.place = Directories::UNKNOWN;
        }
    }

    /// Reads a part of the script that may not be run, or in another process, if `is_apart`.
    pub(super) fn apart<R>(&mut self, is_apart: bool, read: impl FnOnce(&mut Self) -> R) -> R {
        self.branches += usize::from(is_apart);
        let result = read(self);
        self.branches -= usize::from(is_apart);
        result
    }

    /// Returns whether the current command is run once, in the shell itself.
    pub(super) fn is_straight(&self, depth: usize) -> bool {
        depth == 0 && self.branches == 0
    }

    /// Records that the output of the commands from this index on may go to the same places.
    pub(super) fn joined(&mut self, from: usize) {
        self.commands.iter_mut().skip(from).for_each(|simple| simple.flow = from);
    }

    /// Records that it is unknown in which directories these commands run.
    fn lose_place(&mut self, commands: Range<usize>) {
        let commands = self.commands.get_mut(commands).unwrap_or_default();
        commands.iter_mut().flat_map(|simple| &mut simple.redirections).for_each(|to| to.from = Directories::UNKNOWN);
    }

    /// Functions may be called in any directory that the script changes to.
    pub(super) fn lose_bodies(&mut self) {
        for body in std::mem::take(&mut self.bodies) {
            if self.moves {
                self.lose_place(body);
            }
        }
    }
}
