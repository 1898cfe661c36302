//! Tools: what a model can ask to be done.
//!
//! Write a type with [`Tool`], a closure with [`tool_fn`], or, where the schema is only known at run time, a closure
//! with [`json_tool`]. All of them become [`DynTool`]s.

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
pub use function::{FnTool, tool_fn};
pub use json::{JsonTool, json_tool};
pub use output::{ChildState, ToolError, ToolOutput};
pub(crate) use set::check_spec;
pub use set::{ToolSet, ToolSetError};

pub use crate::ids::CallId;
pub use crate::model::ToolSpec;
pub use crate::schema::{SchemaCheck, check_schema, closed, one_object, part_at, schema_of};
