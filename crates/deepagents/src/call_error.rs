//! A call of a tool that fails its run, in the words that the model would have been told.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use deepagents_core::error::Error;
use deepagents_core::middleware::ToolResponse;

/// Any error of a tool.
type ToolCause = dyn StdError + Send + Sync + 'static;

/// Words, and the error behind them: whoever looks for its type finds it.
#[derive(Debug)]
pub(crate) struct CallError {
    text: String,
    source: Option<Arc<ToolCause>>,
}

impl CallError {
    /// Makes a failed call the end of its run.
    pub(crate) fn ending(tool: String, text: String, response: ToolResponse) -> Error {
        Error::Tool { name: tool, source: Box::new(Self { text, source: response.source }) }
    }

    /// The error that came out of a tool, with which a run is to end.
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
