//! Checks that tools are the ones that were agreed to.

use std::sync::Arc;

use super::Server;
use crate::error::McpError;
use crate::options::ToolReview;
use crate::tool::McpTool;

impl Server {
    /// Reviews a tool as the server lists it now, if there is a review.
    pub(super) fn review_tool(self: &Arc<Self>, tool: &str) -> Result<(), McpError> {
        let Some(known) = self.known().filter(|_| self.review().is_some()) else { return Ok(()) };
        let Some(listed) = known.tools.iter().find(|listed| listed.name == tool) else { return Ok(()) };
        let looked_at = match (&listed.arguments, McpTool::new(self, listed)) {
            (_, Some(listed)) => self.reviewed(&listed),
            // A tool that cannot be offered any more cannot be reviewed.
            (Err(why), None) => Err(format!("the tool {tool} has changed: {why}")),
            (Ok(_), None) => Ok(()),
        };
        looked_at.map_err(|reason| McpError::Withheld { server: self.name.clone(), reason })
    }

    /// Whether the review, if there is one, lets a tool be offered.
    pub(in crate::servers) fn reviewed(&self, tool: &McpTool) -> Result<(), String> {
        self.review().map_or(Ok(()), |review| review.check(&self.name, &tool.annotated_spec()))
    }

    fn review(&self) -> Option<&ToolReview> {
        self.shared.options.review.as_ref()
    }
}
