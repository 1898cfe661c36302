//! `glob` and `grep`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use deepagents_core::tool::ToolContext;
use deepagents_fs::search::{GlobQuery, GrepFile, GrepQuery, Truncation, WalkErrors};
use deepagents_fs::{FsError, VPath};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Answered, failed, no_place, refusal, refused, unnameable_note};
use crate::middleware::filesystem::Filesystem;

/// Characters that a regular expression escapes, and letters that mean something there after a backslash.
const ESCAPED: &str = ".wWdDsSbB(){}[]|+*?^$";

/// Returns notes on what a search did not cover. `advice` is what else than narrowing it shows more.
fn notes(stopped: Option<Truncation>, advice: &str, errors: &WalkErrors) -> Vec<String> {
    let stopped = stopped.map(|stopped| match stopped {
        Truncation::Deadline => "[the time was up; narrow the path or the pattern for the rest]".to_owned(),
        _ => format!("[there is more; narrow the path or the pattern{advice}]"),
    });
    let first = errors.errors.first();
    let unseen = first.map(|first| format!("[{} places could not be searched, the first: {first}]", errors.count));
    stopped.into_iter().chain(unseen).chain(unnameable_note(errors.unnameable)).collect()
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct GlobArgs {
    /// Such as *.rs (at any depth), src/**/*.rs or *.{md,txt}.
    pattern: String,
    /// Directory to search; everything if left out.
    path: Option<String>,
    /// Leave out what .gitignore names.
    respect_gitignore: Option<bool>,
}

pub(super) async fn glob(files: Arc<Filesystem>, args: GlobArgs, cx: ToolContext) -> Answered {
    let place = files.reach_to_search(args.path.as_deref(), &cx).await?;
    let mut query = GlobQuery::new(&args.pattern, place).map_err(failed)?;
    query.scope.respect_gitignore = args.respect_gitignore.unwrap_or(files.options.respect_gitignore);
    let found = match files.workspace.backend_for(&cx).glob(cx.state(), &query).await {
        Ok(found) => found,
        // The model has given no path that the error could be about.
        Err(error @ FsError::Denied { .. }) if args.path.is_none() && error.path().is_root() => {
            let text = format!("{error}; give a path that may be read");
            return Err(refused(&text, refusal::rule_of(&error)));
        }
        Err(error) => return no_place("files", error),
    };
    let mut lines: Vec<String> = found.files.iter().map(|path| path.quoted().to_string()).collect();
    if lines.is_empty() {
        lines.push("No files found".to_owned());
    }
    Ok(files.bounded(&lines, &notes(found.truncation, "", &found.errors)).into())
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct GrepArgs {
    /// The text to look for in each line, literally unless regex is set.
    pattern: String,
    /// The pattern is a regular expression.
    #[serde(default)]
    regex: bool,
    /// Directory or file to search; everything if left out.
    path: Option<String>,
    /// Only files with such a name, as in glob.
    glob: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    /// Lines to show around each match, in mode content.
    #[serde(default)]
    context: usize,
    /// Maximum number of matches.
    max_count: Option<NonZeroUsize>,
    /// Leave out what .gitignore names.
    respect_gitignore: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

pub(super) async fn grep(files: Arc<Filesystem>, args: GrepArgs, cx: ToolContext) -> Answered {
    let place = files.reach_to_search(args.path.as_deref(), &cx).await?;
    let backend = files.workspace.backend_for(&cx);
    if args.path.is_some() && place.is_root() {
        // Without a path, whatever is readable is searched; a path that is named must be readable itself.
        backend.resolve(cx.state(), &place).await.map_err(failed)?;
    }
    let mut query = GrepQuery::new(args.pattern.clone(), place);
    // Models often pass an empty string to leave out an optional argument.
    if let Some(glob) = args.glob.as_deref().filter(|glob| !glob.is_empty()) {
        query = query.only(glob).map_err(failed)?;
    }
    query.scope.respect_gitignore = args.respect_gitignore.unwrap_or(files.options.respect_gitignore);
    query.regex = args.regex;
    query.context = if args.output_mode == OutputMode::Content { args.context } else { 0 };
    if args.output_mode == OutputMode::FilesWithMatches {
        // Further matches in a file would leave out other files.
        query.max_per_file = Some(1);
    }
    query.max_count = args.max_count.or(files.options.grep_matches).map(NonZeroUsize::get);
    let found = match backend.grep(cx.state(), &query).await {
        Ok(found) => found,
        Err(error) => return no_place("matches", error),
    };
    let mut notes = notes(found.truncation, ", or raise max_count", &found.errors);
    let mut lines: Vec<String> = match args.output_mode {
        OutputMode::FilesWithMatches => {
            let paths: BTreeSet<&VPath> = found.files.iter().map(|file| &file.path).collect();
            paths.into_iter().map(|path| path.quoted().to_string()).collect()
        }
        OutputMode::Content => found.files.iter().flat_map(content).collect(),
        OutputMode::Count => found.files.iter().map(count).collect(),
    };
    if lines.is_empty() {
        lines.push("No matches found".to_owned());
        match found.binary {
            0 => {}
            1 => notes.push("[1 binary file was not searched]".to_owned()),
            files => notes.push(format!("[{files} binary files were not searched]")),
        }
        // A search that was not finished may still find the text.
        if !args.regex && found.truncation.is_none() && looks_like_regex(&args.pattern) {
            notes.push("[the pattern was taken as text; set regex to search for a regular expression]".to_owned());
        }
    }
    Ok(files.bounded(&lines, &notes).into())
}

fn count(file: &GrepFile) -> String {
    let more = if file.truncated { "+" } else { "" };
    format!("{}: {}{more}", file.path.quoted(), file.lines.iter().filter(|line| line.matched).count())
}

/// Formats the path followed by its lines; `--` marks gaps.
fn content(file: &GrepFile) -> Vec<String> {
    let mut out = vec![format!("{}:", file.path.quoted())];
    let shows_context = file.lines.iter().any(|line| !line.matched);
    let mut last = None;
    for line in &file.lines {
        if shows_context && last.is_some_and(|last| line.number > last + 1) {
            out.push("  --".to_owned());
        }
        let mark = if line.matched { ':' } else { '-' };
        let more = if line.clipped { " [clipped]" } else { "" };
        out.push(format!("  {}{mark} {}{more}", line.number, line.text));
        last = Some(line.number);
    }
    out
}

/// Returns `true` if text that was not found is probably meant as a regular expression.
fn looks_like_regex(pattern: &str) -> bool {
    let escapes = || pattern.split('\\').skip(1).any(|rest| rest.starts_with(|next| ESCAPED.contains(next)));
    ["|", ".*", ".+"].iter().any(|sign| pattern.contains(sign)) || escapes()
}

#[cfg(test)]
mod tests {
    use deepagents_fs::search::{Truncation, WalkErrors};

    use super::{looks_like_regex, notes};

    #[test]
    fn only_a_tool_with_a_limit_is_advised_to_raise_it() {
        let shown = |advice| notes(Some(Truncation::Limit), advice, &WalkErrors::default()).concat();
        assert_eq!(shown(""), "[there is more; narrow the path or the pattern]");
        assert_eq!(
            shown(", or raise max_count"),
            "[there is more; narrow the path or the pattern, or raise max_count]"
        );
    }

    #[test]
    fn patterns_that_look_like_regular_expressions_are_recognised() {
        for pattern in ["a|b", "fn .*", "\\bword", "\\d+", "a\\+b", "cost\\$", "\\^a", "a\\?", "a\\}", "a\\]", "\\*"] {
            assert!(looks_like_regex(pattern), "{pattern}");
        }
        for pattern in ["main()", "a.b", "C:\\temp"] {
            assert!(!looks_like_regex(pattern), "{pattern}");
        }
    }
}
