//! Tools: what a model can ask to be done.
//!
//! Write a type with [`Tool`], a closure with [`tool_fn`], or, where the schema is only known at run time, a closure
//! with [`json_tool`]. All of them become [`DynTool`]s.

mod author;
mod context;
mod erased;
mod function;
mod json;
mod lenient;
mod output;
mod schema;
mod spec;

pub use author::{Effect, Tool};
pub(crate) use context::CallInfo;
pub use context::{CallId, ToolContext};
pub use erased::DynTool;
pub use function::{FnTool, tool_fn};
pub use json::{JsonTool, SchemaCheck, json_tool};
pub use output::{Handback, ToolError, ToolOutput};
pub use schema::schema_of;
pub use spec::ToolSpec;
