//! What is known between the lines of a talk.

use std::collections::VecDeque;

use deepagents::{ActionRequest, Decision, DecisionRecord, DeepAgent, Run, RunInput, State, left_decisions};
use serde_json::{Value, json};

use super::super::stdin::Lines;
use super::line::{Said, said};
use crate::output;
use crate::render::style::{count, first_line};
use crate::slash::{self, Commands, Typed};

/// Characters of a message that is not begun that are shown.
const UNSAID: usize = 200;

/// What is known between lines.
pub(super) struct Talk<'a> {
    pub(super) lines: Lines,
    agent: &'a DeepAgent,
    typing: &'a (Commands, Vec<String>),
    /// Whether the input has ended.
    pub(super) ended: bool,
    /// Messages for turns that have not begun.
    pub(super) next: VecDeque<Typed>,
    /// Messages that were given to the turn under way, and that its model has not been told.
    steered: VecDeque<String>,
    /// How many of those are kept with the thread, which tells them when it is gone on with.
    kept: usize,
    pub(super) asked: Vec<ActionRequest>,
    pub(super) answers: Vec<(String, DecisionRecord)>,
    pub(super) interrupted: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn new(lines: Lines, agent: &'a DeepAgent, typing: &'a (Commands, Vec<String>)) -> Self {
        Self {
            lines,
            agent,
            typing,
            ended: false,
            next: VecDeque::new(),
            steered: VecDeque::new(),
            kept: 0,
            asked: Vec::new(),
            answers: Vec::new(),
            interrupted: false,
        }
    }

    /// A line while nothing is under way.
    pub(super) fn idle(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(Said::User(text)) => self.later(&text),
            Some(Said::Answer(id, _)) => output::print_error(&format!("no question `{id}` is open; none is")),
            Some(Said::Interrupt) => output::remark("there is nothing to interrupt"),
            None => {}
        }
    }

    /// A line while a run is under way.
    pub(super) fn during(&mut self, line: Option<String>, run: &Run) {
        match self.read(line) {
            // A turn that is given up takes nothing in.
            Some(Said::User(text)) if self.interrupted => self.later(&text),
            Some(Said::User(text)) => match self.meant(&text) {
                // A turn under way is shown no skill.
                Some(typed) if typed.skill.is_none() && run.steer(typed.text.as_str()) => {
                    self.steered.push_back(typed.text);
                }
                typed => self.next.extend(typed),
            },
            Some(Said::Answer(id, decision)) => self.answer(&id, decision),
            Some(Said::Interrupt) => {
                self.interrupted = true;
                run.interrupt();
            }
            None => {}
        }
    }

    /// The model is told a message; its text may have been changed on the way.
    pub(super) fn told(&mut self, text: &str) {
        if let Some(at) = self.steered.iter().position(|steered| steered == text) {
            self.steered.remove(at);
        } else if self.kept > 0 {
            self.kept -= 1;
        } else {
            self.steered.pop_front();
        }
    }

    /// A turn waits for decisions: what was said to it is kept with the thread.
    pub(super) fn keep(&mut self) {
        self.kept += self.steered.len();
        self.steered.clear();
    }

    /// A turn is over: what was said to it, and what its model was not told, comes before all that follows.
    pub(super) fn take_back(&mut self) {
        let told = self.steered.drain(..).rev();
        told.for_each(|text| self.next.push_front(Typed::plain(text)));
    }

    /// A line while questions are open.
    pub(super) fn waiting(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(Said::User(text)) => self.later(&text),
            Some(Said::Answer(id, decision)) => self.answer(&id, decision),
            Some(Said::Interrupt) => self.interrupted = true,
            None => {}
        }
    }

    /// Keeps a message for a turn of its own.
    fn later(&mut self, text: &str) {
        let typed = self.meant(text);
        self.next.extend(typed);
    }

    /// What a message means. One that names what is not there is none, as a line that cannot be read.
    fn meant(&self, text: &str) -> Option<Typed> {
        let (commands, skills) = self.typing;
        let typed = commands.read(text).and_then(|typed| {
            slash::check_skill(typed.skill.as_ref(), skills)?;
            Ok(typed)
        });
        typed.map_err(|problem| output::print_error(&problem.to_string())).ok()
    }

    fn read(&mut self, line: Option<String>) -> Option<Said> {
        let Some(line) = line else {
            self.ended = true;
            return None;
        };
        if line.trim().is_empty() {
            return None;
        }
        // Stdout is for events alone.
        said(&line).map_err(|problem| output::print_error(&problem)).ok()
    }

    fn answer(&mut self, id: &str, decision: Value) {
        if let Err(problem) = self.try_answer(id, decision) {
            output::print_error(&problem);
        }
    }

    fn try_answer(&mut self, id: &str, decision: Value) -> Result<(), String> {
        let Some(question) = self.asked.iter().find(|question| question.id == id) else {
            let open: Vec<&str> = self.asked.iter().map(|question| question.id.as_str()).collect();
            let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
            return Err(format!("no question `{id}` is open; open: {open}"));
        };
        if self.answers.iter().any(|(other, _)| *other == id) {
            return Err(format!("question `{id}` has been answered before"));
        }
        let decision =
            Decision::from_json(decision, &question.tool).map_err(|error| format!("question `{id}`: {error}"))?;
        self.agent.check_decision(question, &decision).map_err(|error| error.to_string())?;
        self.answers.push((id.to_owned(), decision.into()));
        Ok(())
    }

    /// The turn goes on with what was decided.
    pub(super) fn go_on(&mut self, resume: RunInput) -> RunInput {
        self.asked.clear();
        self.answers.drain(..).fold(resume, |input, (id, decision)| input.decide(id, decision))
    }

    /// The turn is given up: what was decided is told, as far as it can be without making a call.
    pub(super) fn give_up(&mut self, resume: RunInput, state: &State) -> RunInput {
        let asked = std::mem::take(&mut self.asked);
        let decided = self.answers.drain(..).filter_map(|(id, record)| {
            let question = asked.iter().find(|question| question.id == id)?;
            Some((question.clone(), record.decision))
        });
        left_decisions(state, decided).into_iter().fold(resume, RunInput::message)
    }

    /// Whether something was decided or said that the thread has not been given.
    pub(super) fn has_left(&self) -> bool {
        !self.answers.is_empty() || self.next.iter().any(|typed| typed.skill.is_none())
    }

    /// The thread is given what was decided, and what was said for the turn after this one: whoever goes on with it finds that.
    /// What is to be done with a skill is not: a turn under way is shown none.
    pub(super) fn leave_to(&mut self, resume: RunInput) -> RunInput {
        let (plain, skilled): (VecDeque<Typed>, VecDeque<Typed>) =
            self.next.drain(..).partition(|typed| typed.skill.is_none());
        self.next = skilled;
        self.kept += plain.len();
        plain.into_iter().fold(self.go_on(resume), |input, typed| input.message(typed.text))
    }

    /// Says what turns are not begun, if there are some.
    pub(super) fn unsaid(&self) {
        if !self.next.is_empty() {
            let said: Vec<String> =
                self.next.iter().map(|typed| json!(first_line(&typed.text, UNSAID)).to_string()).collect();
            let turns = count(said.len() as u64, "turn");
            output::print_error(&format!("{turns} after it not begun: {}", said.join(", ")));
        }
    }

    /// Nobody is left to decide: says what stays open, and how to go on with it.
    pub(super) fn leave(&self, questions: usize, command: &str) {
        let calls = count(questions as u64, "call");
        let kept = match self.kept {
            0 => String::new(),
            kept => format!("; {} kept with the thread until then", count(kept as u64, "message")),
        };
        output::print_error(&format!(
            "the input ended before {calls} had been decided on{kept}; go on with `{command}`"
        ));
    }
}
