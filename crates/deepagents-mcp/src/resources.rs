//! Fetches resources and prompts of servers on demand.

use std::sync::Arc;

use deepagents_core::message::Block;
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, tool_fn};
use futures_util::future::join_all;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::connection::Connection;
use crate::error::McpError;
use crate::results;
use crate::servers::{McpServers, Server};
use crate::text;

/// Maximum number of pages fetched per list.
const MAX_PAGES: usize = 20;
/// Maximum number of lines per server in a list for the model.
const MAX_LINES: usize = 200;

/// A prompt of a server, for a person to choose.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct McpPrompt {
    /// Name of the server.
    pub server: String,
    /// Name of the prompt.
    pub name: String,
    /// What the prompt is for.
    pub description: String,
    /// The names of its arguments, each with whether it is required.
    pub arguments: Vec<(String, bool)>,
}

#[derive(Deserialize, JsonSchema)]
struct ListArgs {
    /// Only those of this server
    server: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadArgs {
    /// The server that has it
    server: String,
    /// Its address, as listed
    uri: String,
}

/// The tools that list and read resources. Offered if any server has resources.
pub(crate) fn tools(servers: &McpServers) -> [Arc<dyn DynTool>; 2] {
    // The servers cache this tool set, so a handle to them here would be a reference cycle.
    let all: Vec<Arc<Server>> = servers.servers().to_vec();
    let list = {
        let all = all.clone();
        tool_fn("mcp__list_resources", "Lists the resources of MCP servers.", move |args: ListArgs, cx: ToolContext| {
            let wanted = all.iter().filter(|server| args.server.as_ref().is_none_or(|name| *name == server.name));
            let wanted: Vec<Arc<Server>> = wanted.filter(|server| has_resources(server)).cloned().collect();
            async move {
                let listed = listed(&wanted).await;
                results::report_foreign(&cx, "resources", None);
                Ok::<_, ToolError>(ToolOutput::text(listed))
            }
        })
    };
    let read =
        tool_fn("mcp__read_resource", "Reads a resource of an MCP server.", move |args: ReadArgs, cx: ToolContext| {
            let server = all.iter().find(|server| server.name == args.server).cloned();
            async move {
                let server = server
                    .ok_or_else(|| ToolError::model(format!("Error: there is no MCP server `{}`.", args.server)))?;
                let result = read(&server, &args.uri).await?;
                let contents = result.get("contents").and_then(Value::as_array).into_iter().flatten();
                let mut blocks: Vec<Block> = contents.map(results::resource).collect();
                if blocks.is_empty() {
                    blocks.push(Block::text("(no content)"));
                }
                results::report_foreign(&cx, &server.name, results::meta(&result));
                Ok::<_, ToolError>(ToolOutput::blocks(blocks))
            }
        });
    [Arc::new(list.effect(Effect::Read)), Arc::new(read.effect(Effect::Read))]
}

fn has_resources(server: &Server) -> bool {
    server.known().is_some_and(|known| known.resources)
}

/// Lists the resources of servers, one per line.
async fn listed(servers: &[Arc<Server>]) -> String {
    let parts = join_all(servers.iter().map(|server| async move {
        match lines(server).await {
            Ok(lines) => format!("{}:\n{lines}", server.name),
            Err(error) => format!("{}: {error}", server.name),
        }
    }));
    let parts = parts.await;
    if parts.is_empty() { "No MCP server has resources.".to_owned() } else { parts.join("\n") }
}

async fn lines(server: &Arc<Server>) -> Result<String, McpError> {
    let connection = server.connection().await?;
    let resources = |params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..ListResourcesRequest::default() })
    };
    let templates = |params| {
        let request = ListResourceTemplatesRequest { params, ..ListResourceTemplatesRequest::default() };
        ClientRequest::ListResourceTemplatesRequest(request)
    };
    let mut lines: Vec<String> = entries(&connection, "resources", resources).await?.iter().map(line).collect();
    // Many servers have resources but no templates, and return an error for them.
    let found = entries(&connection, "resourceTemplates", templates).await.unwrap_or_default();
    lines.extend(found.iter().map(line));
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("  … and {more} more"));
    }
    Ok(if lines.is_empty() { "  (none)".to_owned() } else { lines.join("\n") })
}

