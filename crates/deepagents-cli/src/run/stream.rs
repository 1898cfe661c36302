//! Turns that a program asks for with lines of JSON, one thread for all of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::core::env::Timestamp;
use deepagents::core::journal::Journal;
use deepagents::{ActionRequest, Decision, DeepAgent, EventKind, FinishReason, Run, RunInput};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::Limits;
use super::interrupt::Signals;
use super::stdin::Lines;
use crate::args::Approve;
use crate::exit::Exit;
use crate::output;
use crate::render::Renderer;
use crate::render::style::first_line;

/// Characters of the first message that a thread is called by.
const TITLE: usize = 80;

/// What a line says.
#[derive(Debug, PartialEq)]
enum Said {
    /// Begins a turn, or steers the one under way.
    User(String),
    /// Decides about a call.
    Answer(String, Value),
    /// Ends the turn.
    Interrupt,
}

/// What the turns are made with.
pub(super) struct Stream<'a> {
    pub(super) agent: &'a DeepAgent,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) thread: String,
    /// The first input takes the thread over from a process that is gone.
    pub(super) take_over: bool,
    pub(super) limits: &'a Limits,
    pub(super) approve: Approve,
}

/// What is known between lines.
struct Talk {
    lines: Lines,
    /// Whether the input has ended.
    ended: bool,
    /// Messages for turns that have not begun.
    next: VecDeque<String>,
    asked: Vec<ActionRequest>,
    answers: Vec<(String, Decision)>,
    interrupted: bool,
}

