//! `{a,b}` and `{1..3}` in globs.

/// A pattern stands for at most so many.
const MOST: usize = 1000;

/// All that a pattern with braces stands for; none if that is too many. Braces without a comma or range stay.
pub(super) fn expand(pattern: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut todo = vec![(String::new(), pattern.to_owned())];
    while let Some((before, rest)) = todo.pop() {
        match split(&rest) {
            None => done.push(before + &rest),
            Some((head, choices, tail)) => {
                if choices.len() + todo.len() + done.len() > MOST {
                    return None;
                }
                for choice in choices.into_iter().rev() {
                    // A choice may hold braces itself, so it is looked through again.
                    todo.push((format!("{before}{head}"), format!("{choice}{tail}")));
                }
            }
        }
        if done.len() > MOST {
            return None;
        }
    }
    Some(done)
}

/// The text before the first group, its choices, and the text behind it.
fn split(text: &str) -> Option<(&str, Vec<String>, &str)> {
    let mut from = 0;
    loop {
        let open = from + unescaped(text.get(from..)?, '{')?;
        if let Some((choices, close)) = group(text, open) {
            return Some((text.get(..open)?, choices, text.get(close..)?));
        }
        from = open + 1;
    }
}

/// Where a character first is, unless behind a backslash.
fn unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut skip = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if skip => skip = false,
            '\\' => skip = true,
            c if c == wanted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The choices of the group that opens at a position, and the position behind it.
fn group(text: &str, open: usize) -> Option<(Vec<String>, usize)> {
    let mut depth = 0_usize;
    let mut choices = Vec::new();
    let mut current = String::new();
    let mut skip = false;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at <= open) {
        match c {
            _ if skip => {
                skip = false;
                current.push(c);
            }
            '\\' => {
                skip = true;
                current.push(c);
            }
            '}' if depth == 0 => {
                if choices.is_empty() {
                    return Some((range(&current)?, at + 1));
                }
                choices.push(current);
                return Some((choices, at + 1));
            }
            ',' if depth == 0 => choices.push(std::mem::take(&mut current)),
            _ => {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                current.push(c);
            }
        }
    }
    None
}

/// `1..3`, `a..c`.
fn range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
        if first.abs_diff(last) > MOST as u64 {
            return Some(vec![String::new(); MOST + 1]);
        }
        let up = (first.min(last)..=first.max(last)).map(|n| n.to_string());
        return Some(if first <= last { up.collect() } else { up.rev().collect() });
    }
    let single = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|_| chars.next().is_none())
    };
    let (first, last) = (single(first)?, single(last)?);
    let up = first.min(last)..=first.max(last);
    if up.clone().nth(MOST).is_some() {
        return Some(vec![String::new(); MOST + 1]);
    }
    Some(if first <= last { up.map(String::from).collect() } else { up.rev().map(String::from).collect() })
}
