//! The lines of a task, without code and quotations.

/// Indentation from which a line is code.
const CODE: usize = 4;

/// A relevant line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A list item.
    Item { indent: usize, mark: ListMarker, text: &'a str },
    /// Any other line with text.
    Text { indent: usize, text: &'a str },
}

/// The marker of a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListMarker {
    Number(usize),
    Bullet,
}

/// Returns the lines of a text that are neither blank, nor quoted, nor code.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut fence: Option<&str> = None;
    let mut in_list = false;
    let mut out = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        let opens = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, opens) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) => fence = Some(mark),
            (None, None) if trimmed.is_empty() || trimmed.starts_with('>') => {}
            (None, None) => {
                let indent = indent(line);
                // Indented text below an item belongs to it.
                if indent >= CODE && !in_list {
                    continue;
                }
                let item = item(trimmed);
                in_list = item.is_some() || (in_list && indent > 0);
                out.push(match item {
                    Some((mark, text)) => Line::Item { indent, mark, text },
                    None => Line::Text { indent, text: trimmed },
                });
            }
        }
    }
    out
}

fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| c.is_whitespace());
    blanks.map(|c| if c == '\t' { CODE } else { 1 }).sum()
}

/// Splits an item into its marker and text.
fn item(line: &str) -> Option<(ListMarker, &str)> {
    if let Some(rest) = line.strip_prefix(['-', '*', '+', '•']) {
        return rest.starts_with(char::is_whitespace).then(|| (ListMarker::Bullet, rest.trim_start()));
    }
    let bracket = line.strip_prefix(['(', '（']);
    let digits = bracket.unwrap_or(line);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = digits.strip_suffix(rest).filter(|digits| (1..=3).contains(&digits.len()))?;
    let mark = ListMarker::Number(number.parse().ok()?);
    let text = match bracket {
        Some(_) => rest.strip_prefix([')', '）'])?,
        None => match rest.strip_prefix(['、', '．', '）']) {
            Some(text) => text,
            None => rest.strip_prefix(['.', ')']).filter(|text| text.starts_with(char::is_whitespace))?,
        },
    };
    Some((mark, text.trim_start()))
}
