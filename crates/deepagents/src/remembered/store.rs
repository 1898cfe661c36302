//! Rules in a file.

use std::io;
use std::path::{Path, PathBuf};

use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::interrupt::ActionRequest;
use serde::{Deserialize, Serialize};

use super::{CommandReach, RememberedRule};
use crate::user_file::{UserFile, UserFileError, root_name};

/// Where a rule holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleScope {
    /// In one thread.
    Thread(String),
    /// In all runs in one directory, absolute and without links.
    Project(String),
}

impl RuleScope {
    /// All runs in a directory.
    ///
    /// # Errors
    /// When the directory cannot be looked at or its path is not UTF-8.
    pub fn project(root: &Path) -> io::Result<Self> {
        root_name(root).map(Self::Project)
    }
}

/// A rule, where it holds, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRecord {
    /// Names it among the others.
    pub id: u64,
    /// Where it holds.
    pub scope: RuleScope,
    /// The rule.
    pub rule: RememberedRule,
    /// Since when, RFC 3339.
    pub at: String,
}

/// A file of rules. It is the user's: mode 0600, in a directory that is made with 0700 where there is none.
///
/// Changes are made under a lock across processes and are there whole or not at all. Every method blocks for as long as
/// the file takes.
#[derive(Clone, Debug)]
pub struct RememberedRules {
    file: UserFile,
}

impl RememberedRules {
    /// Rules in this file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: UserFile::at(file, "remembers what you always allow") }
    }

    /// Remembers a rule, unless the scope has it already.
    ///
    /// # Errors
    /// When it cannot be remembered.
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

    /// The rule of one of the scopes that covers a call, made where commands reach what they did when it was agreed to, or
    /// less.
    ///
    /// # Errors
    /// When the file cannot be read.
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

    /// All rules, in order of their ids.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records(&self) -> Result<Vec<RuleRecord>, UserFileError> {
        let mut records: Vec<RuleRecord> = self.file.records()?;
        records.sort_by_key(|record| record.id);
        Ok(records)
    }

    /// Forgets the rules that `which` picks, and gives them.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn forget(&self, which: impl Fn(&RuleRecord) -> bool) -> Result<Vec<RuleRecord>, UserFileError> {
        let mut gone = Vec::new();
        self.file.change(|records: &mut Vec<RuleRecord>| {
            gone = records.extract_if(.., |record| which(record)).collect();
            !gone.is_empty()
        })?;
        Ok(gone)
    }
}
