//! Where, and how often, the parts of a script run.

use std::ops::Range;

use rable::{ListItem, ListOperator, Node, NodeKind};

use super::Script;
use crate::permissions::commands::directory::Directories;

impl Script {
    /// Adds what the commands of a list run. `succeeds`: what follows is run only if the whole list has succeeded.
    pub(super) fn list(&mut self, items: &[ListItem], succeeds: bool, depth: usize) {
        // The directories that the list up to here may have ended in.
        let (mut reached, mut before) = (self.place.clone(), ListOperator::Semi);
        for item in items {
            let may_be_skipped = matches!(before, ListOperator::And | ListOperator::Or);
            let is_apart = may_be_skipped || item.operator == Some(ListOperator::Background);
            let leads_on = item.operator.map_or(succeeds, |operator| operator == ListOperator::And);
            self.apart(is_apart, |script| match &item.command.kind {
                NodeKind::List { items } => script.list(items, leads_on, depth),
                _ => script.try_node(&item.command, depth),
            });
            // Behind `&&` it has succeeded, unless it was skipped by `||`.
            if !leads_on || before == ListOperator::Or {
                self.place.or(&reached);
            }
            reached.or(&self.place);
            before = item.operator.unwrap_or(ListOperator::Semi);
        }
    }

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
