//! `{a,b}` and `{1..3}` in globs.

use std::ops::RangeInclusive;

/// A pattern stands for at most so many.
const MOST: usize = 1000;

/// All that a pattern with braces stands for; none if that is too many. Braces without a comma or range stay.
pub(super) fn expand(pattern: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut todo = vec![(String::new(), pattern.to_owned())];
    while let Some((before, rest)) = todo.pop() {
        match split(&rest) {
            None => done.push(before + &rest),
            // A choice may hold braces itself, so it is looked through again.
            Some((head, choices, tail)) => todo
                .extend(choices.into_iter().rev().map(|choice| (format!("{before}{head}"), format!("{choice}{tail}")))),
        }
        if todo.len() + done.len() > MOST {
            return None;
        }
    }
    Some(done)
}

/// The text before the first group, its choices, and the text behind it.
fn split(text: &str) -> Option<(&str, Vec<String>, &str)> {
    special(text).filter(|(_, c)| *c == '{').find_map(|(open, _)| {
        let (choices, tail) = group(text.get(open + 1..)?)?;
        Some((text.get(..open)?, choices, tail))
    })
}

/// The choices of a group from behind its brace, and the text behind it.
fn group(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut depth, mut start, mut choices) = (0_usize, 0, Vec::new());
    for (at, c) in special(text) {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let (choice, rest) = (text.get(start..at)?, text.get(at + 1..)?);
                if c == '}' && choices.is_empty() {
                    return Some((range(choice)?, rest));
                }
                choices.push(choice.to_owned());
                if c == '}' {
                    return Some((choices, rest));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// The characters of a text that no backslash stands before, and where they are.
fn special(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.char_indices().filter(move |(_, c)| {
        let plain = !escaped;
        escaped = plain && *c == '\\';
        plain
    })
}

/// `1..3`, `a..c`, also downwards.
fn range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(first), Ok(last)) => Some(span(first, last)),
        _ => Some(span(first.parse::<char>().ok()?, last.parse::<char>().ok()?)),
    }
}

/// All from one to another, or one more than a pattern may stand for.
fn span<T: ToString + PartialOrd>(first: T, last: T) -> Vec<String>
where
    RangeInclusive<T>: DoubleEndedIterator<Item = T>,
{
    let text = |item: T| item.to_string();
    if first <= last {
        (first..=last).take(MOST + 1).map(text).collect()
    } else {
        (last..=first).rev().take(MOST + 1).map(text).collect()
    }
}
