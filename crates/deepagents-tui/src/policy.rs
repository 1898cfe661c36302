//! Decides which calls need approval: the mode, and the rules allowed for the rest of the session.

use std::sync::{Arc, PoisonError, RwLock};

use deepagents::core::message::ToolCall;
use deepagents::core::tool::DynTool;
use deepagents::fs::permissions::CommandRule;
use deepagents::middleware::Rubric;
use deepagents::{
    Context, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy, Middleware, ModelRequest, Result, ToolNext,
    ToolRequest, ToolResponse,
};
use serde_json::Value;

/// How calls that change something are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The user is asked to approve them.
    #[default]
    Ask,
    /// They run without approval, except commands that are not sandboxed.
    Auto,
    /// They are refused: the agent can only read and plan.
    Plan,
}

impl Mode {
    /// Returns the name used on the screen and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Plan => "plan",
        }
    }

    /// Returns the next mode in the cycle.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Ask => Self::Auto,
            Self::Auto => Self::Plan,
            Self::Plan => Self::Ask,
        }
    }
}

/// A rule for calls that need no approval for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All calls of a tool.
    Tool(String),
    /// Simple commands of a program or of its sub-command: those without another program, a redirection or a
    /// substitution.
    Program(String),
    /// Exactly this command.
    Command(String),
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tool(name) => write!(f, "every {name}"),
            Self::Program(name) => write!(f, "simple `{name} …` commands"),
            Self::Command(_) => f.write_str("this very command"),
        }
    }
}

/// The tool that runs commands.
const EXECUTE: &str = "execute";
/// Tools with effects outside of the conversation.
const CHANGES: [&str; 5] = ["write_file", "edit_file", "apply_patch", "delete", EXECUTE];
/// Tools that change only the conversation, or delegate to agents that follow the same policy.
const HARMLESS: [&str; 6] =
    ["write_todos", "read_todos", "task", "compact_conversation", "check_async_task", "list_async_tasks"];
/// Characters that make a command more than one call with plain arguments.
const SPECIAL: [char; 13] = [';', '&', '|', '<', '>', '$', '`', '\n', '\r', '(', ')', '{', '}'];

/// Characters that separate the words of a command.
const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the program, with its sub-command, of a command that is a single plain call. Returns `None` for any other
/// command, and for programs that run their arguments.
fn simple_program(command: &str) -> Option<String> {
    if command.contains(SPECIAL) || command.contains('\\') || command.chars().any(|c| c.is_control() && c != '\t') {
        return None;
    }
    // A shell splits words at these two only. Other white space is part of a word but does not look like it.
    if command.chars().any(|c| c.is_whitespace() && !BLANKS.contains(&c)) {
        return None;
    }
    CommandRule::program_of(command)
}

impl Rule {
    /// Returns the narrowest rule that covers a call.
    pub fn for_call(tool: &str, args: &Value) -> Self {
        if tool != EXECUTE {
            return Self::Tool(tool.to_owned());
        }
        let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
        match simple_program(command) {
            Some(program) => Self::Program(program),
            None => Self::Command(command.to_owned()),
        }
    }

    /// Returns whether the rule covers a call.
    pub fn covers(&self, tool: &str, args: &Value) -> bool {
        let command = || args.get("command").and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::Tool(name) => tool == name && tool != EXECUTE,
            Self::Program(name) => tool == EXECUTE && simple_program(command()).as_ref() == Some(name),
            Self::Command(text) => tool == EXECUTE && command() == text,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    mode: Mode,
    rules: Vec<Rule>,
    /// Whether commands are sandboxed.
    confined: bool,
}

/// The mode and the rules. The interface changes them, and the agent follows the change from its next call on.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::MemoryJournal;
/// use deepagents_tui::{Mode, Policy};
/// let policy = Policy::new(Mode::Ask);
/// let builder = DeepAgent::builder().model(ScriptedModel::new([])).journal(MemoryJournal::new());
/// let agent = policy.bind(builder, &[]).build()?;
/// policy.set_mode(Mode::Plan);
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    inner: Arc<RwLock<Inner>>,
}

