//! Events of the library's middlewares.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::middleware_data::{LoadedFile, LoopPattern, ReachedLimit, RedactedPlace};

/// An event of one of the library's middlewares, for the application. Example of its JSON:
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
    /// Memory files were read. Only new and changed files are listed.
    MemoryLoaded {
        /// The files.
        files: Vec<LoadedFile>,
    },
    /// Skills were loaded from files.
    SkillsLoaded {
        /// The names of all skills.
        skills: Vec<String>,
        /// Problems with files.
        warnings: Vec<String>,
    },
    /// Skills that the application pinned could not be shown.
    PinnedSkillsSkipped {
        /// The skills and the reasons.
        warnings: Vec<String>,
    },
    /// The offered tools that belong to skills have changed.
    SkillToolsOffered {
        /// Names of the tools offered now.
        tools: BTreeSet<String>,
    },
    /// Sub-agents were loaded from files.
    SubAgentsLoaded {
        /// The names of all sub-agents.
        agents: Vec<String>,
        /// Problems with files.
        warnings: Vec<String>,
    },
    /// A result too large to show was written to a file.
    LargeResultStored {
        /// The provider's id of the call.
        call: String,
        /// The file's path.
        path: String,
        /// Length of the result in characters.
        chars: usize,
    },
    /// A result was too large to show and could not be written to a file.
    LargeResultLost {
        /// The provider's id of the call.
        call: String,
        /// Length of the result in characters.
        chars: usize,
        /// The error.
        error: String,
    },
    /// A message was too long to show and could not be written to a file. It is sent whole.
    LongMessageKept {
        /// The message's id.
        message: String,
        /// The reason.
        reason: String,
    },
    /// The model is not known to support cache marks.
    CachingUnsupported {
        /// The model, as `provider:model`.
        model: String,
    },
    /// The model's context window is unknown. The conversation is compacted at a size that may be too large for it.
    ContextWindowUnknown {
        /// The model, as `provider:model`.
        model: String,
        /// Number of tokens at which the conversation is compacted.
        trigger_tokens: u64,
    },
    /// The history was repaired when the run started.
    HistoryRepaired {
        /// Number of dangling calls that were answered.
        answered: usize,
        /// Number of results that were moved next to their calls.
        moved: usize,
        /// Number of results without a call that were dropped.
        dropped: usize,
        /// Number of call ids that were replaced.
        renamed: usize,
    },
    /// The planner returned no plan. The run continues without one.
    PlanningFailed {
        /// The error.
        error: String,
    },
    /// Long arguments of earlier calls are shown truncated from now on.
    ArgumentsTruncated {
        /// Number of answers with truncated calls.
        turns: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
    /// A summary replaced the start of the conversation.
    ConversationCompacted {
        /// Number of messages that the summary replaces.
        evicted: usize,
        /// Number of messages still shown.
        kept: usize,
        /// The file with the evicted messages.
        file: String,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the evicted messages.
        tokens_evicted: u64,
        /// Whether the summary request reused the prefix cached by the provider.
        over_cached_prefix: bool,
    },
    /// Compaction failed. Nothing was changed.
    CompactionFailed {
        /// The error.
        error: String,
    },
    /// An MCP server offers tools, or is unavailable.
    McpServer {
        /// The server's name.
        server: String,
        /// Number of its tools.
        tools: usize,
        /// Why it is unavailable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// Whether it is only unavailable because it is still starting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        starting: bool,
    },
    /// The result of a call is from an external source: neither the user nor the agent wrote it.
    ForeignResult {
        /// The provider's id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// The source, such as `mcp:github`.
        source: String,
        /// Metadata from the source, for programs and not for the model: the `_meta` of MCP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A background command has printed output.
    CommandOutput {
        /// The command's id, as returned by the tool that started it.
        command: String,
        /// The text to append.
        text: String,
    },
    /// A background command has ended.
    CommandEnded {
        /// The command's id.
        command: String,
        /// How it ended, as text.
        end: String,
    },
    /// The agent repeats itself without progress. The model was told, or the run is stopped.
    LoopDetected {
        /// The kind of repetition.
        pattern: LoopPattern,
        /// Number of repetitions.
        times: u32,
        /// Whether the run is stopped.
        stopped: bool,
    },
    /// A limit of calls was reached.
    CallLimitReached {
        /// The tool whose calls are limited, or `None` if the limit applies to all tools or to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The limits that were reached.
        limits: Vec<ReachedLimit>,
    },
    /// A model call failed and is retried.
    ModelRetried {
        /// Number of attempts so far.
        attempts: u32,
        /// Pause before the retry, in milliseconds.
        after_ms: u64,
        /// The error.
        error: String,
    },
    /// A tool call failed and is retried.
    ToolRetried {
        /// The provider's id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// Number of attempts so far.
        attempts: u32,
        /// Pause before the retry, in milliseconds.
        after_ms: u64,
    },
    /// Old results are shown as a single line from now on.
    ResultsCleared {
        /// Number of results.
        results: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
    /// A model selected the tools to offer until the next message from a person.
    ToolsSelected {
        /// Names of the selected tools.
        tools: BTreeSet<String>,
    },
    /// The evaluation of the work against its rubric started.
    RubricEvaluationStarted {
        /// Number of earlier evaluations.
        iteration: u32,
    },
    /// The work was evaluated against its rubric.
    RubricEvaluated {
        /// Number of earlier evaluations.
        iteration: u32,
        /// `satisfied`, `needs_revision` or `failed`.
        result: String,
        /// The explanation.
        explanation: String,
        /// Criteria that are met.
        passed: Vec<String>,
        /// Criteria that are not met.
        missing: Vec<String>,
        /// Whether the judge left out any criteria.
        unverified: bool,
    },
    /// The evaluation failed. The run continues without it.
    RubricEvaluationFailed {
        /// The error.
        error: String,
    },
    /// A tool search was made. The tools found are offered from then on.
    ToolsFound {
        /// The query.
        query: String,
        /// Names of the tools found.
        tools: Vec<String>,
    },
    /// Personal data or secrets were redacted.
    Redacted {
        /// Where they were found.
        place: RedactedPlace,
        /// Number of matches by kind.
        found: BTreeMap<String, usize>,
    },
    /// A hook has a message for the person, is broken, or has ended the run.
    Hook {
        /// The hook event, such as `PreToolUse`.
        event: String,
        /// The file that configures the hook, or `None` if this concerns more than one hook.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The hook's command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// The message for the person.
        message: String,
        /// What is wrong with the hook, if it is broken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether the hook has ended the run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// Large results of earlier calls are shown truncated from now on.
    ResultsClipped {
        /// Number of results.
        results: usize,
        /// Tokens of the conversation before.
        tokens_before: u64,
        /// Tokens of the conversation after.
        tokens_after: u64,
    },
}

impl MiddlewareEvent {
    /// Returns the event with this name and data, or `None` if it is not one of the library's.
    pub(super) fn read(name: &str, data: &Value) -> Option<Self> {
        Self::deserialize(json!({"name": name, "data": data})).ok()
    }
}
