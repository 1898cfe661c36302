//! Tools, which a model can call.
//!
//! Implement [`Tool`] on a type, or make a tool from a closure with [`tool_fn`]. If the schema is only known at run
//! time, use [`json_tool`]. All of them are [`DynTool`]s.

mod author;
mod coerce;
mod context;
mod erased;
mod function;
mod json;
mod output;
mod progress;
mod set;

pub use author::{Effect, Tool};
pub(crate) use coerce::coerce_call;
pub(crate) use context::CallInfo;
pub use context::ToolContext;
pub use erased::DynTool;
pub(crate) use erased::InvalidArguments;
pub use function::{ClosureTool, FnTool, tool_fn};
pub use json::{JsonArgs, JsonTool, json_tool};
pub use output::{ToolError, ToolOutput};
pub(crate) use set::check_spec;
pub use set::{ToolSet, ToolSetError};

pub use crate::ids::CallId;
pub use crate::model::ToolSpec;
pub use crate::schema::{SchemaCheck, check_schema, one_object, part_at, schema_of, unnamed_fields};
pub use crate::state::ChildState;
