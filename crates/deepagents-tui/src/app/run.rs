//! Events of the run, and its end.

use deepagents::channels::Todos;
use deepagents::core::run::interrupted_words;
use deepagents::core::state::Channel;
use deepagents::{DecisionKind, Event as RunEvent, EventKind, FinishReason};
use serde::Deserialize;

use super::effect::Effect;
use super::event::{PendingApproval, RunEnd};
use super::messages::{Plan, QueuedMessage, Recipient};
use super::pending::{Questions, by_rule};
use super::transcript::Item;
use super::{App, Work};
use crate::policy::Mode;
use crate::text::shorten;

impl App {
    pub(super) fn run_event(&mut self, event: &RunEvent) {
        let added = self.live.event(event, self.now.0);
        self.repaint |= added.discarded;
        self.items.extend(added.items);
        match &event.kind {
            EventKind::RunStarted { thread: Some(thread) } if event.path.is_empty() => {
                self.session.thread = Some(thread.clone());
            }
            EventKind::ModelFinished { usage, .. } => {
                self.session.usage += *usage;
                if event.path.is_empty() {
                    self.session.context = usage.total();
                }
            }
            EventKind::Steered { text } if event.path.is_empty() => {
                self.delivered(text);
                self.items.push(Item::User(text.clone()));
            }
            EventKind::StateChanged { channel, update } if channel == "todos" && event.path.is_empty() => {
                let mut now = self.todos.clone();
                let update = <Todos as Channel>::Update::deserialize(update);
                if update.is_ok_and(|update| Todos::reduce(&mut now, update).is_ok()) && now != self.todos {
                    self.todos = now;
                }
            }
            EventKind::Middleware(event) => self.middleware_event(event),
            _ => {}
        }
    }

    fn middleware_event(&mut self, event: &deepagents::MiddlewareEvent) {
        use deepagents::MiddlewareEvent as Event;
        use deepagents::middleware::rubric;

        match event {
            Event::ConversationCompacted { evicted, tokens_before, .. } => self.note(
                format!("the context was full ({tokens_before} tokens): {evicted} messages were summarised"),
                false,
            ),
            Event::CompactionFailed { error } => {
                self.note(format!("the conversation was not compacted: {error}"), true)
            }
            Event::McpServer { problem: Some(problem), .. } => self.note(problem.clone(), true),
            Event::Hook { message, error, .. } => self.note(message.clone(), error.is_some()),
            Event::RubricEvaluated { .. } | Event::RubricEvaluationFailed { .. } => {
                let failed = matches!(event, Event::RubricEvaluationFailed { .. });
                rubric::notice(event).into_iter().for_each(|notice| self.note(notice, failed));
            }
            _ => {}
        }
    }

    /// Handles a call that needs a decision.
    pub(super) fn asked(&mut self, question: PendingApproval) {
        if self.stopping {
            // It asked before it could be stopped: neither a rule nor the user decides any more. The run's end brings
            // the question again.
            return;
        }
        let remembered = self.session.connected.iter().flat_map(|connected| &connected.remembered);
        let is_about_call = question.request.is_gate() && question.request.allowed.contains(&DecisionKind::Approve);
        let rule = remembered.into_iter().find(|rule| is_about_call && rule.covers(&question.request)).cloned();
        if let Some(rule) = rule {
            if !self.questions.knows(&question.request.id) {
                self.note(format!("allowed by the rule of this directory: {rule}"), false);
                self.questions.record(question, by_rule(&rule));
            }
            return self.answer_if_decided();
        }
        // The user may still be typing the text in the input.
        let typing = self.typed.filter(|_| !self.editor.is_empty());
        let text = format!("{} waits for your decision", question.request.tool);
        if self.questions.ask(question, typing) {
            self.menu = None;
            self.request(Effect::Notify(text));
        }
    }

    pub(super) fn run_ended(&mut self, end: RunEnd) {
        if self.live.lagged && !end.text.is_empty() {
            self.live.answer = interrupted_words(&end.text).unwrap_or(&end.text).to_owned();
        }
        if matches!(end.stop, Ok(FinishReason::Interrupted)) {
            self.wait_for_resumed_run(end.early);
            if !self.stopping {
                return self.run_waits(end.questions);
            }
            if !end.questions.is_empty() {
                // Its questions are left as if they had been shown.
                for question in end.questions {
                    self.questions.ask(question, None);
                }
                self.waits = true;
                return self.stop();
            }
        }
        self.items.extend(self.live.finish());
        let did_nothing = self.resumed_at.take() == Some(self.items.len());
        let long = self.elapsed_since(self.since.0).as_secs() >= 10;
        self.idle();
        self.questions = Questions::default();
        if let Some(text) = end.unsent {
            self.not_sent(text);
        }
        match &end.stop {
            Ok(FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended) => {
                if did_nothing {
                    self.note("there is nothing to resume: the last run has ended", false);
                }
                // A run that no hook has ended has delivered everything stored with the thread; what is left was never
                // taken.
                let all = !matches!(end.stop, Ok(FinishReason::Ended));
                let left = self.waiting.iter_mut().filter(|waiting| all || waiting.to != Recipient::Thread);
                left.for_each(|waiting| waiting.to = Recipient::NextRun);
                self.next_waiting();
                if self.mode == Mode::Plan && !self.is_busy() && self.lays_out_plan() {
                    self.plan = Some(Plan::default());
                }
            }
            Ok(FinishReason::Cancelled | FinishReason::Interrupted) => {
                self.note("interrupted; say what to do instead", false);
                self.give_back();
            }
            Ok(stop) => {
                self.note(format!("stopped: {}", stop.reason()), true);
                self.give_back();
            }
            Err(problem) => {
                self.note(problem.clone(), true);
                self.give_back();
            }
        }
        if long && !self.is_busy() {
            self.effects.extend([Effect::Notify("done".to_owned()), Effect::Idle]);
        }
    }

