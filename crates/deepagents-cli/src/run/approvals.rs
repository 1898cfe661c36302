//! Decisions about calls that wait for them: which rule or mode makes them, and who is asked otherwise.

use std::collections::VecDeque;
use std::io;

use deepagents::{ActionRequest, Decision, DecisionAuthor, DecisionRecord, DeepAgent};

use super::always::Rules;
use super::answers;
use super::prompt::{Answer, Person};
use super::stdin::Lines;
use crate::agent::MODE_ASKS;
use crate::args::{Approve, ScreenMode};
use crate::output;
use crate::render::{Renderer, escaped};

/// Decisions by the ids of their questions.
pub(crate) type Decisions = Vec<(String, DecisionRecord)>;

/// Who decides.
#[derive(Debug)]
pub(super) enum Approver {
    /// A mode, what was remembered, and whoever can be asked.
    Policy(Box<Policy>),
    /// It was decided when the run was recorded.
    Recorded(VecDeque<Decisions>),
}

/// A mode, what was remembered, and whoever can be asked where these say nothing.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) mode: Approve,
    /// How it was said, as an option.
    pub(super) said: &'static str,
    pub(super) reviewer: Reviewer,
    pub(super) rules: Rules,
    /// Whose questions they are.
    pub(super) agent: DeepAgent,
    /// Whether what is asked first was asked by an earlier run.
    pub(super) resumes: bool,
}

/// Who is asked.
#[derive(Debug)]
pub(super) enum Reviewer {
    /// A person at the terminal.
    Person(Person),
    /// A program, with lines of JSON.
    Program(Lines),
    /// Nobody can be.
    Nobody,
}

/// A mode as the option that it was said with: on the command line of the screens there are others, and nobody can be asked
/// where there are none. That of a thread was said by no option.
pub(super) fn said(mode: Approve, screens: Option<ScreenMode>, is_kept: bool) -> &'static str {
    match (screens, mode) {
        (None, _) if is_kept => "the mode that the thread was left in",
        (Some(ScreenMode::Plan), _) => "--approve plan",
        (Some(ScreenMode::Ask), _) => "--approve ask, and nobody can be asked",
        (_, Approve::Deny) => "--approve deny",
        (_, Approve::AllowList) => "--approve allow-list",
        (_, Approve::Ask) => "--approve ask",
        (_, Approve::Auto) => "--approve auto",
    }
}

impl Approver {
    /// For a script in the model's place, which asks about nothing.
    pub(super) fn for_script(agent: &DeepAgent) -> Self {
        Self::Policy(Box::new(Policy {
            mode: Approve::Auto,
            said: "--approve auto",
            reviewer: Reviewer::Nobody,
            rules: Rules::default(),
            agent: agent.clone(),
            resumes: false,
        }))
    }

    /// Whether somebody is asked.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Policy(policy) if policy.mode == Approve::Ask && !matches!(policy.reviewer, Reviewer::Nobody))
    }

    /// Adds decisions about calls as they are made, in the order it likes; less than all only when nobody is left to
    /// decide.
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

    /// Leaves a question where it is.
    pub(super) fn leave(&self) {
        if let Self::Policy(policy) = self
            && matches!(policy.reviewer, Reviewer::Person(_))
        {
            // What is asked stands in an open line.
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

    /// What a remembered rule or the mode says about a call.
    fn known(&self, question: &ActionRequest) -> io::Result<Option<DecisionRecord>> {
        if self.mode == Approve::Deny {
            let why = format!("nothing may be changed or run here ({})", self.said);
            return Ok(Some(refused(&why, rule(self.said))));
        }
        if let Some(rule) = self.rules.find(question)? {
            let author = DecisionAuthor::RememberedRule { text: rule.to_string() };
            return Ok(Some(DecisionRecord::new(Decision::Approve, author)));
        }
        Ok(match self.mode {
            Approve::AllowList => {
                let why = format!("only what was always allowed is done here ({}), and this was not", self.said);
                Some(refused(&why, rule(self.said)))
            }
            // What a call, a rule or a sub-agent wants asked about is asked about in every mode.
            Approve::Auto if self.resumes && question.is_gate() && is_of_mode(question) => {
                Some(DecisionRecord::new(Decision::Approve, rule("--approve auto")))
            }
            Approve::Auto | Approve::Ask | Approve::Deny => None,
        })
    }

    async fn ask_person(&mut self, question: &ActionRequest) -> io::Result<Option<DecisionRecord>> {
        // An answer before may cover this call too.
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

/// What nobody was asked about is not done.
fn refused(text: &str, author: DecisionAuthor) -> DecisionRecord {
    DecisionRecord::new(Decision::Reject { message: Some(text.to_owned()) }, author)
}

/// Whether a call waits because of the mode alone, as all do of threads from before rules were named.
fn is_of_mode(question: &ActionRequest) -> bool {
    question.rule.as_deref().is_none_or(|rule| rule == MODE_ASKS)
}

/// A mode as who decides.
fn rule(mode: &str) -> DecisionAuthor {
    DecisionAuthor::Rule { text: mode.to_owned() }
}
