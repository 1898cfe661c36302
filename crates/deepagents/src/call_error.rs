//! Errors of tool calls that fail the run, with the text that the model would have been shown.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use deepagents_core::error::Error;
use deepagents_core::middleware::ToolResponse;

/// Any error of a tool.
type ToolCause = dyn StdError + Send + Sync + 'static;

/// A message and the error that caused it, so that callers can downcast the source.
#[derive(Debug)]
pub(crate) struct CallError {
    text: String,
    source: Option<Arc<ToolCause>>,
}

impl CallError {
    /// Turns a failed call into the error that ends its run.
    pub(crate) fn ending(tool: String, text: String, response: ToolResponse) -> Error {
        Error::Tool { name: tool, source: Box::new(Self { text, source: response.source }) }
    }

    /// Returns the original error of a tool that is to end the run.
    pub(crate) fn cause(error: &ToolCause) -> Option<&ToolCause> {
        match error.downcast_ref::<Self>() {
            Some(own) => own.source.as_deref(),
            None => Some(error),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for CallError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
