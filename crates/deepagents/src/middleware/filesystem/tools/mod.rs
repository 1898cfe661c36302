//! The file tools.

mod change;
mod execute;
mod read;
mod search;

use deepagents_core::tool::{Effect, ToolContext, ToolError, ToolOutput};
use deepagents_fs::{FsError, VPath};

use super::Filesystem;
use super::evict::KEPT;

pub(super) use change::{Delete, EditFile, WriteFile};
pub(super) use execute::Execute;
pub(super) use read::{Ls, ReadFile};
pub(super) use search::{Glob, Grep};

const CHARS_PER_TOKEN: usize = 4;

/// Characters of an error at most: what it quotes came from the model, which may have sent a lot.
const LONGEST_ERROR: usize = 4_000;

pub(super) fn failed(error: impl std::fmt::Display) -> ToolError {
    let text = format!("Error: {error}");
    ToolError::model(match text.char_indices().nth(LONGEST_ERROR) {
        Some((end, _)) => format!("{} [cut]", text.get(..end).unwrap_or_default()),
        None => text,
    })
}

/// A failure of a call about a path, which is named where the error is about another one, such as a file on the way.
fn failed_at<E: std::fmt::Display>(path: &VPath) -> impl FnOnce(E) -> ToolError {
    move |error| {
        let text = error.to_string();
        if text.contains(path.as_str()) { failed(text) } else { failed(format!("{path}: {text}")) }
    }
}

/// The answer where there is no place to look in: nothing was found, and why.
fn no_place(what: &str, error: FsError) -> Result<ToolOutput, ToolError> {
    match error {
        FsError::NotFound { .. } | FsError::NotADirectory { .. } => Ok(format!("No {what} found: {error}").into()),
        error => Err(failed(error)),
    }
}

/// Characters for a number of tokens, if that is a limit.
fn chars(tokens: Option<usize>) -> Option<usize> {
    tokens.filter(|&tokens| tokens > 0).map(|tokens| tokens.saturating_mul(CHARS_PER_TOKEN))
}

/// What an operation does with a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtLink {
    /// It goes where the link leads.
    Follows,
    /// It is about the link itself.
    Stays,
}

impl Filesystem {
    /// A path as the model gave it, if the tools reach it and where it leads.
    async fn reach(&self, path: &str, cx: &ToolContext) -> Result<VPath, ToolError> {
        let path = self.named(path)?;
        if !self.options.allowed_prefixes.is_empty() {
            self.check_place(&path, &self.place(&path, AtLink::Follows, cx).await?)?;
        }
        Ok(path)
    }

    /// A path that may be changed: what the harness keeps for the agent may not.
    async fn reach_to_change(&self, path: &str, at_link: AtLink, cx: &ToolContext) -> Result<VPath, ToolError> {
        let path = self.named(path)?;
        let place = self.place(&path, at_link, cx).await?;
        self.check_place(&path, &place)?;
        for kept in KEPT {
            let kept = VPath::parse(kept).map_err(failed)?;
            if [&path, &place].iter().any(|path| path.starts_with(&kept) || kept.starts_with(path)) {
                return Err(failed(format!("{path} holds what is kept for you and cannot be changed")));
            }
        }
        Ok(path)
    }

    /// The path to search, given what the model said: where the tools reach one directory alone, that.
    async fn reach_to_search(&self, path: Option<&str>, cx: &ToolContext) -> Result<VPath, ToolError> {
        match (path, &self.options.allowed_prefixes[..]) {
            (None, [only]) => self.reach(only.as_str(), cx).await,
            (path, _) => self.reach(path.unwrap_or("/"), cx).await,
        }
    }

    fn named(&self, path: &str) -> Result<VPath, ToolError> {
        let path = VPath::parse(path).map_err(failed)?;
        if self.within(&path) {
            return Ok(path);
        }
        let allowed: Vec<&str> = self.options.allowed_prefixes.iter().map(VPath::as_str).collect();
        Err(failed(format!("{path} is out of reach; give a path below {}", allowed.join(" or "))))
    }

    fn within(&self, path: &VPath) -> bool {
        let allowed = &self.options.allowed_prefixes;
        allowed.is_empty() || allowed.iter().any(|prefix| path.starts_with(prefix))
    }

    fn check_place(&self, path: &VPath, place: &VPath) -> Result<(), ToolError> {
        if self.within(place) { Ok(()) } else { Err(failed(format!("{path} leads out of reach"))) }
    }

    /// Where a path leads.
    async fn place(&self, path: &VPath, at_link: AtLink, cx: &ToolContext) -> Result<VPath, ToolError> {
        let backend = self.workspace.of(cx);
        let (from, name) = match (at_link, path.parent(), path.name()) {
            (AtLink::Stays, Some(parent), Some(name)) => (parent, Some(name)),
            _ => (path.clone(), None),
        };
        let place = match backend.resolve(cx.state(), &from).await {
            // Rules that keep this from being read may let it be written; they judge that themselves.
            Err(FsError::Denied { .. }) if self.options.allowed_prefixes.is_empty() => return Ok(path.clone()),
            result => result.map_err(failed_at(path))?,
        };
        // A name of one path can be that of another.
        Ok(name.and_then(|name| place.join(name).ok()).unwrap_or(place))
    }
}

/// A write to this path, so that two calls of one turn do not overtake each other; an illegal path touches nothing.
fn writes(path: &str) -> Effect {
    VPath::parse(path).map_or(Effect::Read, |path| Effect::write(path.as_str()))
}

impl Filesystem {
    /// Characters that a result may have, if there is a limit.
    pub(super) fn budget(&self) -> Option<usize> {
        chars(self.options.result_tokens)
    }

    /// Lines as one text within the budget of listings, with notes on what is left out.
    fn bounded(&self, lines: &[String], notes: &[String]) -> String {
        let budget = chars(self.options.listing_tokens).unwrap_or(usize::MAX);
        let mut out = String::new();
        let mut chars = 0;
        for (shown, line) in lines.iter().enumerate() {
            chars += line.chars().count() + 1;
            if chars > budget {
                out += &format!("[{} more lines are not shown; ask for less]\n", lines.len() - shown);
                break;
            }
            out += line;
            out.push('\n');
        }
        for note in notes {
            out += note;
            out.push('\n');
        }
        out.pop();
        out
    }
}
