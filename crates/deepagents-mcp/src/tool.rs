//! A server's tool as a tool of the agent.

use std::sync::Arc;

use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, ToolSpec};
use futures_core::future::BoxFuture;
use rmcp::model::Tool;
use serde_json::{Map, Value};

use crate::connection::CallFailure;
use crate::names::tool_name;
use crate::results;
use crate::schema::Arguments;
use crate::servers::Server;
use crate::text;

/// A tool as listed by its server, with its arguments or the reason why it cannot be offered.
#[derive(Clone, Debug)]
pub(crate) struct ListedTool {
    pub(crate) tool: Tool,
    arguments: Result<Arguments, String>,
}

impl ListedTool {
    pub(crate) fn new(tool: Tool) -> Self {
        let arguments = Arguments::new(&tool.input_schema);
        Self { tool, arguments }
    }
}

/// A server's tool. Arguments and results pass through unvalidated: the server checks its input.
pub(crate) struct McpTool {
    server: Arc<Server>,
    /// The name on the server.
    name: String,
    spec: ToolSpec,
    arguments: Arguments,
    reads_only: bool,
    idempotent: bool,
}

impl McpTool {
    /// Creates a tool from a list entry.
    ///
    /// # Errors
    /// Returns the reason why the tool cannot be offered.
    pub(crate) fn new(server: &Arc<Server>, listed: &ListedTool) -> Result<Self, String> {
        let ListedTool { tool, arguments } = listed;
        let arguments = arguments.clone()?;
        let hints = tool.annotations.as_ref();
        let title = tool.title.as_deref().or_else(|| hints.and_then(|hints| hints.title.as_deref()));
        let mut description = text::description(tool.description.as_deref().or(title).unwrap_or_default());
        if !arguments.words.is_empty() {
            description = format!("{description}\n\n{}", arguments.words).trim_start().to_owned();
        }
        let said = |hint: Option<bool>| server.config.trusted && hint == Some(true);
        Ok(Self {
            server: server.clone(),
            name: tool.name.to_string(),
            spec: ToolSpec { name: tool_name(&server.name, &tool.name), description, schema: arguments.schema.clone() },
            arguments,
            // A tool that claims to be both read-only and destructive contradicts itself; it counts as destructive.
            reads_only: said(hints.and_then(|hints| hints.read_only_hint))
                && hints.and_then(|hints| hints.destructive_hint) != Some(true),
            idempotent: said(hints.and_then(|hints| hints.idempotent_hint)),
        })
    }

    /// The name of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server.name
    }

    /// The name of the tool on its server.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tool as the model sees it, with the trusted hints appended to the description.
    pub(crate) fn annotated_spec(&self) -> ToolSpec {
        let mut spec = self.spec.clone();
        let believed = [(self.reads_only, "It only reads."), (self.idempotent, "It may be called again.")];
        let words: Vec<&str> = believed.iter().filter(|(said, _)| *said).map(|(_, words)| *words).collect();
        if !words.is_empty() {
            spec.description = format!("{}\n\n[{}]", spec.description, words.join(" "));
        }
        spec
    }

    async fn call_server(&self, args: Value, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let args = match args {
            Value::Object(args) => args,
            Value::Null => Map::new(),
            _ => return Err(ToolError::model(format!("Error: the arguments of {} are an object.", self.spec.name))),
        };
        let result = self.server.call(&self.name, self.arguments.to_server_names(args), cx).await;
        results::report_foreign(cx, &self.server.name, result.as_ref().ok().and_then(results::meta));
        match result {
            Ok(result) => Ok(results::output(&result)),
            Err(CallFailure::Interrupted(interrupt)) => Err(interrupt),
            Err(CallFailure::Failed(error)) => Err(ToolError::model(format!("Error: {error}."))),
        }
    }
}

impl DynTool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self, _args: &Value) -> Effect {
        if self.reads_only { Effect::Read } else { Effect::External }
    }

    fn idempotent(&self, _args: &Value) -> bool {
        self.idempotent
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.call_server(args, &cx).await })
    }
}
