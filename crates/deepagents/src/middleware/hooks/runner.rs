//! Runs the hooks of an event and reduces their answers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind, EditedAction};
use deepagents_core::run::Context;
use deepagents_fs::shell::Shell;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::command::{self, HookRun};
use super::sessions::RunnerState;
use super::{Hook, HookAnswer, HookEvent, HookPermission, Hooks, names, transcript, with_fields};
use crate::shared::Shared;

/// Runs hooks: a middleware during runs, and an object to call for events outside of runs. Clones share their state.
///
/// Add it to an agent with [`DeepAgentBuilder::hooks`](crate::DeepAgentBuilder::hooks), and call
/// [`session_end`](Self::session_end), [`permission_request`](Self::permission_request) and
/// [`notification`](Self::notification) from the application for the corresponding events.
///
/// ```
/// use std::sync::Arc;
/// use deepagents::DeepAgent;
/// use deepagents::fs::shell::{Confinement, LocalShell};
/// use deepagents::middleware::hooks::{HookRunner, Hooks};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let file = r#"{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo It is Monday."}]}]}}"#;
/// let shell = Arc::new(LocalShell::open(std::env::temp_dir(), Confinement::Unconfined)?);
/// let hooks = HookRunner::new(Hooks::parse(file, "hooks.json", shell)?);
/// let model = ScriptedModel::new([Turn::text("Hello.")]);
/// let agent = DeepAgent::builder().model(model.clone()).hooks(hooks).build()?;
/// agent.invoke("Which day is it?").await?;
/// assert!(model.requests()[0].messages.iter().any(|message| message.text().contains("It is Monday.")));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HookRunner {
    pub(super) inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) hooks: Hooks,
    pub(super) root: Option<PathBuf>,
    transcript: Option<PathBuf>,
    pub(super) transcripts: Option<PathBuf>,
    mode: Option<Shared<Mode>>,
    /// The state of threads.
    pub(super) known: Arc<Mutex<RunnerState>>,
}

type Mode = dyn Fn() -> String + Send + Sync;

impl HookRunner {
    /// Creates a runner of these hooks.
    pub fn new(hooks: Hooks) -> Self {
        let (root, transcript, transcripts) = (None, None, None);
        let inner = Inner { hooks, root, transcript, transcripts, mode: None, known: Arc::default() };
        Self { inner: Arc::new(inner) }
    }

    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Sets the directory of the agent's files on disk, from which hooks are given paths.
    #[must_use]
    pub fn root(self, root: impl Into<PathBuf>) -> Self {
        self.change(|inner| inner.root = Some(root.into()))
    }

    /// Sets a file with the conversation, which is passed to hooks.
    #[must_use]
    pub fn transcript(self, file: impl Into<PathBuf>) -> Self {
        self.change(|inner| inner.transcript = Some(file.into()))
    }

    /// Sets a directory for the conversations of threads, for hooks with `"transcript": true`. The file of a thread is
    /// written before such a hook runs, and removed after the thread's `SessionEnd`. It has a line of JSON for each
    /// message, as in Claude Code's transcripts. Other hooks cost nothing and are given no file.
    #[must_use]
    pub fn transcripts(self, directory: impl Into<PathBuf>) -> Self {
        self.change(|inner| inner.transcripts = Some(directory.into()))
    }

