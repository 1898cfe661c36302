//! Email addresses, network addresses and URLs.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use super::{BORDER, UNSPACED, captured, ends_at};

expression!(EMAIL = r"([\w.%+\-&&[^{UNSPACED}]]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{{2,}})");
expression!(IPV4 = r"{BORDER}([0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}})");
expression!(IPV6 = r"([0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)");
expression!(MAC = r"{BORDER}([0-9A-Fa-f]{{2}}(?:[:-][0-9A-Fa-f]{{2}}){{5}})");
expression!(
    URL = r#"(?i){BORDER}((?:https?://|www\.)[^\s<>"{{}}|\\^`\[\]{UNSPACED}]+)|(?:^|[^a-z0-9_]|\\[ntr])((?:[a-z0-9-]+\.)+[a-z]{{2,}}/[^\s<>"{{}}|\\^`\[\]{UNSPACED}]*)"#
);

fn part<'a>(text: &'a str, range: &Range<usize>) -> &'a str {
    text.get(range.clone()).unwrap_or_default()
}

/// Returns `true` if a position is that of the letter of a JSON-escaped line break or tab.
fn is_escape(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at_checked(at).unwrap_or_default();
    before.ends_with('\\') && after.starts_with(['n', 't', 'r'])
}

/// Returns the email addresses in a text.
pub(super) fn mails(text: &str) -> Vec<Range<usize>> {
    captured(&EMAIL, text).into_iter().map(|range| without_start(text, range)).collect()
}

/// Trims what precedes an email address: the letter of an escape, punctuation, and the `_` of emphasis.
fn without_start(text: &str, range: Range<usize>) -> Range<usize> {
    let escape = usize::from(is_escape(text, range.start));
    let mail = part(text, &(range.start + escape..range.end));
    let emphasised = part(text, &(range.end..text.len())).starts_with('_');
    let kept = mail.trim_start_matches(|c: char| matches!(c, '.' | '%' | '+' | '-') || c == '_' && emphasised);
    // If nothing else is left, it is the local part.
    if kept.starts_with('@') { range } else { range.end - kept.len()..range.end }
}

/// Returns the MAC addresses in a text.
pub(super) fn hardware(text: &str) -> Vec<Range<usize>> {
    captured(&MAC, text).into_iter().filter(|range| ends_at(text, range.end)).collect()
}

/// Returns the IPv4 and IPv6 addresses in a text.
pub(super) fn addresses(text: &str) -> Vec<Range<usize>> {
    let v4 = captured(&IPV4, text).into_iter();
    let v4 = v4.filter(|range| ends_at(text, range.end) && part(text, range).parse::<IpAddr>().is_ok());
    v4.chain(captured(&IPV6, text).into_iter().filter_map(|range| address_in(text, range))).collect()
}

/// Returns the IPv6 address in a candidate range, without surrounding punctuation. Paths of names look similar, so a
/// part of a longer word is not an address.
fn address_in(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let joins = |c: char| c.is_alphanumeric() && !super::is_unspaced(c) || c == '_';
    let (before, after) = (text.get(..range.start)?, text.get(range.end..)?);
    let run = part(text, &range);
    // A label with a colon may precede it.
    let label = run.starts_with(':') && !run.starts_with("::");
    let start = range.start + usize::from(label);
    let mut end = range.end;
    if !label && before.ends_with(joins) && !is_escape(text, range.start.saturating_sub(1)) {
        return None;
    }
    while end > start {
        let candidate = text.get(start..end)?;
        if candidate.parse().is_ok_and(|address| is_address(&address, candidate)) {
            return (end < range.end || !after.starts_with(joins)).then_some(start..end);
        }
        let last = candidate.chars().next_back()?;
        if !matches!(last, ':' | '.') {
            return None;
        }
        end -= last.len_utf8();
    }
    None
}

/// Returns `true` if a parsed address is plausible. `::` occurs in source code, slices and pseudo-elements, so a short
/// address must have a prefix that is assigned to machines.
fn is_address(address: &Ipv6Addr, text: &str) -> bool {
    if !text.contains("::") {
        return true;
    }
    let groups = text.split(':').filter(|group| !group.is_empty()).count();
    let [first, ..] = address.segments();
    text.contains(|c: char| c.is_ascii_digit())
        && (text.contains('.') || groups >= 3 || (0x2000..0x4000).contains(&first) || first >= 0xfc00)
}

/// Returns the URLs in a text.
pub(super) fn urls(text: &str) -> Vec<Range<usize>> {
    captured(&URL, text).into_iter().map(|range| without_end(text, range)).collect()
}

/// Trims the punctuation of the sentence around a URL.
fn without_end(text: &str, range: Range<usize>) -> Range<usize> {
    let url = part(text, &range);
    let mut kept = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']);
    if kept.ends_with(')') && !kept.contains('(') {
        kept = kept.trim_end_matches(')').trim_end_matches(['.', ',', ';', ':', '!', '?']);
    }
    range.start..range.start + kept.len()
}
