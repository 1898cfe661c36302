//! Evaluations of the work, and the progress by a rubric.

use deepagents_core::event::MiddlewareEvent;
use serde::{Deserialize, Serialize};

use crate::json_answer;

/// The progress of a thread's work by its rubric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RubricProgress {
    /// The rubric.
    pub rubric: String,
    /// Number of evaluations so far.
    pub iterations: u32,
    /// How it ended; `None` while it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RubricStatus>,
    /// The criteria as named in the first evaluation.
    #[serde(default)]
    pub criteria: Vec<String>,
    /// The last evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Evaluation>,
    /// Why there is no evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How the evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RubricStatus {
    /// All criteria are met.
    Satisfied,
    /// The limit of evaluations was reached, and some criteria are not met.
    MaxIterationsReached,
    /// The rubric cannot be evaluated or can never be met.
    Failed,
    /// The judge could not be called or gave no valid evaluation.
    GraderError,
}

/// A judge's evaluation of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The result of the evaluation.
    pub result: RubricResult,
    /// The reason.
    pub explanation: String,
    /// The individual criteria.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Whether the judge left out criteria.
    #[serde(default)]
    pub unverified: bool,
}

/// The result of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RubricResult {
    /// All criteria are met.
    Satisfied,
    /// Something is missing that further work could add.
    NeedsRevision,
    /// The rubric cannot be evaluated or can never be met.
    Failed,
}

/// A criterion of a rubric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Criterion {
    /// Its name.
    pub name: String,
    /// Whether it is met.
    pub passed: bool,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

impl Criterion {
    fn is(&self, name: &str) -> bool {
        self.name.trim().to_lowercase() == name.trim().to_lowercase()
    }
}

impl Evaluation {
    /// Parses a judge's answer.
    ///
    /// # Errors
    /// Returns what is wrong with the answer, as a message for the judge.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let evaluation: Self = json_answer::read(text)?;
        let failing = evaluation.criteria.iter().any(|criterion| !criterion.passed);
        match evaluation.result {
            RubricResult::Satisfied if failing => Err("it is `satisfied`, but a criterion has not passed".to_owned()),
            RubricResult::NeedsRevision if !failing && !evaluation.criteria.is_empty() => {
                Err("it is `needs_revision`, but every criterion has passed".to_owned())
            }
            _ => Ok(evaluation),
        }
    }

    /// Returns `true` if all known criteria were judged, and at least one.
    pub(super) fn covers(&self, known: &[String]) -> bool {
        let judged = |name: &String| self.criteria.iter().any(|criterion| criterion.is(name));
        self.result == RubricResult::Failed || (!self.criteria.is_empty() && known.iter().all(judged))
    }

    /// Restricts the evaluation to the known criteria, or to its own if there are none. A missing criterion counts as
    /// not met; others are ignored.
    pub(super) fn by(mut self, known: &[String]) -> Self {
        self.unverified = !self.covers(known);
        if self.result == RubricResult::Failed {
            return self;
        }
        let mut names = known.to_vec();
        if known.is_empty() {
            for criterion in &self.criteria {
                if !names.iter().any(|name| criterion.is(name)) {
                    names.push(criterion.name.clone());
                }
            }
        }
        self.criteria = names.into_iter().map(|name| self.judged(name)).collect();
        let is_met = !self.unverified && self.criteria.iter().all(|criterion| criterion.passed);
        self.result = if is_met { RubricResult::Satisfied } else { RubricResult::NeedsRevision };
        self
    }

    /// Returns the result for a criterion. If it was judged several times, it is met only if all of them say so.
    fn judged(&self, name: String) -> Criterion {
        let said = || self.criteria.iter().filter(|criterion| criterion.is(&name));
        match said().find(|criterion| !criterion.passed).or_else(|| said().next()) {
            Some(criterion) => Criterion { name, ..criterion.clone() },
            None => Criterion { name, passed: false, gap: Some("it was not judged".to_owned()) },
        }
    }

    /// Returns the names of the criteria that are met, or of those that are not.
    fn named(&self, passed: bool) -> Vec<String> {
        let those = self.criteria.iter().filter(|criterion| criterion.passed == passed);
        those.map(|criterion| criterion.name.clone()).collect()
    }

    pub(super) fn event(&self, iteration: u32) -> MiddlewareEvent {
        let result = match self.result {
            RubricResult::Satisfied => "satisfied",
            RubricResult::NeedsRevision => "needs_revision",
            RubricResult::Failed => "failed",
        };
        MiddlewareEvent::RubricEvaluated {
            iteration,
            result: result.to_owned(),
            explanation: self.explanation.clone(),
            passed: self.named(true),
            missing: self.named(false),
            unverified: self.unverified,
        }
    }

    /// Returns the feedback for the agent.
    pub(super) fn feedback(&self) -> String {
        let mut lines = vec![format!("The work was judged and is not done yet: {}", self.explanation)];
        let failing: Vec<&Criterion> = self.criteria.iter().filter(|criterion| !criterion.passed).collect();
        if !failing.is_empty() {
            lines.push("Not met:".to_owned());
        }
        lines.extend(failing.iter().map(|criterion| {
            let gap = criterion.gap.as_ref().map(|gap| format!(": {gap}")).unwrap_or_default();
            format!("- {}{gap}", criterion.name)
        }));
        let passing = self.named(true);
        if !passing.is_empty() && !self.unverified {
            lines.push(format!("Met, and to stay so: {}.", passing.join(", ")));
        }
        lines.push("Mend what is missing, then give your answer again.".to_owned());
        lines.join("\n")
    }
}
