//! Which tools of a server are offered.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Globs over the server's own names of its tools. A tool is offered if it matches an allowed glob, or none are given,
/// and no disabled one.
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

/// A glob that is none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{glob}` is not a valid glob: {reason}")]
pub struct FilterError {
    glob: String,
    reason: String,
}

impl ToolFilter {
    /// Offers what matches `allowed`, or everything, less what matches `disabled`.
    ///
    /// # Errors
    /// When one of them is no glob.
    pub fn new<S: AsRef<str>>(allowed: Option<&[S]>, disabled: &[S]) -> Result<Self, FilterError> {
        Ok(Self { allowed: allowed.map(set).transpose()?, disabled: set(disabled)? })
    }

    /// Whether there are tools and no allowed glob, of those that are given, matches one.
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
