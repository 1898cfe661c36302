//! Converts the events of a run to session updates.

mod notices;
mod output;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::channels::{Todo, Todos};
use deepagents::core::tool::CallId;
use deepagents::{ActionRequest, Block, Channel, Event, EventKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::{self, Described, content, images, written};
use super::spending::{Spending, usage_update};
use crate::editor::{BEFORE, Editor, TERMINAL};
use crate::wire;

/// Minimum interval between two updates of a call's growing output.
const UPDATE_INTERVAL: Duration = Duration::from_millis(150);
/// Maximum length of the growing output shown, in characters. Its end is shown.
const MAX_GROWING_CHARS: usize = 8_000;

/// Shows the runs of one prompt. Calls are identified by run and call ID, because providers may reuse their own IDs.
pub(crate) struct Presenter<'a> {
    editor: &'a Editor,
    root: &'a Path,
    window: Option<u64>,
    spending: Spending,
    /// The model that each agent called last, by the agent's path.
    models: HashMap<Arc<[String]>, String>,
    todos: Vec<Todo>,
    compactions: u32,
    /// Whether pieces of the present answer were missed, because the editor reads slowly.
    is_behind: bool,
    /// The turn and attempt of the latest text that came while pieces were missed.
    missed: Option<(u32, u32)>,
    /// The turn and attempt of the text shown last, and its length in bytes.
    said: ((u32, u32), usize),
    calls: HashMap<String, Shown>,
}

/// A call known to the editor.
#[derive(Default)]
struct Shown {
    finished: bool,
    /// Content that stays when the call ends: diffs or a terminal.
    lasting: Vec<wire::ToolCallContent>,
    /// Output of the tool or text of a subagent so far.
    growing: String,
    shown_at: Option<Instant>,
    tool: String,
    args: Value,
}

/// Payload of the events of [`EditorCalls`](crate::editor::EditorCalls).
#[derive(Deserialize)]
struct Note {
    call: CallId,
    #[serde(default)]
    old: Option<String>,
    #[serde(default)]
    terminal: Option<String>,
}

impl<'a> Presenter<'a> {
    pub(crate) fn new(
        editor: &'a Editor,
        root: &'a Path,
        window: Option<u64>,
        spending: Spending,
        todos: Vec<Todo>,
    ) -> Self {
        Self {
            editor,
            root,
            window,
            spending,
            models: HashMap::new(),
            todos,
            compactions: 0,
            is_behind: false,
            missed: None,
            said: ((0, 0), 0),
            calls: HashMap::new(),
        }
    }

    /// Returns the ID of a call in the protocol.
    pub(crate) fn call_name(run: &str, call: &CallId) -> String {
        format!("{run}/{call}")
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event) {
        let name = |call: &CallId| Self::call_name(&event.run, call);
        match &event.kind {
            EventKind::TextDelta { text, .. } if !event.path.is_empty() => {
                // The output of a subagent is shown in the call that it works for.
                if let Some(call) = parent(&event.path) {
                    self.grow(&name(&call), text, false);
                }
            }
            EventKind::TextDelta { turn, attempt, .. } if self.is_behind => self.missed = Some((*turn, *attempt)),
            EventKind::TextDelta { turn, attempt, text } => self.say(&event.run, (*turn, *attempt), text),
            EventKind::ReasoningDelta { turn, attempt, text } if event.path.is_empty() && !self.is_behind => {
                self.show_output(&event.run, (*turn, *attempt), text, wire::SessionUpdate::AgentThoughtChunk);
            }
            EventKind::Lagged { .. } => self.is_behind = true,
            EventKind::ModelStarted { model, .. } => {
                self.models.insert(event.path.clone(), model.clone());
                if event.path.is_empty() {
                    (self.is_behind, self.missed) = (false, None);
                }
            }
            EventKind::ModelFinished { usage, .. } => {
                self.spending.add(self.models.get(&event.path).map_or("", String::as_str), *usage);
                match parent(&event.path) {
                    Some(call) => self.grow(&name(&call), "\n\n", true),
                    None => usage_update(self.editor, self.window, usage.total(), &self.spending),
                }
            }
            EventKind::ToolStarted { call, name: tool, args, .. } => {
                let known = self.announce(&name(call), tool, args, &event.path, wire::ToolCallStatus::InProgress);
                // A rejected call is shown as finished already.
                if known && self.calls.get(&name(call)).is_some_and(|shown| !shown.finished) {
                    self.update(&name(call), |fields| fields.status(wire::ToolCallStatus::InProgress));
                }
            }
            EventKind::ToolProgress { call, text } => self.grow(&name(call), text, false),
            EventKind::ToolFinished { call, error, text, .. } => self.finish(&name(call), *error, text),
            EventKind::StateChanged { channel, update } if event.path.is_empty() && channel == Todos::NAME => {
                self.todos_changed(update);
            }
            EventKind::Middleware(happened) => self.middleware(&event.run, happened),
            EventKind::Custom { name: kind, data } if kind == BEFORE || kind == TERMINAL => self.note(event, data),
            _ => {}
        }
    }