    /// Lets the messages sent to a run wait for the one that resumes it: the `early` ones here, the others are stored
    /// with the thread.
    fn wait_for_resumed_run(&mut self, mut early: Vec<String>) {
        // The early ones were sent last.
        for waiting in self.waiting.iter_mut().rev().filter(|waiting| waiting.to == Recipient::Run) {
            let at = early.iter().rposition(|text| *text == waiting.text);
            waiting.to = at.map_or(Recipient::Thread, |at| {
                early.remove(at);
                Recipient::ResumedRun
            });
        }
    }

    /// Takes back a message whose run did not start: it can be sent again, and is not part of the thread.
    fn not_sent(&mut self, text: String) {
        let shown = self.items.iter_mut().rfind(|item| matches!(item, Item::User(shown) if *shown == text));
        if let Some(item) = shown {
            *item = Item::Note { text: format!("not sent: {}", shorten(&text, 200)), bad: false };
        }
        self.waiting.insert(0, QueuedMessage::after_current_work(text));
        let (context, decided) = std::mem::take(&mut self.submitted);
        self.context.splice(0..0, context);
        self.left.splice(0..0, decided);
    }

    /// Handles the end of a run that waits for decisions.
    fn run_waits(&mut self, questions: Vec<PendingApproval>) {
        self.items.extend(self.live.finish_answer());
        self.items.extend(self.live.take_held_calls());
        self.live.activity.clear();
        for question in questions {
            self.asked(question);
        }
        self.work = Work::Run;
        self.waits = true;
        self.use_next_model();
        self.answer_if_decided();
    }

    /// Returns whether the turn made or revised a plan: it used tools or lists several steps. Enter on an empty input
    /// must not carry out a mere answer.
    pub(super) fn lays_out_plan(&self) -> bool {
        let turn = self.items.iter().rev().take_while(|item| !matches!(item, Item::User(_)));
        let names_steps = |text: &str| text.lines().filter(|line| is_step(line)).count() > 1;
        self.revises_plan
            || turn.into_iter().any(|item| match item {
                Item::Call(_) | Item::Agent(_) => true,
                Item::Answer(text) => names_steps(text),
                _ => false,
            })
    }

    /// Resumes the run once it waits and all questions are decided.
    pub(super) fn answer_if_decided(&mut self) {
        if self.waits
            && let Some(answers) = self.questions.answers()
        {
            (self.waits, self.is_resumed) = (false, true);
            self.request(Effect::Resume { answers, by_force: false });
            self.steer_resumed();
        }
    }

    /// Stops what was started last: a shell command beside the run, then the run. At a question, leaves the question.
    pub(super) fn interrupt(&mut self) {
        if self.background_shell.is_some() && self.questions.is_empty() {
            self.request(Effect::StopBackgroundShell);
        } else {
            self.stop();
        }
    }

    /// Stops the current work.
    pub(super) fn stop(&mut self) {
        match &self.work {
            Work::Run if self.waits => {
                // Nothing runs: the questions remain open on the thread.
                self.items.extend(self.live.finish());
                let (open, decided) = self.questions.take_open();
                self.idle();
                let open: Vec<String> = open.iter().map(|tool| shorten(tool, 40)).collect();
                let was = if open.len() > 1 { "were" } else { "was" };
                let open = if open.is_empty() { "a call".to_owned() } else { open.join(", ") };
                let told = if decided.is_empty() { "" } else { "; your other decisions are sent with it" };
                self.left = decided;
                self.note(
                    format!("interrupted: {open} {was} left undecided and not run; say what to do instead{told}"),
                    false,
                );
                self.give_back();
            }
            Work::Run => {
                (self.stopping, self.live.interrupted) = (true, true);
                self.request(Effect::Cancel);
            }
            Work::Shell(_) => self.request(Effect::Cancel),
            Work::Other(_) => {
                self.stopping = true;
                self.request(Effect::Cancel);
            }
            Work::Nothing => {}
        }
    }
}

/// Returns whether a line of Markdown is a list item.
fn is_step(line: &str) -> bool {
    let line = line.trim_start();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = numbered.len() < line.len() && numbered.starts_with([')', '.']);
    is_numbered || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}
