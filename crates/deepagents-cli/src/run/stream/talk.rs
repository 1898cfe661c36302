//! The state of a conversation between two input lines.

use std::collections::VecDeque;

use deepagents::{ActionRequest, DeepAgent, Run, RunInput, State, left_decisions};
use serde_json::{Value, json};

use super::super::answers;
use super::super::approvals::Decisions;
use super::super::stdin::Lines;
use super::line::{InputLine, parse_line};
use crate::exit::Exit;
use crate::output;
use crate::render::JsonLines;
use crate::render::style::{count, first_line};
use crate::slash::{self, Commands, Typed};

/// Maximum number of characters shown of a message whose turn was not started.
const MAX_MESSAGE_CHARS: usize = 200;

/// The state between two lines.
pub(super) struct Talk<'a> {
    pub(super) lines: Lines,
    agent: &'a DeepAgent,
    typing: &'a (Commands, Vec<String>),
    /// Whether the input has ended.
    pub(super) ended: bool,
    /// The number of lines that could be used, and whether one could not.
    used_lines: usize,
    refused: bool,
    /// Messages for turns that have not started.
    pub(super) next: VecDeque<Typed>,
    /// Messages sent to the current turn that its model has not received.
    steered: VecDeque<String>,
    /// How many further ones are saved in the thread, which delivers them when resumed.
    kept: usize,
    pub(super) asked: Vec<ActionRequest>,
    pub(super) answers: Decisions,
    pub(super) interrupted: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn new(lines: Lines, agent: &'a DeepAgent, typing: &'a (Commands, Vec<String>)) -> Self {
        Self {
            lines,
            agent,
            typing,
            ended: false,
            used_lines: 0,
            refused: false,
            next: VecDeque::new(),
            steered: VecDeque::new(),
            kept: 0,
            asked: Vec::new(),
            answers: Vec::new(),
            interrupted: false,
        }
    }

    /// Handles a line while nothing is running.
    pub(super) fn idle(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(InputLine::User(text)) => self.later(&text),
            Some(InputLine::Answer(id, _)) => self.refuse(&format!("no question `{id}` is open; none is")),
            Some(InputLine::Interrupt) => output::remark("there is nothing to interrupt"),
            None => {}
        }
    }

    /// Handles a line during a run.
    pub(super) fn during(&mut self, line: Option<String>, run: &Run) {
        match self.read(line) {
            // An interrupted turn accepts no messages.
            Some(InputLine::User(text)) if self.interrupted => self.later(&text),
            Some(InputLine::User(text)) => match self.interpret(&text) {
                // A turn in progress cannot be given a skill.
                Some(typed) if typed.skill.is_none() && run.steer(typed.text.as_str()) => {
                    self.steered.push_back(typed.text);
                }
                typed => self.next.extend(typed),
            },
            Some(InputLine::Answer(id, decision)) => self.answer(&id, decision),
            Some(InputLine::Interrupt) => {
                self.interrupted = true;
                run.interrupt();
            }
            None => {}
        }
    }

    /// Records that the model received a message, whose text may have been changed on the way.
    pub(super) fn mark_delivered(&mut self, text: &str) {
        if let Some(at) = self.steered.iter().position(|steered| steered == text) {
            self.steered.remove(at);
        } else if self.kept > 0 {
            self.kept -= 1;
        } else {
            self.steered.pop_front();
        }
    }

    /// The turn waits for decisions: messages sent to it are saved in the thread.
    pub(super) fn keep(&mut self) {
        self.kept += self.steered.len();
        self.steered.clear();
    }

    /// The turn is over: messages sent to it that its model has not received come before all later ones.
    pub(super) fn take_back(&mut self) {
        let told = self.steered.drain(..).rev();
        told.for_each(|text| self.next.push_front(Typed::plain(text)));
    }

    /// Handles a line while questions are open.
    pub(super) fn waiting(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(InputLine::User(text)) => self.later(&text),
            Some(InputLine::Answer(id, decision)) => self.answer(&id, decision),
            Some(InputLine::Interrupt) => self.interrupted = true,
            None => {}
        }
    }

    /// Queues a message for a turn of its own.
    fn later(&mut self, text: &str) {
        let typed = self.interpret(text);
        self.next.extend(typed);
    }

    /// Interprets a message. One that names an unknown skill is rejected with an error, like an invalid line.
    fn interpret(&mut self, text: &str) -> Option<Typed> {
        let (commands, skills) = self.typing;
        let typed = commands.read(text).and_then(|typed| {
            slash::check_skill(typed.skill.as_ref(), skills)?;
            Ok(typed)
        });
        typed.map_err(|problem| self.refuse_parsed(&problem.to_string())).ok()
    }

    fn read(&mut self, line: Option<String>) -> Option<InputLine> {
        let Some(line) = line else {
            self.ended = true;
            return None;
        };
        if line.trim().is_empty() {
            return None;
        }
        match parse_line(&line) {
            Ok(line) => {
                self.used_lines += 1;
                Some(line)
            }
            Err(problem) => {
                self.refuse(&problem);
                None
            }
        }
    }

    /// Reports that a line cannot be used, to the program that wrote it and to the user.
    fn refuse(&mut self, reason: &str) {
        self.refused = true;
        output::print_error(reason);
        // If nobody reads the events, the next one says so.
        let _ = JsonLines.line(&json!({"type": "input_refused", "reason": reason}));
    }

    /// Like [`refuse`](Self::refuse), for a line that has the form of one that can be used.
    fn refuse_parsed(&mut self, reason: &str) {
        self.used_lines = self.used_lines.saturating_sub(1);
        self.refuse(reason);
    }

    /// Returns how the program ends if the input ends between two turns.
    pub(super) fn exit(&self) -> Exit {
        if self.refused && self.used_lines == 0 { Exit::WrongUsage } else { Exit::Done }
    }

    fn answer(&mut self, id: &str, decision: Value) {
        match answers::checked(id, decision, &self.asked, &self.answers, self.agent) {
            Ok(decision) => self.answers.push((id.to_owned(), decision.into())),
            Err(problem) => self.refuse_parsed(&problem),
        }
    }

    /// Resumes the turn with the decisions.
    pub(super) fn resume_turn(&mut self, resume: RunInput) -> RunInput {
        self.asked.clear();
        self.answers.drain(..).fold(resume, |input, (id, decision)| input.decide(id, decision))
    }

    /// Abandons the turn: the decisions are passed on as messages, as far as they need no call.
    pub(super) fn give_up(&mut self, resume: RunInput, state: &State) -> RunInput {
        let asked = std::mem::take(&mut self.asked);
        let decided = self.answers.drain(..).filter_map(|(id, record)| {
            let question = asked.iter().find(|question| question.id == id)?;
            Some((question.clone(), record.decision))
        });
        left_decisions(state, decided).into_iter().fold(resume, RunInput::message)
    }

    /// Whether there are decisions or messages that the thread has not been given.
    pub(super) fn has_undelivered(&self) -> bool {
        !self.answers.is_empty() || self.next.iter().any(|typed| typed.skill.is_none())
    }

    /// Gives the thread the decisions and the messages for later turns, for whoever resumes it. Messages that use a
    /// skill are left out, as a turn in progress cannot be given one.
    pub(super) fn add_undelivered(&mut self, resume: RunInput) -> RunInput {
        let (plain, skilled): (VecDeque<Typed>, VecDeque<Typed>) =
            self.next.drain(..).partition(|typed| typed.skill.is_none());
        self.next = skilled;
        self.kept += plain.len();
        plain.into_iter().fold(self.resume_turn(resume), |input, typed| input.message(typed.text))
    }

    /// Reports messages whose turns were not started, if there are any.
    pub(super) fn report_unsent(&self) {
        if !self.next.is_empty() {
            let said: Vec<String> =
                self.next.iter().map(|typed| json!(first_line(&typed.text, MAX_MESSAGE_CHARS)).to_string()).collect();
            let turns = count(said.len() as u64, "turn");
            output::print_error(&format!("{turns} after it not started: {}", said.join(", ")));
        }
    }

    /// Nobody is left to decide: reports what stays open, and how to resume it.
    pub(super) fn leave(&self, questions: usize, command: &str) {
        let calls = count(questions as u64, "call");
        let kept = match self.kept {
            0 => String::new(),
            kept => format!("; {} saved with the thread until then", count(kept as u64, "message")),
        };
        output::print_error(&format!("the input ended with {calls} awaiting a decision{kept}; go on with `{command}`"));
    }
}