    /// Shows a call for the first time. Returns whether it was known before.
    fn announce(
        &mut self,
        name: &str,
        tool: &str,
        args: &Value,
        path: &[String],
        status: wire::ToolCallStatus,
    ) -> bool {
        if self.calls.contains_key(name) {
            return true;
        }
        let Described { kind, title, locations, diffs } = Described::new(tool, args, self.root);
        let lasting: Vec<wire::ToolCallContent> = diffs.into_iter().map(wire::ToolCallContent::Diff).collect();
        let mut call = wire::ToolCall::new(name.to_owned(), title)
            .name(tool.to_owned())
            .kind(kind)
            .status(status)
            .content(lasting.clone())
            .locations(locations)
            .raw_input(args.clone());
        if let Some(above) = parent(path) {
            // The protocol has no field for it yet.
            let run = name.split('/').next().unwrap_or_default();
            let above = json!({"parentToolCallId": Self::call_name(run, &above)});
            call = call.meta(wire::Meta::from_iter([("deepagents".to_owned(), above)]));
        }
        self.editor.update(wire::SessionUpdate::ToolCall(call));
        let (tool, args) = (tool.to_owned(), args.clone());
        self.calls.insert(name.to_owned(), Shown { lasting, tool, args, ..Shown::default() });
        false
    }

    fn update(&self, name: &str, fields: impl FnOnce(wire::ToolCallUpdateFields) -> wire::ToolCallUpdateFields) {
        let fields = fields(wire::ToolCallUpdateFields::new());
        let update = wire::ToolCallUpdate::new(name.to_owned(), fields);
        self.editor.update(wire::SessionUpdate::ToolCallUpdate(update));
    }

