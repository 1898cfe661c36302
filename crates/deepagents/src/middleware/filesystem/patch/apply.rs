//! Applies hunks to a text.

use super::{Hunk, HunkLine};

/// Maximum number of line comparisons for the hunks of one file, because a model may send anything as a patch.
const MAX_COMPARISONS: usize = 20_000_000;
/// Maximum number of lines of a hunk to quote in an error.
const MAX_QUOTED_LINES: usize = 3;

/// An error from applying a hunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HunkError {
    /// A context line above the hunk was not found.
    #[error("hunk {hunk}: there is no line `{line}` after line {after}; hunks stand in the order of the file")]
    NoContext {
        /// The number of the hunk, from 1.
        hunk: usize,
        /// The missing line.
        line: String,
        /// The line after which the search started, from 1; 0 for the beginning.
        after: usize,
    },
    /// The lines of the hunk were not found.
    #[error("hunk {hunk}: its lines are not there{}, from line {from} on; they begin with\n{lines}", if *.at_end { " at the end" } else { "" })]
    NotFound {
        /// The number of the hunk, from 1.
        hunk: usize,
        /// The first lines of the hunk.
        lines: String,
        /// The line at which the search started, from 1.
        from: usize,
        /// Whether they had to be at the end of the file.
        at_end: bool,
    },
    /// The lines of the hunk occur several times.
    #[error(
        "hunk {hunk}: its lines are there several times, first at the lines {first} and {second}; put `@@ LINE` with a line that stands above the place before them, or more lines around them"
    )]
    NotUnique {
        /// The number of the hunk, from 1.
        hunk: usize,
        /// The first occurrence.
        first: usize,
        /// The second occurrence.
        second: usize,
    },
    /// Finding the lines takes too many comparisons.
    #[error("hunk {0}: finding its place takes too long; put `@@ LINE` before it, or fewer lines into it")]
    TooMuchWork(usize),
}

/// How to compare lines, from strict to lenient: exactly, ignoring trailing whitespace, ignoring lookalike characters.
const LEVELS: [fn(&str, &str) -> bool; 3] =
    [|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), |a, b| plain(a.trim_end()).eq(plain(b.trim_end()))];

/// Maps typographic characters to their keyboard equivalents, which models often write instead.
fn plain(line: &str) -> impl Iterator<Item = char> {
    line.chars().map(|c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    })
}

/// Returns a line without its line ending.
fn body(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The lines of a text while it is changed.
struct Lines<'a> {
    all: Vec<&'a str>,
    /// Number of lines that are done.
    done: usize,
    /// Remaining number of comparisons.
    work: usize,
}

