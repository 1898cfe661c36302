//! Deep agents: planning, files, delegation and context management, composed from middlewares around one agent loop.
//!
//! ```
//! use deepagents::DeepAgent;
//! use deepagents::models::scripted::{ScriptedModel, Turn};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let model = ScriptedModel::new([
//!     Turn::call("write_file", serde_json::json!({"file_path": "/hello.txt", "content": "Hello"})),
//!     Turn::text("Done."),
//! ]);
//! let agent = DeepAgent::builder().model(model).build()?;
//! let outcome = agent.invoke("Say hello in a file.").await?;
//! assert_eq!(outcome.text(), "Done.");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`DeepAgent::builder`] assembles the standard stack: a todo list, files, sub-agents, context compaction, prompt
//! caching, repair of tool calls, and, on request, memory, skills and approvals. Every part can be replaced, configured
//! or left out, and [`DeepAgent::explain`] shows the result. Add your own parts as [`Middleware`]s and [`Tool`]s.

mod approvals;
mod artifacts;
mod blocked;
pub mod blocking;
mod builder;
mod call_error;
pub mod channels;
mod description_override;
mod digest;
mod explain;
pub mod front_matter;
mod json_answer;
mod left_decisions;
pub mod middleware;
mod permission_interrupts;
pub mod profile;
#[cfg(feature = "models")]
pub mod recording;
pub mod remembered;
#[cfg(all(unix, feature = "undo"))]
pub mod rewind;
mod scripts;
mod shared;
pub mod slash;
pub mod subagents;
mod text;
mod tokens;
pub mod trust;
mod user_file;
mod workspace;

pub use approvals::{InterruptOn, InterruptPolicy};
pub use artifacts::ArtifactRequest;
pub use builder::{DeepAgent, DeepAgentBuilder, Preset};
pub use deepagents_core::agent::BuildError;
pub use deepagents_core::error::{BoxError, Error, Result};
pub use deepagents_core::escape;
pub use deepagents_core::event::{Event, EventKind, EventStream, MiddlewareEvent, RunSnapshot, Subscribe};
pub use deepagents_core::interrupt::{
    ActionRequest, ActionReview, AnswerForm, Decision, DecisionAuthor, DecisionKind, DecisionRecord, EditedAction,
    FieldKind, FieldOption, FormField, Interrupt,
};
pub use deepagents_core::journal::{Journal, MemoryJournal};
pub use deepagents_core::message::{AssistantMessage, Block, Message, ToolCall, Usage};
pub use deepagents_core::middleware::{
    EndReason, HookOutput, JumpTo, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse,
    after_agent, after_model, before_agent, before_model, modify_request, offered_tools, wrap_model_call,
    wrap_tool_call,
};
pub use deepagents_core::model::{
    ChatModel, ModelError, ModelEvent, ModelOutput, ModelProfile, ModelRequest, ModelSettings, NoModel, StopReason,
    model_fn,
};
pub use deepagents_core::run::{
    Budget, BudgetKind, Context, ContextBuilder, FinishReason, LimitExit, Outcome, Run, RunError, RunHandle, RunInput,
    RunObserver,
};
pub use deepagents_core::state::{Channel, ChannelSpec, State, Update};
pub use deepagents_core::store::Store;
pub use deepagents_core::structured::ResponseFormat;
pub use deepagents_core::tool::{
    DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSet, json_tool, tool_fn,
};
pub use deepagents_core::{forward_journal, forward_model, forward_store, forward_threads, last_value};
pub use explain::{ExplainedPart, Explanation};
pub use left_decisions::left_decisions;
pub use middleware::tool_errors::ToolErrorAction;
pub use user_file::UserFileError;

/// Byte buffers in the signatures of [`fs::Backend`].
pub use bytes;
/// Futures and streams in the signatures of [`ChatModel`], [`Journal`], [`Store`] and [`RunObserver`].
pub use deepagents_core::futures_core;
/// A token that cancels runs and calls from elsewhere: see [`RunInput::cancelled_by`] and [`Run::canceller`].
pub use tokio_util::sync::CancellationToken;

/// The core crate, including everything that is not re-exported at the top level.
pub use deepagents_core as core;
/// Files and backends.
pub use deepagents_fs as fs;
/// MCP servers and their tools.
#[cfg(feature = "mcp")]
pub use deepagents_mcp as mcp;
/// Model providers.
#[cfg(feature = "models")]
pub use deepagents_models as models;
/// Traces and metrics.
#[cfg(feature = "otel")]
pub use deepagents_otel as otel;
/// Agents on remote servers.
#[cfg(feature = "remote")]
pub use deepagents_remote as remote;

/// Compiles the code of the README.
#[cfg(all(doctest, feature = "models"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
