//! Card numbers.

use std::ops::Range;

use super::{BORDER, captured, ends_at};

/// Maximum length of a card number in bytes: nineteen digits with separators in between.
const MAX_CARD_BYTES: usize = 37;

expression!(DIGITS = r"{BORDER}([0-9](?:[ -]?[0-9]){{12,}})");

/// Returns the card numbers in a text. Other numbers may be adjacent, so every sequence of groups in a run of digits is
/// tried.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for run in captured(&DIGITS, text) {
        let groups = groups(text, &run);
        let before = found.len();
        let (mut at, mut beside) = (0, 0);
        while let Some(rest) = groups.get(at..).filter(|rest| !rest.is_empty()) {
            let whole = at == 0;
            let mut longest = (1..=rest.len().min(19)).rev().filter_map(|count| rest.get(..count));
            let card = longest.find(|part| is_card(text, part, whole && part.len() == rest.len()));
            at += card.map_or(1, <[_]>::len);
            beside += usize::from(card.is_none() && rest.first().is_some_and(|group| group.len() == 4));
            found.extend(card.and_then(|part| Some(part.first()?.start..part.last()?.end)));
        }
        // A row of four-digit numbers, some of which match by chance.
        if beside > 1 {
            found.truncate(before);
        }
    }
    found
}

/// Returns the groups of digits in a run, without incomplete numbers: the end of a name, digits after a decimal point.
fn groups(text: &str, run: &Range<usize>) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = run.start;
    for part in text.get(run.clone()).unwrap_or_default().split([' ', '-']) {
        groups.push(start..start + part.len());
        start += part.len() + 1;
    }
    if !ends_at(text, run.end) {
        groups.pop();
    }
    let before = text.get(..run.start).unwrap_or_default();
    if before.strip_suffix('.').is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit())) {
        groups.drain(..groups.len().min(1));
    }
    groups
}

/// Returns `true` if groups form a card number. If they are only part of a run, they must also be grouped like one, as
/// tables of numbers have many parts.
fn is_card(text: &str, groups: &[Range<usize>], whole: bool) -> bool {
    let number = groups.first().zip(groups.last()).and_then(|(first, last)| text.get(first.start..last.end));
    let Some(number) = number.filter(|number| number.len() <= MAX_CARD_BYTES) else {
        return false;
    };
    let alike = || {
        let lengths: Vec<usize> = groups.iter().map(Range::len).collect();
        let last = lengths.last().copied().unwrap_or_default();
        !(number.contains(' ') && number.contains('-'))
            && match lengths.as_slice() {
                [_] | [4, 6, _] => true,
                _ => (3..=4).contains(&last) && lengths.iter().rev().skip(1).all(|length| *length == 4),
            }
    };
    let digits: Vec<u32> = number.chars().filter_map(|c| c.to_digit(10)).collect();
    (whole || alike()) && is_issued(&digits) && passes_luhn(&digits)
}

/// Returns `true` if a number has the prefix and length of a card issuer's.
fn is_issued(digits: &[u32]) -> bool {
    let beginning = |count: usize| digits.iter().take(count).fold(0, |number, digit| number * 10 + digit);
    let length = digits.len();
    match (beginning(2), beginning(4)) {
        (40..=49, _) => matches!(length, 13 | 16 | 19),
        (34 | 37, _) => length == 15,
        (36 | 38 | 39, _) | (_, 3000..=3059 | 3095) => (14..=19).contains(&length),
        (_, 2200..=2204 | 3528..=3589) => (16..=19).contains(&length),
        (51..=55, _) | (_, 2221..=2720) => length == 16,
        (50 | 56..=69, _) => (13..=19).contains(&length),
        _ => false,
    }
}

/// Returns `true` if the check digit is correct.
fn passes_luhn(digits: &[u32]) -> bool {
    let doubled = digits.iter().rev().zip([1, 2].into_iter().cycle()).map(|(digit, factor)| digit * factor);
    let sum: u32 = doubled.map(|digit| if digit > 9 { digit - 9 } else { digit }).sum();
    sum.is_multiple_of(10)
}