impl Stream<'_> {
    /// Takes lines until they end, and finishes the turn that is under way then.
    pub(super) async fn serve(&self, mut signals: Signals, renderer: &mut dyn Renderer) -> io::Result<Exit> {
        let mut talk = Talk {
            lines: Lines::read(),
            ended: false,
            next: VecDeque::new(),
            asked: Vec::new(),
            answers: Vec::new(),
            interrupted: false,
        };
        let (mut first, mut elapsed) = (true, Duration::ZERO);
        loop {
            let Some(text) = talk.next.pop_front() else {
                if talk.ended {
                    return Ok(Exit::Done);
                }
                tokio::select! {
                    _ = signals.recv() => return Ok(Exit::Interrupted),
                    line = talk.lines.next() => talk.idle(line?),
                }
                continue;
            };
            let mut input = RunInput::new(text.as_str()).thread(&self.thread);
            if std::mem::take(&mut first) {
                self.name(&text).await;
                if self.take_over {
                    input = input.take_over();
                }
            }
            let began = Instant::now();
            let exit = self.turn(input, elapsed, &mut talk, &mut signals, renderer).await?;
            elapsed += began.elapsed();
            if let Some(exit) = exit {
                return Ok(exit);
            }
        }
    }

    /// Calls the thread by its first message.
    async fn name(&self, text: &str) {
        let titled = self.journal.threads().get(&self.thread).await;
        let has_title = |info: &deepagents::core::journal::ThreadInfo| {
            info.metadata.get("title").and_then(Value::as_str).is_some_and(|title| !title.is_empty())
        };
        if !titled.ok().flatten().is_some_and(|info| has_title(&info)) {
            let title = Map::from_iter([("title".to_owned(), json!(first_line(text, TITLE)))]);
            // A thread without a name can be gone on with all the same.
            let _ = self.journal.threads().set_metadata(&self.thread, title).await;
        }
    }

    /// One turn with the questions that it asks; an exit where nothing can follow it.
    async fn turn(
        &self,
        input: RunInput,
        elapsed: Duration,
        talk: &mut Talk,
        signals: &mut Signals,
        renderer: &mut dyn Renderer,
    ) -> io::Result<Option<Exit>> {
        (talk.asked, talk.answers, talk.interrupted) = (Vec::new(), Vec::new(), false);
        let mut input = input;
        let mut stopped = false;
        loop {
            let mut run = self.agent.run(self.limits.apply(input, elapsed));
            loop {
                let shown = tokio::select! {
                    biased;
                    _ = signals.recv() => {
                        stopped = true;
                        run.cancel();
                        Ok(())
                    }
                    event = run.next() => match event {
                        Some(event) => {
                            if let EventKind::ActionRequested { question } = &event.kind {
                                talk.asked.push((**question).clone());
                            }
                            renderer.event(&event)
                        }
                        None => break,
                    },
                    line = talk.lines.next(), if !talk.ended => {
                        line.map(|line| talk.during(line, &run))
                    }
                };
                if let Err(error) = shown {
                    run.cancel();
                    let _ = run.outcome().await;
                    return Err(error);
                }
            }
            let Ok(outcome) = run.outcome().await else { break };
            if stopped || talk.interrupted || outcome.stop != FinishReason::Interrupted {
                break;
            }
            let questions = outcome.action_requests();
            if !self.decide(talk, &questions, signals).await? {
                return Ok(talk.left(questions.len(), &self.thread));
            }
            if talk.interrupted {
                break;
            }
            let answers = std::mem::take(&mut talk.answers);
            talk.asked.clear();
            input = answers
                .into_iter()
                .fold(RunInput::resume(&self.thread), |input, (id, decision)| input.decide(id, decision));
        }
        Ok(stopped.then_some(Exit::Interrupted))
    }

    /// Waits until all questions are decided or the turn is given up; false where nobody is left to decide.
    async fn decide(&self, talk: &mut Talk, questions: &[ActionRequest], signals: &mut Signals) -> io::Result<bool> {
        if self.approve != Approve::Ask {
            let reject =
                || Decision::Reject { message: Some("nothing may be changed or run here (--approve deny)".to_owned()) };
            let decision = || if self.approve == Approve::Auto { Decision::Approve } else { reject() };
            talk.answers = questions.iter().map(|question| (question.id.clone(), decision())).collect();
            return Ok(true);
        }
        talk.asked = questions.to_vec();
        while !questions.iter().all(|question| talk.answers.iter().any(|(id, _)| *id == question.id)) {
            if talk.ended {
                return Ok(false);
            }
            tokio::select! {
                _ = signals.recv() => return Ok(false),
                line = talk.lines.next() => talk.waiting(line?),
            }
            if talk.interrupted {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

impl Talk {
    /// A line while nothing is under way.
    fn idle(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(Said::User(text)) => self.next.push_back(text),
            Some(Said::Answer(id, _)) => output::print_error(&format!("no question `{id}` is open; none is")),
            Some(Said::Interrupt) => output::remark("there is nothing to interrupt"),
            None => {}
        }
    }

    /// A line while a run is under way.
    fn during(&mut self, line: Option<String>, run: &Run) {
        match self.read(line) {
            Some(Said::User(text)) => {
                let taken = run.steer(text.as_str());
                self.next.extend((!taken).then_some(text));
            }
            Some(Said::Answer(id, decision)) => self.answer(&id, decision),
            Some(Said::Interrupt) => {
                self.interrupted = true;
                run.cancel();
            }
            None => {}
        }
    }

    /// A line while questions are open.
    fn waiting(&mut self, line: Option<String>) {
        match self.read(line) {
            Some(Said::User(text)) => self.next.push_back(text),
            Some(Said::Answer(id, decision)) => self.answer(&id, decision),
            Some(Said::Interrupt) => self.interrupted = true,
            None => {}
        }
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
        question.check(&decision, Timestamp::now()).map_err(|error| error.to_string())?;
        self.answers.push((id.to_owned(), decision));
        Ok(())
    }

    /// Nobody is left to decide.
    fn left(&self, questions: usize, thread: &str) -> Option<Exit> {
        let open = questions.saturating_sub(self.answers.len());
        let calls = crate::render::style::count(open as u64, "call");
        output::print_error(&format!(
            "the input ended before {calls} had been decided on; go on with `deepagents run --resume {thread} --approve ask`"
        ));
        Some(Exit::Failed)
    }
}

/// Reads a line.
fn said(line: &str) -> Result<Said, String> {
    let wrong = |why: &str| {
        format!(
            "a line on stdin is none of {{\"type\":\"user\",\"text\":…}}, {{\"answer\":ID,\"decision\":{{…}}}} and \
             {{\"type\":\"interrupt\"}}: {why}"
        )
    };
    let value: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
    if let Some(id) = value.get("answer") {
        let id = id.as_str().ok_or_else(|| wrong("`answer` is no text"))?;
        let decision = value.get("decision").ok_or_else(|| wrong("there is no `decision`"))?;
        return Ok(Said::Answer(id.to_owned(), decision.clone()));
    }
    match value.get("type").and_then(Value::as_str) {
        Some("user") => match value.get("text").and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => Ok(Said::User(text.to_owned())),
            Some(_) => Err(wrong("`text` is empty")),
            None => Err(wrong("there is no `text`")),
        },
        Some("interrupt") => Ok(Said::Interrupt),
        Some(other) => Err(wrong(&format!("there is no type `{other}`"))),
        None => Err(wrong("there is no `type`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_an_answer_an_interrupt_or_an_error() {
        assert_eq!(said(r#"{"type":"user","text":"Hi"}"#), Ok(Said::User("Hi".to_owned())));
        assert_eq!(said(r#"{"type":"interrupt"}"#), Ok(Said::Interrupt));
        let answer = said(r#"{"answer":"0.0","decision":{"type":"approve"}}"#);
        assert_eq!(answer, Ok(Said::Answer("0.0".to_owned(), json!({"type": "approve"}))));
        for wrong in ["no JSON", "{}", r#"{"type":"user"}"#, r#"{"type":"user","text":" "}"#, r#"{"answer":1}"#, "[]"] {
            assert!(said(wrong).is_err(), "{wrong}");
        }
    }
}
