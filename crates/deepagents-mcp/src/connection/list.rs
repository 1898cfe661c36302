//! Lists a server's tools, page by page.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use serde_json::{Value, json};

use super::Connection;
use crate::error::McpError;

/// Maximum number of pages fetched.
const MAX_PAGES: usize = 200;
/// Number of tools after which no further page is fetched.
const MAX_TOOLS: usize = 5_000;

impl Connection {
    /// Fetches all tools of the server. Returns none if the server does not declare the `tools` capability. Malformed
    /// entries are skipped.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, McpError> {
        // Read before the list is fetched, so that a change during the fetch makes the list stale again.
        let changes = self.seen.list_changes();
        let mut tools: Vec<Tool> = Vec::new();
        if self.capabilities().tools.is_some() {
            let mut cursor: Option<String> = None;
            // A server that returns the same cursor twice would never end.
            let mut seen: HashSet<String> = HashSet::new();
            for _ in 0..MAX_PAGES {
                let (page, next) = self.page(cursor.clone()).await?;
                for tool in page {
                    // Of two tools with the same name, the server can call only one.
                    if !tools.iter().any(|known| known.name == tool.name) {
                        tools.push(tool);
                    }
                }
                let Some(next) = next.filter(|next| seen.insert(next.clone())) else { break };
                if tools.len() >= MAX_TOOLS {
                    break;
                }
                cursor = Some(next);
            }
        }
        self.listed.fetch_max(changes, Ordering::AcqRel);
        Ok(tools)
    }

    async fn page(&self, cursor: Option<String>) -> Result<(Vec<Tool>, Option<String>), McpError> {
        let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        match self.request(ClientRequest::ListToolsRequest(request)).await? {
            ServerResult::ListToolsResult(page) => Ok((page.tools, page.next_cursor)),
            // One malformed tool must not hide the others.
            ServerResult::CustomResult(page) => Ok(lenient(&page.0)),
            _ => Err(self.unreadable("its list of tools is not a list")),
        }
    }
}

/// Parses a page that does not match the schema, tool by tool.
fn lenient(page: &Value) -> (Vec<Tool>, Option<String>) {
    let tools = page.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools = tools.filter_map(|tool| {
        let mut tool = tool.clone();
        let fields = tool.as_object_mut()?;
        if !fields.get("inputSchema").is_some_and(Value::is_object) {
            fields.insert("inputSchema".to_owned(), json!({"type": "object"}));
        }
        let (name, description, schema) = (fields.get("name")?, fields.get("description"), fields.get("inputSchema"));
        let plain = json!({"name": name, "description": description, "inputSchema": schema});
        // The malformed field may be one that is not needed.
        serde_json::from_value(tool).or_else(|_| serde_json::from_value(plain)).ok()
    });
    (tools.collect(), page.get("nextCursor").and_then(Value::as_str).map(str::to_owned))
}