    /// Sets the source of `permission_mode`; `default` if unset. Other values are `auto`, `plan` and
    /// `bypassPermissions`.
    #[must_use]
    pub fn permission_mode(self, mode: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.mode = Some(Shared(Arc::new(mode))))
    }

    /// Replaces the shells in which the hooks run that are commands, for example by wrappers of them.
    #[must_use]
    pub fn map_shells(self, map: impl Fn(Arc<dyn Shell>) -> Arc<dyn Shell>) -> Self {
        self.change(|inner| inner.hooks.map_shells(map))
    }

    /// Takes over the threads that another runner has started, after its agent was rebuilt: they do not start again.
    #[must_use]
    pub fn succeeding(self, earlier: &Self) -> Self {
        let known = earlier.inner.known.clone();
        self.change(|inner| inner.known = known)
    }

    /// Returns the hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.inner.hooks
    }

    /// Runs the matching hooks of an event concurrently, with these input fields, and returns their outcomes in the
    /// order in which they are reduced. Common input fields are added if missing.
    pub async fn run(&self, event: HookEvent, fields: Value, cancel: CancellationToken) -> Vec<HookRun> {
        self.run_for(event, fields, cancel, None).await
    }

    /// Runs hooks as part of a run, whose conversation they may ask for, or outside of one.
    async fn run_for(
        &self,
        event: HookEvent,
        fields: Value,
        cancel: CancellationToken,
        cx: Option<&Context>,
    ) -> Vec<HookRun> {
        let mut input = json!({
            "hook_event_name": event.as_str(),
            "permission_mode": self.inner.mode.as_ref().map_or_else(|| "default".to_owned(), |mode| mode()),
        });
        if let Some(root) = &self.inner.root {
            input = with_fields(input, json!({"cwd": root}));
        }
        if let Some(file) = &self.inner.transcript {
            input = with_fields(input, json!({"transcript_path": file}));
        }
        let input = with_fields(input, fields);
        let hooks = self.inner.hooks.matching(event, &input);
        if hooks.is_empty() {
            return Vec::new();
        }
        let with_transcript = match hooks.iter().any(Hook::wants_transcript) {
            true => self.with_transcript(&input, cx).await,
            false => Ok(Value::Null),
        };
        let (input, with_transcript, cancel) = (&input, &with_transcript, &cancel);
        let mark = format!("--{:032x}--", fastrand::u128(..));
        let mark = mark.as_str();
        let runs = hooks.iter().map(|hook| async move {
            let input = if hook.wants_transcript() { with_transcript.as_ref() } else { Ok(input) };
            match input {
                Ok(input) => command::run(hook, input, mark, cancel.clone()).await,
                Err(problem) => HookRun::broken(hook, problem.clone()),
            }
        });
        join_all(runs).await
    }

    /// Adds the file with the conversation to the input of hooks, after writing it in a run. Outside of a run, it is as
    /// the last hook that asked for it saw it.
    async fn with_transcript(&self, input: &Value, cx: Option<&Context>) -> Result<Value, String> {
        let Some(directory) = &self.inner.transcripts else { return Ok(input.clone()) };
        let file = match cx {
            Some(cx) => transcript::write(directory, cx, self.inner.root.as_deref())
                .await
                .map_err(|error| format!("its transcript could not be written: {error}"))?,
            None => match input.get("session_id").and_then(Value::as_str) {
                Some(thread) => transcript::written(directory, thread).await,
                None => None,
            },
        };
        Ok(file.map_or_else(|| input.clone(), |file| with_fields(input.clone(), json!({"transcript_path": file}))))
    }

    /// Returns `true` if there is a hook for an event.
    pub(super) fn has(&self, event: HookEvent) -> bool {
        self.inner.hooks.iter().any(|hook| hook.event() == event)
    }

    /// Runs the hooks of an event as part of a run, reduces their answers, and reports errors.
    pub(super) async fn ask(&self, event: HookEvent, fields: Value, cx: &Context) -> HookAnswer {
        let mut input = json!({"session_id": cx.root_thread().unwrap_or(cx.run_id()), "prompt_id": cx.run_id()});
        if !cx.path().is_empty() {
            let agent = json!({"agent_id": cx.path().join("/"), "agent_type": cx.agent_name()});
            input = with_fields(input, agent);
        }
        let input = with_fields(input, fields);
        let runs = self.run_for(event, input, cx.cancellation().clone(), Some(cx)).await;
        for run in &runs {
            let tell = |message: String, error: Option<&String>| {
                cx.report(MiddlewareEvent::Hook {
                    event: event.as_str().to_owned(),
                    source: Some(run.source.clone()),
                    command: Some(run.command.clone()),
                    message,
                    error: error.cloned(),
                    ended: false,
                });
            };
            match &run.answer {
                Ok(answer) => answer.messages.iter().for_each(|message| tell(message.clone(), None)),
                Err(problem) => tell(format!("the hook `{}` is broken: {problem}", run.command), Some(problem)),
            }
        }
        self.reduce(event, runs)
    }

    /// Combines the outcomes of hooks into one answer. A broken hook that fails closed blocks.
    pub fn reduce(&self, event: HookEvent, runs: Vec<HookRun>) -> HookAnswer {
        let closed = |run: &HookRun| {
            let mut same = self.inner.hooks.iter().filter(|hook| hook.event() == event);
            same.any(|hook| hook.fails_closed() && hook.command() == run.command && hook.source() == run.source)
        };
        let answers = runs.into_iter().map(|run| {
            let has_to_agree = closed(&run);
            run.answer.unwrap_or_else(|problem| HookAnswer {
                block: has_to_agree
                    .then(|| format!("the hook `{}` is broken and has to agree: {problem}", run.command)),
                ..HookAnswer::default()
            })
        });
        answers.fold(HookAnswer::default(), HookAnswer::and)
    }

    /// Asks hooks about a call before a person is asked. Returns `None` if they leave the decision to the person.
    pub async fn permission_request(&self, thread: &str, request: &ActionRequest) -> Option<Decision> {
        if !self.has(HookEvent::PermissionRequest) {
            return None;
        }
        let root = self.inner.root.as_deref();
        let fields = json!({
            "session_id": thread,
            "tool_name": names::on_wire(&request.tool),
            "tool_input": names::args_on_wire(&request.tool, &request.args, root),
        });
        let event = HookEvent::PermissionRequest;
        let runs = self.run(event, fields, CancellationToken::new()).await;
        let answer = self.reduce(event, runs);
        let allows = |kind: DecisionKind| request.allowed.contains(&kind);
        let reject = |why: String| Decision::Reject { message: Some(why).filter(|why| !why.is_empty()) };
        if let Some(why) = answer.block.or(answer.stop) {
            return allows(DecisionKind::Reject).then(|| reject(why));
        }
        match answer.permission? {
            (HookPermission::Deny, why) => allows(DecisionKind::Reject).then(|| reject(why)),
            (HookPermission::Ask, _) => None,
            (HookPermission::Allow, _) => match answer.updated_input {
                Some(args) => allows(DecisionKind::Edit).then(|| {
                    let args = names::args_from_wire(&request.tool, args, root);
                    Decision::Edit { edited_action: EditedAction { name: request.tool.clone(), args } }
                }),
                None => allows(DecisionKind::Approve).then_some(Decision::Approve),
            },
        }
    }

    /// Signals that a person's attention is needed, with a type such as `idle_prompt`. Nobody needs to wait for the
    /// hooks: spawn the future.
    pub fn notification(
        &self,
        thread: &str,
        message: &str,
        kind: &str,
    ) -> impl Future<Output = Vec<HookRun>> + Send + use<> {
        let (runner, fields) =
            (self.clone(), json!({"session_id": thread, "message": message, "notification_type": kind}));
        async move { runner.run(HookEvent::Notification, fields, CancellationToken::new()).await }
    }

    /// Signals that a person is asked: about a call (`permission_prompt`) or for an answer (`elicitation_dialog`).
    pub fn question(&self, thread: &str, request: &ActionRequest) -> impl Future<Output = Vec<HookRun>> + Send + use<> {
        // Calls that can be approved can often be answered as well.
        let allows = |kind: DecisionKind| request.allowed.contains(&kind);
        let wants_words = allows(DecisionKind::Respond) && !allows(DecisionKind::Approve);
        let kind = if wants_words { "elicitation_dialog" } else { "permission_prompt" };
        self.notification(thread, &format!("{} waits for your decision", request.tool), kind)
    }

    /// The check that [`SummarizationOptions`](crate::middleware::summarization::SummarizationOptions) makes before
    /// compaction.
    pub(crate) fn before_compaction(&self, cx: &Context, manual: bool) -> BoxFuture<'static, Result<(), String>> {
        let (runner, cx) = (self.clone(), cx.clone());
        Box::pin(async move {
            let trigger = if manual { "manual" } else { "auto" };
            let answer = runner.ask(HookEvent::PreCompact, json!({"trigger": trigger}), &cx).await;
            match answer.block.or(answer.stop) {
                Some(why) => Err(format!("a hook keeps the conversation from being compacted: {why}")),
                None => {
                    // Only the main agent's hooks are told.
                    if cx.path().is_empty() {
                        runner.note_compaction(&cx);
                    }
                    Ok(())
                }
            }
        })
    }
}
