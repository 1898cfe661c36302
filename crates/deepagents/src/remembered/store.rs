//! A file of rules.

use std::io;
use std::path::{Path, PathBuf};

use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::interrupt::ActionRequest;
use serde::{Deserialize, Serialize};

use super::{CommandReach, RememberedRule};
use crate::user_file::{UserFile, UserFileError, root_name};

/// Where a rule applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleScope {
    /// In one thread.
    Thread(String),
    /// In all runs in one directory, given as an absolute path with links resolved.
    Project(String),
}

impl RuleScope {
    /// Returns the scope of all runs in a directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be accessed or its path is not UTF-8.
    pub fn project(root: &Path) -> io::Result<Self> {
        root_name(root).map(Self::Project)
    }
}

/// A stored rule with its scope and date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRecord {
    /// Its id, unique in the file.
    pub id: u64,
    /// Where it applies.
    pub scope: RuleScope,
    /// The rule.
    pub rule: RememberedRule,
    /// When it was added, in RFC 3339 format.
    pub at: String,
}

/// A file of rules that belongs to the user: mode 0600, in a directory that is created with mode 0700 if it does not
/// exist.
///
/// Changes are atomic and made under a lock shared by all processes. All methods perform blocking I/O.
#[derive(Clone, Debug)]
pub struct RememberedRules {
    file: UserFile,
}

impl RememberedRules {
    /// Uses the rules in this file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: UserFile::at(file, "remembers what you always allow") }
    }

    /// Adds a rule, unless the scope already has it.
    ///
    /// # Errors
    /// Returns an error if the rule cannot be stored.
    pub fn add(&self, scope: &RuleScope, rule: &RememberedRule) -> Result<(), UserFileError> {
        let at = SystemClock.now().to_string();
        self.file.change(|records: &mut Vec<RuleRecord>| {
            if records.iter().any(|record| record.scope == *scope && record.rule == *rule) {
                return false;
            }
            let id = records.iter().map(|record| record.id).max().unwrap_or_default().saturating_add(1);
            records.push(RuleRecord { id, scope: scope.clone(), rule: rule.clone(), at });
            true
        })
    }

    /// Returns a rule in one of the scopes that covers the call and applies to commands with this access.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn find(
        &self,
        scopes: &[RuleScope],
        question: &ActionRequest,
        reach: &CommandReach,
    ) -> Result<Option<RememberedRule>, UserFileError> {
        let records = self.records()?.into_iter();
        let holds = |rule: &RememberedRule| rule.holds_within(reach) && rule.covers(question);
        let mut fitting = records.filter(|record| scopes.contains(&record.scope) && holds(&record.rule));
        Ok(fitting.next().map(|record| record.rule))
    }

    /// Returns all rules, ordered by id.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn records(&self) -> Result<Vec<RuleRecord>, UserFileError> {
        let mut records: Vec<RuleRecord> = self.file.records()?;
        records.sort_by_key(|record| record.id);
        Ok(records)
    }

    /// Removes the rules selected by `which` and returns them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn forget(&self, which: impl Fn(&RuleRecord) -> bool) -> Result<Vec<RuleRecord>, UserFileError> {
        self.file.remove(which)
    }
}
