//! Decisions on interrupted calls: made by a rule or the mode, otherwise by whoever can be asked.

use std::collections::VecDeque;
use std::io;

use deepagents::{ActionRequest, Decision, DecisionAuthor, DecisionRecord, DeepAgent};
use deepagents_tui::Mode;

use super::always::Rules;
use super::answers;
use super::prompt::{Answer, Person};
use super::stdin::Lines;
use crate::agent::MODE_ASKS;
use crate::args::Approve;
use crate::output;
use crate::render::{Renderer, escaped};

/// Decisions by question ID.
pub(crate) type Decisions = Vec<(String, DecisionRecord)>;

/// Makes the decisions.
#[derive(Debug)]
pub(super) enum Approver {
    /// The mode, stored rules, and whoever can be asked.
    Policy(Box<Policy>),
    /// The decisions made when the run was recorded; none for a script, which asks nothing.
    Recorded(VecDeque<Decisions>),
}

/// The mode and stored rules, and whoever is asked if they do not decide.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) mode: Approve,
    /// How the mode was given, as an option.
    pub(super) mode_source: &'static str,
    pub(super) reviewer: Reviewer,
    pub(super) rules: Rules,
    /// The agent that asks the questions.
    pub(super) agent: DeepAgent,
    /// Whether the first questions were asked by an earlier run.
    pub(super) resumes: bool,
}

/// Who is asked.
#[derive(Debug)]
pub(super) enum Reviewer {
    /// The user at the terminal.
    Person(Person),
    /// A program, through lines of JSON.
    Program(Lines),
    /// Nobody can be asked.
    Nobody,
}

/// Describes how a mode was given: as an option of `run`, as an option of the screens, where without a terminal nobody
/// can be asked, or, if `is_kept`, as noted in the thread.
pub(super) fn mode_source(mode: Approve, screens: Option<Mode>, is_kept: bool) -> &'static str {
    match (screens, mode) {
        (None, _) if is_kept => "the mode that the thread was left in",
        (Some(Mode::Plan), _) => "--approve plan",
        (Some(Mode::Ask), _) => "--approve ask, and nobody can be asked",
        (_, Approve::Deny) => "--approve deny",
        (_, Approve::AllowList) => "--approve allow-list",
        (_, Approve::Ask) => "--approve ask",
        (_, Approve::Auto) => "--approve auto",
    }
}

impl Approver {
    /// Whether somebody is asked.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Policy(policy) if policy.mode == Approve::Ask && !matches!(policy.reviewer, Reviewer::Nobody))
    }

    /// Adds decisions on calls as they are made, in any order. Some are missing only if nobody is left to decide.
    pub(super) async fn decide(
        &mut self,
        questions: &[ActionRequest],
        renderer: &mut dyn Renderer,
        decisions: &mut Decisions,
    ) -> io::Result<()> {
        match self {
            Self::Recorded(answers) => decisions.extend(answers.pop_front().unwrap_or_default()),
            Self::Policy(policy) => {
                let decided = policy.decide(questions, renderer, decisions).await;
                policy.resumes = false;
                decided?;
            }
        }
        Ok(())
    }

    /// Leaves a question undecided.
    pub(super) fn leave(&self) {
        if let Self::Policy(policy) = self
            && matches!(policy.reviewer, Reviewer::Person(_))
        {
            // End the line with the prompt.
            output::say("");
        }
    }
}

impl Policy {
    async fn decide(
        &mut self,
        questions: &[ActionRequest],
        renderer: &mut dyn Renderer,
        decisions: &mut Decisions,
    ) -> io::Result<()> {
        let mut open = Vec::new();
        for question in questions {
            match self.known(question)? {
                Some(decision) => {
                    if let Some(author @ DecisionAuthor::RememberedRule { .. }) = &decision.author {
                        renderer.notice(&format!("approved by {}", escaped(&author.to_string())))?;
                    }
                    decisions.push((question.id.clone(), decision));
                }
                None => open.push(question.clone()),
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        match &mut self.reviewer {
            Reviewer::Program(lines) => answers::from_lines(lines, &open, &self.agent, decisions).await?,
            Reviewer::Person(_) => {
                renderer.pause()?;
                for question in &open {
                    let Some(decision) = self.ask_person(question).await? else { break };
                    decisions.push((question.id.clone(), decision));
                }
            }
            Reviewer::Nobody => {
                let text = "a person has to agree to this, and nobody can be asked in this run";
                let nobody = || DecisionAuthor::Default { text: text.to_owned() };
                decisions.extend(open.into_iter().map(|question| (question.id, refused(text, nobody()))));
            }
        }
        Ok(())
    }

    /// Returns the decision of a stored rule or the mode on a call, if there is one.
    fn known(&self, question: &ActionRequest) -> io::Result<Option<DecisionRecord>> {
        if self.mode == Approve::Deny {
            let why = format!("nothing may be changed or run here ({})", self.mode_source);
            return Ok(Some(refused(&why, rule(self.mode_source))));
        }
        if let Some(rule) = self.rules.find(question)? {
            let author = DecisionAuthor::RememberedRule { text: rule.to_string() };
            return Ok(Some(DecisionRecord::new(Decision::Approve, author)));
        }
        Ok(match self.mode {
            Approve::AllowList => {
                let why = format!("only what was always allowed is done here ({}), and this was not", self.mode_source);
                Some(refused(&why, rule(self.mode_source)))
            }
            // Only questions that the mode of an earlier run caused: those of a call, a rule or a sub-agent are asked
            // in every mode.
            Approve::Auto if self.resumes && question.is_gate() && is_of_mode(question) => {
                Some(DecisionRecord::new(Decision::Approve, rule("--approve auto")))
            }
            Approve::Auto | Approve::Ask | Approve::Deny => None,
        })
    }

    async fn ask_person(&mut self, question: &ActionRequest) -> io::Result<Option<DecisionRecord>> {
        // An earlier answer may cover this call too.
        if let Some(known) = self.known(question)? {
            return Ok(Some(known));
        }
        let Reviewer::Person(person) = &mut self.reviewer else { return Ok(None) };
        Ok(match person.decide(question, &self.rules.commands, &self.agent).await? {
            None => None,
            Some(Answer::Once(decision)) => Some(decision.into()),
            Some(Answer::Always(rule, lasting)) => {
                self.rules.add(rule, lasting)?;
                Some(Decision::Approve.into())
            }
        })
    }
}

/// Returns a rejection of a call that nobody was asked about.
fn refused(text: &str, author: DecisionAuthor) -> DecisionRecord {
    DecisionRecord::new(Decision::Reject { message: Some(text.to_owned()) }, author)
}

/// Whether a call was interrupted because of the mode alone, as all are in old threads that did not name rules.
fn is_of_mode(question: &ActionRequest) -> bool {
    question.rule.as_deref().is_none_or(|rule| rule == MODE_ASKS)
}

/// Returns a mode as the author of a decision.
fn rule(mode: &str) -> DecisionAuthor {
    DecisionAuthor::Rule { text: mode.to_owned() }
}