impl Policy {
    /// Creates a policy with this mode and no rules.
    pub fn new(mode: Mode) -> Self {
        let policy = Self::default();
        policy.set_mode(mode);
        policy
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current mode.
    pub fn mode(&self) -> Mode {
        self.read(|inner| inner.mode)
    }

    /// Sets the mode for subsequent calls.
    pub fn set_mode(&self, mode: Mode) {
        self.with(|inner| inner.mode = mode);
    }

    /// Sets whether commands are sandboxed. Without a sandbox, commands need approval in auto mode too, unless a rule
    /// allows them.
    pub fn set_confined(&self, confined: bool) {
        self.with(|inner| inner.confined = confined);
    }

    /// Allows the calls that a rule covers without approval.
    pub fn allow(&self, rule: Rule) {
        self.with(|inner| {
            if !inner.rules.contains(&rule) {
                inner.rules.push(rule);
            }
        });
    }

    /// Returns the rules that allow calls without approval.
    pub fn rules(&self) -> Vec<Rule> {
        self.read(|inner| inner.rules.clone())
    }

    /// Removes all rules, so that all calls need approval again.
    pub fn forget_rules(&self) {
        self.with(|inner| inner.rules.clear());
    }

    /// Returns whether a call needs the user's approval.
    pub fn asks(&self, tool: &str, args: &Value) -> bool {
        self.read(|inner| match inner.mode {
            // Plan mode refuses changes without asking.
            Mode::Plan => false,
            Mode::Auto if tool != EXECUTE || inner.confined => false,
            Mode::Ask | Mode::Auto => !inner.rules.iter().any(|rule| rule.covers(tool, args)),
        })
    }

    /// Returns the rule or mode that lets a call with effects run without approval, as text.
    fn allows(&self, tool: &str, args: &Value) -> Option<String> {
        let mode = self.mode();
        if !CHANGES.contains(&tool) || mode == Mode::Plan || self.asks(tool, args) {
            return None;
        }
        let rule = self.read(|inner| inner.rules.iter().find(|rule| rule.covers(tool, args)).map(ToString::to_string));
        Some(rule.filter(|_| mode == Mode::Ask).unwrap_or_else(|| format!("the mode {}", mode.as_str())))
    }

    /// Applies the policy to an agent and its sub-agents. Calls of the standard tools that change something need
    /// approval, as do calls of the tools in `others` that do more than read. In [`Mode::Plan`] such calls are refused.
    /// This also adds [`Rubric`], which judges work by the goals of `/goal` and `/rubric`.
    pub fn bind(&self, builder: DeepAgentBuilder, others: &[String]) -> DeepAgentBuilder {
        builder.interrupt_on(self.interrupts(others)).shared_middleware(self.clone()).middleware(Rubric::default())
    }

    fn interrupts(&self, others: &[String]) -> InterruptPolicy {
        let others = others.iter().map(String::as_str);
        CHANGES.into_iter().chain(others).fold(InterruptPolicy::new(), |all, tool| {
            let (policy, is_standard) = (self.clone(), CHANGES.contains(&tool));
            let asks = move |call: &ToolCall, cx: &Context| {
                let reads = || cx.tool(&call.name).is_some_and(|tool| tool.effect(&call.args) == Effect::Read);
                (is_standard || !reads()) && policy.asks(&call.name, &call.args)
            };
            all.before(tool, InterruptOn::any().when(asks).name_rule(self.named()))
        })
    }

    /// Names the mode as the rule behind a request for approval.
    fn named(&self) -> impl Fn(&ToolCall, &Context) -> Option<String> + Send + Sync + 'static {
        let policy = self.clone();
        move |_, _| {
            Some(match policy.mode() {
                Mode::Auto => "the mode auto: commands without a sandbox need your approval".to_owned(),
                mode => format!("the mode {}: changes need your approval", mode.as_str()),
            })
        }
    }

    /// Returns whether a tool may be called in plan mode.
    fn may_plan(name: &str, tool: Option<&Arc<dyn DynTool>>, args: &Value) -> bool {
        if CHANGES.contains(&name) {
            return false;
        }
        HARMLESS.contains(&name) || tool.is_some_and(|tool| tool.effect(args) == Effect::Read)
    }
}

/// The system prompt for plan mode.
const PLANNING: &str = "You are in plan mode: change nothing and run nothing. Read what you need, then lay out a plan of \
                        what you would do, and stop: the person approves it or says what to change.";

impl Middleware for Policy {
    fn name(&self) -> &str {
        "Modes"
    }

    async fn modify_request(&self, mut request: ModelRequest, _cx: &Context) -> Result<ModelRequest> {
        if self.mode() == Mode::Plan {
            request.tools.retain(|tool| !CHANGES.contains(&&*tool.name));
            request.system.push(deepagents::core::model::SystemBlock::new(PLANNING));
        }
        Ok(request)
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let name = &request.call.name;
        if self.mode() == Mode::Plan && !Self::may_plan(name, request.tool.as_ref(), &request.call.args) {
            let text = format!(
                "Error: {name} was not called: in plan mode nothing is changed. Lay out what you would do instead."
            );
            return Ok(ToolResponse::error(&text).denied_by("the mode plan", text));
        }
        let allowed = self.allows(name, &request.call.args);
        let response = next.run(request).await?;
        Ok(allowed.into_iter().fold(response, ToolResponse::allowed_by))
    }
}