/// Fetches all pages of a list. Malformed entries are skipped.
async fn entries(
    connection: &Connection,
    name: &str,
    request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
) -> Result<Vec<Value>, McpError> {
    let mut all = Vec::new();
    let read = |page: ServerResult| {
        let page = serde_json::to_value(page).unwrap_or_default();
        match page.get(name) {
            Some(Value::Array(entries)) => all.extend(entries.iter().filter(|entry| entry.is_object()).cloned()),
            None | Some(Value::Null) => {}
            Some(_) => return Err(connection.unreadable(&format!("its list of {name} is not a list"))),
        }
        Ok(page.get("nextCursor").and_then(Value::as_str).map(str::to_owned))
    };
    connection.read_pages(MAX_PAGES, request, read).await?;
    Ok(all)
}

/// Returns a string field of an entry, or an empty string.
fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Formats a resource or resource template as a line.
fn line(entry: &Value) -> String {
    let uri = [field(entry, "uri"), field(entry, "uriTemplate")].into_iter().find(|uri| !uri.is_empty());
    let named = |name: &str| Some(text::line(field(entry, name), 200)).filter(|words| !words.is_empty());
    let name = named("name").or_else(|| named("title")).map(|name| format!(" ({name})")).unwrap_or_default();
    let description = named("description").map(|words| format!(": {words}")).unwrap_or_default();
    format!("  {}{name}{description}", text::line(uri.unwrap_or_default(), 1_000))
}

async fn read(server: &Arc<Server>, uri: &str) -> Result<Value, McpError> {
    let connection = server.connection().await?;
    let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
    let result = connection.request(ClientRequest::ReadResourceRequest(request)).await?;
    Ok(serde_json::to_value(result).unwrap_or_default())
}

impl McpServers {
    /// Returns the prompts of all servers that can be reached, by server and name.
    pub async fn prompts(&self) -> Vec<McpPrompt> {
        let all = join_all(self.servers().iter().map(|server| async move {
            let connection = server.connection().await.ok()?;
            prompts(&server.name, &connection).await.ok()
        }));
        all.await.into_iter().flatten().flatten().collect()
    }

    /// Returns the text of a prompt, rendered with these arguments.
    ///
    /// # Errors
    /// Returns an error if no server has this name, it cannot be reached, or it refuses the request.
    pub async fn prompt(&self, server: &str, name: &str, arguments: Map<String, Value>) -> Result<String, McpError> {
        let connection = self.server(server)?.connection().await?;
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let result = connection.request(ClientRequest::GetPromptRequest(GetPromptRequest::new(params))).await?;
        let result = serde_json::to_value(result).unwrap_or_default();
        let messages = result.get("messages").and_then(Value::as_array).into_iter().flatten();
        let texts = messages.flat_map(|message| match message.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().map(results::as_text).collect::<Vec<_>>(),
            Some(block) => vec![results::as_text(block)],
            None => Vec::new(),
        });
        Ok(texts.map(|text| text::visible(&text)).collect::<Vec<_>>().join("\n\n"))
    }
}

async fn prompts(server: &str, connection: &Connection) -> Result<Vec<McpPrompt>, McpError> {
    if connection.capabilities().prompts.is_none() {
        return Ok(Vec::new());
    }
    let request =
        |params| ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..ListPromptsRequest::default() });
    let listed = entries(connection, "prompts", request).await?;
    // A prompt without a name cannot be requested.
    let named = listed.iter().filter(|prompt| !field(prompt, "name").is_empty());
    Ok(named.map(|prompt| listed_prompt(server, prompt)).collect())
}

fn listed_prompt(server: &str, prompt: &Value) -> McpPrompt {
    let described = Some(field(prompt, "description")).filter(|words| !words.is_empty());
    let arguments = prompt.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let needed = |argument: &Value| argument.get("required").and_then(Value::as_bool) == Some(true);
    McpPrompt {
        server: server.to_owned(),
        name: field(prompt, "name").to_owned(),
        description: text::line(described.unwrap_or_else(|| field(prompt, "title")), 300),
        arguments: arguments.map(|argument| (field(argument, "name").to_owned(), needed(argument))).collect(),
    }
}
