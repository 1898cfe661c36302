//! What the middlewares of the library tell.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a middleware of the library has done, for the application to see. In JSON an event of it is
/// `{"type":"custom","name":"skills_loaded","data":{"skills":["pdf"],"warnings":[]}}`.
///
/// ```
/// use deepagents_core::event::{EventKind, MiddlewareEvent};
/// fn problem(kind: &EventKind) -> Option<&str> {
///     match kind {
///         EventKind::Middleware(MiddlewareEvent::CompactionFailed { error }) => Some(error),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "data", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MiddlewareEvent {
    /// Files of memory were read; those alone that are new or have changed.
    MemoryLoaded {
        /// The files.
        files: Vec<LoadedFile>,
    },
    /// Skills were found in files.
    SkillsLoaded {
        /// The names of all there are.
        skills: Vec<String>,
        /// What is wrong with files.
        warnings: Vec<String>,
    },
    /// Skills that the application wanted to be shown could not be.
    PinnedSkillsSkipped {
        /// Which, and why.
        warnings: Vec<String>,
    },
    /// The tools on offer that come with skills have changed.
    SkillToolsOffered {
        /// Names of those that are offered now.
        tools: BTreeSet<String>,
    },
    /// Sub-agents were found in files.
    SubAgentsLoaded {
        /// The names of all there are.
        agents: Vec<String>,
        /// What is wrong with files.
        warnings: Vec<String>,
    },
    /// A result that was too large to show was put into a file.
    LargeResultStored {
        /// The provider's id of the call.
        call: String,
        /// The file.
        path: String,
        /// Characters of the result.
        chars: usize,
    },
    /// A result was too large to show and could not be put into a file.
    LargeResultLost {
        /// The provider's id of the call.
        call: String,
        /// Characters of the result.
        chars: usize,
        /// Why.
        error: String,
    },
    /// A message was too long to show and could not be put into a file; it is sent whole.
    LongMessageKept {
        /// Id of the message.
        message: String,
        /// Why.
        reason: String,
    },
    /// The model is not known to honour cache marks.
    CachingUnsupported {
        /// The model, `provider:model`.
        model: String,
    },
    /// Nobody knows how much the model reads: the conversation is compacted at a size that may be too large for it.
    ContextWindowUnknown {
        /// The model, `provider:model`.
        model: String,
        /// Tokens at which the conversation is compacted.
        trigger_tokens: u64,
    },
    /// The history was repaired when the run began.
    HistoryRepaired {
        /// Calls without a result that were answered.
        answered: usize,
        /// Results that were brought next to their calls.
        moved: usize,
        /// Results without a call that were dropped.
        dropped: usize,
        /// Ids of calls that were replaced.
        renamed: usize,
    },
    /// The planner gave no plan; the run goes on without one.
    PlanningFailed {
        /// Why.
        error: String,
    },
    /// Long arguments of earlier calls are shown shortened from now on.
    ArgumentsTruncated {
        /// Answers whose calls are.
        turns: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
    /// The beginning of the conversation was replaced by a summary.
    ConversationCompacted {
        /// Messages that the summary stands for.
        evicted: usize,
        /// Messages that are shown as before.
        kept: usize,
        /// The file that holds the evicted messages.
        file: String,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the evicted messages.
        tokens_evicted: u64,
        /// Whether the summary was made over the prefix that the provider has cached.
        over_cached_prefix: bool,
    },
    /// Compaction failed; everything stays in place.
    CompactionFailed {
        /// Why.
        error: String,
    },
    /// An MCP server offers tools, or cannot be had.
    McpServer {
        /// Its name.
        server: String,
        /// How many tools it has.
        tools: usize,
        /// Why it cannot be had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// Whether it is only not there yet: it is starting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        starting: bool,
    },
    /// The result of a call comes from outside: whoever wrote it is neither the user nor the agent.
    ForeignResult {
        /// The provider's id of the call.
        call: String,
        /// The tool.
        tool: String,
        /// Where it comes from, such as `mcp:github`.
        source: String,
        /// What its source says of it beside, for programs and not for the model: the `_meta` of MCP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A command that goes on in the background has printed something.
    CommandOutput {
        /// Its id, as the tool that started it gives it.
        command: String,
        /// The new part.
        text: String,
    },
    /// A command in the background has ended.
    CommandEnded {
        /// Its id.
        command: String,
        /// How, in words.
        end: String,
    },
    /// The agent repeats itself without progress; the model was told so, or the run is stopped.
    LoopDetected {
        /// How it repeats itself.
        pattern: LoopPattern,
        /// How often.
        times: u32,
        /// Whether the run is stopped.
        stopped: bool,
    },
    /// A limit of calls was reached.
    CallLimitReached {
        /// The tool whose calls are limited; none where all tools' or the model's calls are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Each limit that was reached.
        limits: Vec<ReachedLimit>,
    },
    /// A call of the model failed and is made again.
    ModelRetried {
        /// How often it has been made.
        attempts: u32,
        /// How long is waited before, in milliseconds.
        after_ms: u64,
        /// Why it failed.
        error: String,
    },
    /// A call of a tool failed and is made again.
    ToolRetried {
        /// The provider's id of the call.
        call: String,
        /// The tool.
        tool: String,
        /// How often it has been made.
        attempts: u32,
        /// How long is waited before, in milliseconds.
        after_ms: u64,
    },
    /// Old results are shown as a line from now on.
    ResultsCleared {
        /// How many.
        results: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
    /// A model chose the tools that are offered until a person speaks again.
    ToolsSelected {
        /// Names of those that were chosen.
        tools: BTreeSet<String>,
    },
    /// The work is being judged by its rubric.
    RubricEvaluationStarted {
        /// How often it was judged before.
        iteration: u32,
    },
    /// The work was judged by its rubric.
    RubricEvaluated {
        /// How often it was judged before.
        iteration: u32,
        /// `satisfied`, `needs_revision` or `failed`.
        result: String,
        /// Why.
        explanation: String,
        /// Criteria that are met.
        passed: Vec<String>,
        /// Criteria that are not.
        missing: Vec<String>,
        /// Whether the judge left criteria out.
        unverified: bool,
    },
    /// The work could not be judged; the run goes on without.
    RubricEvaluationFailed {
        /// Why.
        error: String,
    },
    /// Tools were looked for; what was found is offered from then on.
    ToolsFound {
        /// What was looked for.
        query: String,
        /// Names of the tools that were found.
        tools: Vec<String>,
    },
    /// Personal data or secrets were hidden.
    Redacted {
        /// Where.
        place: RedactedPlace,
        /// How often each kind was found.
        found: BTreeMap<String, usize>,
    },
    /// What a hook has said to the person, what is wrong with one, or that one has ended the run.
    Hook {
        /// The moment at which it was asked, such as `PreToolUse`.
        event: String,
        /// The file that names it; none where this is not about one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The hook.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// What the person is told.
        message: String,
        /// What is wrong with it, where it is broken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether it has ended the run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// Large results of earlier calls are shown shortened from now on.
    ResultsClipped {
        /// How many.
        results: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
}

/// How an agent repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoopPattern {
    /// The same calls with the same results, turn after turn.
    SameCalls,
    /// Two or three turns in alternation, with the same calls and results each time.
    Alternation,
    /// Changes of a file that undo each other.
    UndoneEdits,
    /// Turns in which every call failed.
    Errors,
}

/// Where something was hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RedactedPlace {
    /// In what people say.
    Input,
    /// In an answer of the model.
    Output,
    /// In the result of a tool.
    ToolResult,
    /// In messages that were stored before.
    History,
}

/// A limit of calls that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReachedLimit {
    /// What is counted: the calls of the thread, or those of the run.
    pub scope: LimitScope,
    /// Calls so far.
    pub count: u64,
    /// The limit.
    pub limit: u64,
}

impl ReachedLimit {
    /// So many calls against a limit.
    pub fn new(scope: LimitScope, count: u64, limit: u64) -> Self {
        Self { scope, count, limit }
    }
}

/// What a limit of calls counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// Calls of all runs of the thread.
    Thread,
    /// Calls of one run.
    Run,
}

/// What became of a file that was to be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LoadedFile {
    /// It was read.
    Read {
        /// Its path.
        path: String,
        /// Characters of it that are shown.
        chars: usize,
        /// Whether it is longer than that.
        cut: bool,
    },
    /// It could not be read.
    Unreadable {
        /// Its path.
        path: String,
        /// Why.
        problem: String,
    },
    /// It is gone.
    Missing {
        /// Its path.
        path: String,
        /// True.
        missing: bool,
    },
}

impl LoadedFile {
    /// Its path.
    pub fn path(&self) -> &str {
        match self {
            Self::Read { path, .. } | Self::Unreadable { path, .. } | Self::Missing { path, .. } => path,
        }
    }
}

impl MiddlewareEvent {
    /// The event with this name and content; nothing where it is none of the library's.
    pub(super) fn read(name: &str, data: &Value) -> Option<Self> {
        Self::deserialize(json!({"name": name, "data": data})).ok()
    }
}