impl Lines<'_> {
    /// Returns whether these lines are at a position, or `None` if the comparisons are used up.
    fn are_at(&mut self, at: usize, wanted: &[&str], alike: fn(&str, &str) -> bool) -> Option<bool> {
        let there = self.all.get(at..)?;
        if there.len() < wanted.len() {
            return Some(false);
        }
        for (there, wanted) in there.iter().zip(wanted) {
            self.work = self.work.checked_sub(1)?;
            if !alike(body(there), wanted) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns the line after the context lines above a hunk.
    fn below(&mut self, hunk: &Hunk, number: usize) -> Result<usize, HunkError> {
        let mut from = self.done;
        for line in &hunk.above {
            let wanted = line.trim();
            let is_it = |there: &&str| body(there).trim() == wanted;
            let found = self.all.iter().skip(from).position(is_it);
            let missing = || HunkError::NoContext { hunk: number, line: line.chars().take(200).collect(), after: from };
            from = from + found.ok_or_else(missing)? + 1;
        }
        Ok(from)
    }

    /// Finds the position of the lines, starting at `from`. Without context lines above, it must be unique.
    fn find(&mut self, hunk: &Hunk, wanted: &[&str], from: usize, number: usize) -> Result<Option<usize>, HunkError> {
        let last = self.all.len().checked_sub(wanted.len());
        let places = match last {
            None => 0..0,
            Some(last) if hunk.at_end => last.max(from)..last.saturating_add(1),
            Some(last) => from..last.saturating_add(1),
        };
        for alike in LEVELS {
            let mut found: Option<usize> = None;
            for at in places.clone() {
                if !self.are_at(at, wanted, alike).ok_or(HunkError::TooMuchWork(number))? {
                    continue;
                }
                if let Some(first) = found {
                    return Err(HunkError::NotUnique { hunk: number, first: first + 1, second: at + 1 });
                }
                found = Some(at);
                if !hunk.above.is_empty() {
                    break;
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Applies all hunks to the text, or none. Unchanged lines keep their bytes. Added lines get the line ending of the
/// first line, and a missing line ending at the end of the text stays missing.
pub(in super::super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, HunkError> {
    let mut lines = Lines { all: text.split_inclusive('\n').collect(), done: 0, work: MAX_COMPARISONS };
    let end = if lines.all.first().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let mut out = String::with_capacity(text.len());
    for (number, hunk) in (1..).zip(hunks) {
        let from = lines.below(hunk, number)?;
        let mut changes = hunk.lines.as_slice();
        let mut wanted: Vec<&str> = changes.iter().filter_map(expected).collect();
        let at = if wanted.is_empty() {
            // Only additions: insert below the context line above them, or at the end.
            if hunk.above.is_empty() || hunk.at_end { lines.all.len() } else { from }
        } else {
            let mut found = lines.find(hunk, &wanted, from, number)?;
            if let (None, Some((HunkLine::Context(last), rest))) = (found, changes.split_last())
                && last.is_empty()
                && wanted.len() > 1
            {
                // A trailing empty line often belongs to the patch rather than to the file.
                (changes, _) = (rest, wanted.pop());
                found = lines.find(hunk, &wanted, from, number)?;
            }
            found.ok_or_else(|| HunkError::NotFound {
                hunk: number,
                lines: wanted
                    .iter()
                    .take(MAX_QUOTED_LINES)
                    .map(|line| format!("{line:.200}"))
                    .collect::<Vec<_>>()
                    .join("\n"),
                from: from + 1,
                at_end: hunk.at_end,
            })?
        };
        out.extend(lines.all.get(lines.done..at).unwrap_or_default().iter().copied());
        lines.done = at;
        for change in changes {
            match change {
                HunkLine::Context(_) => out.push_str(lines.all.get(lines.done).copied().unwrap_or_default()),
                HunkLine::Remove(_) => {}
                HunkLine::Add(line) => {
                    if !out.is_empty() && !out.ends_with('\n') {
                        out.push_str(end);
                    }
                    out.push_str(line);
                    out.push_str(end);
                }
            }
            lines.done += usize::from(expected(change).is_some());
        }
    }
    out.extend(lines.all.get(lines.done..).unwrap_or_default().iter().copied());
    if !text.is_empty() && !text.ends_with('\n') && out.ends_with(end) {
        out.truncate(out.len() - end.len());
    }
    Ok(out)
}

/// Returns the line of the file that a hunk line expects.
fn expected(line: &HunkLine) -> Option<&str> {
    match line {
        HunkLine::Context(line) | HunkLine::Remove(line) => Some(line),
        HunkLine::Add(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{FileChange, Patch};
    use super::*;

    fn patched(text: &str, hunks: &str) -> Result<String, HunkError> {
        let patch =
            Patch::parse(&format!("*** Begin Patch\n*** Update File: /a\n{hunks}\n*** End Patch")).expect("a patch");
        let Some(FileChange::Update { hunks, .. }) = patch.changes.first() else { panic!("an update") };
        apply(text, hunks)
    }

    const TEXT: &str = "fn a() {\n    one();\n}\n\nfn b() {\n    one();\n}\n";

    #[test]
    fn a_context_line_selects_the_place_and_without_it_the_match_must_be_unique() {
        let change = "-    one();\n+    two();";
        let want = "fn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n";
        assert_eq!(patched(TEXT, &format!("@@ fn b() {{\n{change}")).unwrap(), want);
        assert_eq!(patched(TEXT, change), Err(HunkError::NotUnique { hunk: 1, first: 2, second: 6 }));
        assert_eq!(patched(TEXT, &format!("@@\n fn b() {{\n{change}")).unwrap(), want);
        let missing = patched(TEXT, &format!("@@ fn c() {{\n{change}")).unwrap_err();
        assert!(missing.to_string().contains("no line `fn c() {`"), "{missing}");
    }

    #[test]
    fn hunks_apply_in_file_order_and_all_or_none() {
        let both = "@@ fn a() {\n-    one();\n+    1();\n@@ fn b() {\n-    one();\n+    2();";
        assert_eq!(patched(TEXT, both).unwrap(), "fn a() {\n    1();\n}\n\nfn b() {\n    2();\n}\n");
        let backwards = "@@ fn b() {\n-    one();\n+    2();\n@@ fn a() {\n-    one();\n+    1();";
        assert!(matches!(patched(TEXT, backwards), Err(HunkError::NoContext { hunk: 2, .. })));
    }

    #[test]
    fn pure_insertions_go_below_the_context_line_or_at_the_end() {
        assert_eq!(patched("a\nb\n", "@@ a\n+x").unwrap(), "a\nx\nb\n");
        assert_eq!(patched("a\nb\n", "+x").unwrap(), "a\nb\nx\n");
        assert_eq!(patched("", "+x").unwrap(), "x\n");
        assert_eq!(patched("a\nb\na\n", " a\n+x\n*** End of File").unwrap(), "a\nb\na\nx\n");
        assert!(matches!(patched("a\nb\n", " a\n+x\n*** End of File"), Err(HunkError::NotFound { at_end: true, .. })));
    }

    #[test]
    fn line_endings_and_the_final_newline_are_preserved() {
        assert_eq!(patched("a\r\nb\r\n", "-b\n+c").unwrap(), "a\r\nc\r\n");
        assert_eq!(patched("a\nb", "-b\n+c").unwrap(), "a\nc");
        assert_eq!(patched("a\nb", " b\n+c").unwrap(), "a\nb\nc");
        assert_eq!(patched("a\nb", "-a\n+c").unwrap(), "c\nb");
    }

    #[test]
    fn trailing_blanks_and_lookalikes_match_and_context_keeps_its_bytes() {
        assert_eq!(patched("a  \nb \u{2013} c\nd\n", " a\n b - c\n-d\n+e").unwrap(), "a  \nb \u{2013} c\ne\n");
        // Indentation must match, or the new lines would be at the wrong depth.
        assert!(matches!(patched("    a\n", "-a\n+b"), Err(HunkError::NotFound { .. })));
        assert_eq!(patched("a\nb\n", "-a\n+c\n\n@@ b\n+d").unwrap(), "c\nb\nd\n");
    }

    #[test]
    fn a_place_that_takes_too_long_to_find_is_rejected() {
        let text = "a\n".repeat(60_000);
        let hunk = format!("{}-b\n+c", " a\n".repeat(30_000));
        assert_eq!(patched(&text, &hunk), Err(HunkError::TooMuchWork(1)));
    }

    /// Distinct lines, some of which change.
    fn changes() -> impl Strategy<Value = Vec<(String, Option<Vec<String>>)>> {
        let line = "[a-z{} ]{0,6}";
        let change = prop::option::weighted(0.2, prop::collection::vec(line, 0..3));
        prop::collection::vec((line, change), 1..40).prop_map(|lines| {
            let numbered = lines.into_iter().enumerate();
            numbered.map(|(at, (line, change))| (format!("{line}{at}"), change)).collect()
        })
    }

    proptest! {
        #[test]
        fn a_patch_generated_from_two_texts_turns_one_into_the_other(
            lines in changes(), end in prop::sample::select(vec!["\n", "\r\n"]), ends in any::<bool>()
        ) {
            let joined = |lines: Vec<String>| {
                let text = lines.join(end);
                if ends && !text.is_empty() { text + end } else { text }
            };
            let old = joined(lines.iter().map(|(line, _)| line.clone()).collect());
            let new: Vec<String> = lines
                .iter()
                .flat_map(|(line, change)| change.clone().unwrap_or_else(|| vec![line.clone()]))
                .collect();
            prop_assume!(lines.iter().any(|(_, change)| change.is_some()) && !new.is_empty());
            // Without any line ending, the style is unknown.
            prop_assume!(end == "\n" || old.contains(end));
            let hunks: Vec<String> = lines
                .iter()
                .filter_map(|(line, change)| {
                    let comes: String = change.as_ref()?.iter().map(|line| format!("+{line}\n")).collect();
                    Some(format!("@@\n-{line}\n{comes}"))
                })
                .collect();
            // If the last lines are removed, the text ends as the line before did.
            let got = patched(&old, hunks.concat().trim_end_matches('\n')).unwrap();
            let want = joined(new);
            prop_assert_eq!(got.trim_end_matches(['\r', '\n']), want.trim_end_matches(['\r', '\n']));
        }

        #[test]
        fn any_input_is_a_patch_or_an_error(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: /a|Update File: b|Delete File: \\.\\./c|Move to: d|End of File)\n|@@ ?[a-c]?\n|[ +-]?[a-cé]{0,3}\n){0,12}", file in "([a-c]{0,2}\r?\n){0,8}") {
            for text in [text.clone(), format!("*** Begin Patch\n{text}*** End Patch")] {
                if let Ok(patch) = Patch::parse(&text) {
                    for change in &patch.changes {
                        if let FileChange::Update { hunks, .. } = change {
                            let _ = apply(&file, hunks);
                        }
                    }
                }
            }
        }
    }
}
