//! Selects the tools of a server that are offered.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Globs over a server's own tool names. A tool is offered if it matches an allowed glob, or no allowed globs are
/// given, and it matches no disabled glob.
///
/// ```
/// use deepagents_mcp::ToolFilter;
/// let filter = ToolFilter::new(Some(&["read_*"]), &["read_secret"])?;
/// assert!(filter.offers("read_notes") && !filter.offers("read_secret") && !filter.offers("write"));
/// # Ok::<(), deepagents_mcp::FilterError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    allowed: Option<GlobSet>,
    disabled: GlobSet,
}

/// An invalid glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a valid glob: {reason}")]
pub struct FilterError {
    glob: String,
    reason: String,
}

impl ToolFilter {
    /// Creates a filter that offers the tools matching `allowed`, or all if it is `None`, except those matching
    /// `disabled`.
    ///
    /// # Errors
    /// Returns an error if a glob is invalid.
    pub fn new<S: AsRef<str>>(allowed: Option<&[S]>, disabled: &[S]) -> Result<Self, FilterError> {
        Ok(Self { allowed: allowed.map(set).transpose()?, disabled: set(disabled)? })
    }

    /// Whether there are tools, but none matches an allowed glob.
    pub(crate) fn admits_none<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> bool {
        let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.is_empty()) else { return false };
        let mut tools = tools.into_iter().peekable();
        tools.peek().is_some() && !tools.any(|tool| allowed.is_match(tool))
    }

    /// Whether a tool is offered.
    pub fn offers(&self, tool: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(tool)) && !self.disabled.is_match(tool)
    }
}

fn set<S: AsRef<str>>(globs: &[S]) -> Result<GlobSet, FilterError> {
    let failed =
        |glob: &str, error: &globset::Error| FilterError { glob: glob.to_owned(), reason: error.kind().to_string() };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob.as_ref()).map_err(|error| failed(glob.as_ref(), &error))?);
    }
    set.build().map_err(|error| failed(error.glob().unwrap_or_default(), &error))
}