    /// Appends to the growing output of a call.
    fn grow(&mut self, name: &str, text: &str, at_once: bool) {
        let Some(shown) = self.calls.get_mut(name).filter(|shown| !shown.finished) else { return };
        shown.growing.push_str(text);
        let due = shown.shown_at.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL);
        if !(due || at_once) {
            return;
        }
        let excess = shown.growing.chars().count().saturating_sub(MAX_GROWING_CHARS);
        if excess > 0 {
            shown.growing = shown.growing.chars().skip(excess).collect();
        }
        if shown.growing.trim().is_empty() {
            return;
        }
        shown.shown_at = Some(Instant::now());
        let mut whole = shown.lasting.clone();
        whole.push(content(shown.growing.trim_end()));
        self.update(name, |fields| fields.content(whole));
    }

    /// Records the previous content of the file that a call overwrites, or the terminal that it runs in.
    fn note(&mut self, event: &Event, data: &Value) {
        let Ok(note) = Note::deserialize(data) else { return };
        let name = Self::call_name(&event.run, &note.call);
        let root = self.root;
        let Some(shown) = self.calls.get_mut(&name).filter(|shown| !shown.finished) else { return };
        shown.lasting = match note.terminal {
            Some(terminal) => vec![wire::ToolCallContent::Terminal(wire::Terminal::new(terminal))],
            None => written(&shown.args, note.old, root).map(wire::ToolCallContent::Diff).into_iter().collect(),
        };
        let lasting = shown.lasting.clone();
        self.update(&name, |fields| fields.content(lasting));
    }

    fn finish(&mut self, name: &str, error: bool, text: &str) {
        let Some(shown) = self.calls.get_mut(name).filter(|shown| !shown.finished) else { return };
        shown.finished = true;
        let status = calls::ended(&shown.tool, error, text);
        let mut whole = shown.lasting.clone();
        // A diff or terminal makes the text redundant.
        if (error || whole.is_empty()) && !text.is_empty() {
            whole.push(content(text));
        }
        shown.lasting.clone_from(&whole);
        let output = json!({"text": text});
        self.update(name, |fields| fields.status(status).content(whole).raw_output(output));
    }

    /// Adds the images of a result to what the call shows.
    pub(crate) fn images(&self, run: &str, call: &CallId, result: &[Block]) {
        let name = Self::call_name(run, call);
        let Some(shown) = self.calls.get(&name).filter(|shown| shown.finished) else { return };
        let images: Vec<wire::ToolCallContent> = images(result).collect();
        if !images.is_empty() {
            let whole = shown.lasting.iter().cloned().chain(images).collect::<Vec<_>>();
            self.update(&name, |fields| fields.content(whole));
        }
    }

    /// Shows an action request and what its call would do. `old` is the current content of the file that it would
    /// write.
    pub(crate) fn question(
        &mut self,
        run: &str,
        question: &ActionRequest,
        old: Option<String>,
    ) -> wire::ToolCallUpdate {
        let name = Self::call_name(run, &question.call);
        let args = &question.args;
        self.announce(&name, &question.tool, args, &question.call.path, wire::ToolCallStatus::Pending);
        let described = Described::new(&question.tool, args, self.root);
        let mut diffs = described.diffs;
        if question.tool == "write_file" {
            diffs.extend(written(args, old, self.root));
        }
        let mut whole: Vec<wire::ToolCallContent> = diffs.into_iter().map(wire::ToolCallContent::Diff).collect();
        if let Some(shown) = self.calls.get_mut(&name) {
            shown.lasting.clone_from(&whole);
        }
        // The call itself shows what a gate asks.
        if !question.is_gate() && !question.text.is_empty() {
            whole.push(content(&question.text));
        }
        whole.extend(calls::full_text(question).map(calls::full_content));
        let fields = wire::ToolCallUpdateFields::new()
            .kind(described.kind)
            .title(described.title)
            .status(wire::ToolCallStatus::Pending)
            .content(whole)
            .locations(described.locations)
            .raw_input(args.clone());
        wire::ToolCallUpdate::new(name, fields)
    }

    /// Ends a rejected call.
    pub(crate) fn rejected(&mut self, run: &str, call: &CallId) {
        self.finish(&Self::call_name(run, call), true, "Rejected");
    }

    /// Ends all open calls as failed, with this reason.
    pub(crate) fn close(&mut self, why: &str) {
        let open = self.calls.iter().filter(|(_, shown)| !shown.finished).map(|(name, _)| name.clone());
        let mut open: Vec<String> = open.collect();
        open.sort();
        for name in open {
            self.finish(&name, true, why);
        }
    }
}

/// Returns the call that the agent at this path works for. The last segment of the path is `LABEL:TURN.INDEX`.
fn parent(path: &[String]) -> Option<CallId> {
    let (last, above) = path.split_last()?;
    let (_, call) = last.rsplit_once(':')?;
    let (turn, index) = call.split_once('.')?;
    Some(CallId { path: above.to_vec(), turn: turn.parse().ok()?, index: index.parse().ok()? })
}
