//! Lists a server's tools, page by page.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use serde_json::{Value, json};

use super::Connection;
use crate::error::McpError;

/// Maximum number of pages fetched.
const MAX_PAGES: usize = 200;
/// Maximum number of tools. Further ones are left out.
const MAX_TOOLS: usize = 5_000;

impl Connection {
    /// Fetches all tools of the server. Returns none if the server does not declare the `tools` capability. Malformed
    /// entries are skipped.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, McpError> {
        // Read before the list is fetched, so that a change during the fetch makes the list stale again.
        let changes = self.seen.list_changes();
        let (mut tools, mut names) = (Vec::new(), HashSet::new());
        if self.capabilities().tools.is_some() {
            let request =
                |params| ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() });
            let read = |page| {
                let (page, next) = match page {
                    ServerResult::ListToolsResult(page) => (page.tools, page.next_cursor),
                    // One malformed tool must not hide the others.
                    ServerResult::CustomResult(page) => lenient(&page.0),
                    _ => return Err(self.unreadable("its list of tools is not a list")),
                };
                // Of two tools with the same name, the server can call only one.
                let others = page.into_iter().filter(|tool| names.insert(tool.name.clone()));
                tools.extend(others.take(MAX_TOOLS - tools.len()));
                Ok(next.filter(|_| tools.len() < MAX_TOOLS))
            };
            self.read_pages(MAX_PAGES, request, read).await?;
        }
        self.listed.fetch_max(changes, Ordering::AcqRel);
        Ok(tools)
    }

    /// Fetches at most `most` pages of a list. `read` takes a page and returns the cursor of the next one.
    pub(crate) async fn read_pages(
        &self,
        most: usize,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
        mut read: impl FnMut(ServerResult) -> Result<Option<String>, McpError>,
    ) -> Result<(), McpError> {
        let mut params = None;
        // A server that returns the same cursor twice would never end.
        let mut seen: HashSet<String> = HashSet::new();
        for _ in 0..most {
            let next = read(self.request(request(params)).await?)?;
            let Some(next) = next.filter(|next| seen.insert(next.clone())) else { break };
            params = Some(PaginatedRequestParams::default().with_cursor(Some(next)));
        }
        Ok(())
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
