//! Estimates the cost of parsing a page in advance: the time and memory of an HTML parser grow with the number of open
//! elements at each tag, and a page can be crafted to exploit that.

/// Maximum number of open elements, summed over all tags, for a page to be parsed.
const MAX_OPEN_ELEMENTS: usize = 20_000_000;
/// Weight of an open formatting element, which the parser recreates in each following block.
const FORMATTING_WEIGHT: usize = 64;

/// Returns `true` if a page is too costly to parse. Uncertain cases count as the more expensive one.
pub(super) fn is_too_costly(html: &str) -> bool {
    let (mut blocks, mut formatting, mut cost) = (Vec::new(), Vec::new(), 0_usize);
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let (closes, named) = after.strip_prefix('/').map_or((false, after), |named| (true, named));
        let length = named.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = named.get(..length).unwrap_or_default().to_ascii_lowercase();
        rest = named.get(length..).unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let (attributes, behind) = attributes(rest);
        rest = behind;
        // Each attribute is compared with the previous ones.
        cost = cost.saturating_add(attributes.saturating_mul(attributes) / 2);
        match (kind(&name), closes) {
            // Apparent tags in a script are not tags.
            (Kind::Text, false) => rest = after_end(rest, &name),
            (Kind::Text, true) => {}
            (Kind::Formatting, true) => {
                cost = cost.saturating_add(blocks.len()).saturating_add(close(&mut formatting, &name));
            }
            (Kind::Block, true) => cost = cost.saturating_add(close(&mut blocks, &name)),
            (kind, false) => {
                cost = cost
                    .saturating_add(blocks.len())
                    .saturating_add(formatting.len().saturating_mul(FORMATTING_WEIGHT));
                match kind {
                    Kind::Formatting => {
                        if name == "a" {
                            // A link ends the previous one.
                            cost = cost.saturating_add(close(&mut formatting, &name));
                        }
                        formatting.push(name);
                    }
                    Kind::Block => blocks.push(name),
                    Kind::Text | Kind::Closed => {}
                }
            }
            (Kind::Closed, true) => cost = cost.saturating_add(blocks.len()),
        }
        if cost > MAX_OPEN_ELEMENTS {
            return true;
        }
    }
    false
}

/// Closes the last element of this name and everything opened after it; returns the number of elements examined. An end
/// tag without a start tag closes nothing.
fn close(open: &mut Vec<String>, name: &str) -> usize {
    match open.iter().rposition(|other| other == name) {
        Some(at) => {
            let looked_at = open.len() - at;
            if kind(name) == Kind::Formatting {
                open.remove(at);
            } else {
                open.truncate(at);
            }
            looked_at
        }
        None => open.len(),
    }
}

/// Returns the number of attributes of a tag, and the text after it.
fn attributes(tag: &str) -> (usize, &str) {
    let (mut count, mut rest) = (0, tag);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return (count, rest);
        }
        if let Some(behind) = rest.strip_prefix('>') {
            return (count, behind);
        }
        count += 1;
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let (_, behind) = rest.split_at_checked(first).unwrap_or((rest, ""));
        rest = behind.trim_start_matches(|c: char| !c.is_ascii_whitespace() && !matches!(c, '/' | '>' | '='));
        let Some(value) = rest.trim_start().strip_prefix('=').map(str::trim_start) else { continue };
        rest = match value.strip_prefix(['"', '\'']) {
            Some(quoted) if value.starts_with('"') => quoted.split_once('"').map_or("", |(_, behind)| behind),
            Some(quoted) => quoted.split_once('\'').map_or("", |(_, behind)| behind),
            None => value.trim_start_matches(|c: char| !c.is_ascii_whitespace() && c != '>'),
        };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its content is not markup.
    Text,
    Formatting,
    /// It has no end tag, or that is optional: it does not accumulate.
    Closed,
    Block,
}

fn kind(name: &str) -> Kind {
    match name {
        "script" | "style" | "textarea" | "title" | "noscript" | "iframe" | "xmp" => Kind::Text,
        "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small" | "strike" | "strong" | "tt"
        | "u" => Kind::Formatting,
        "area" | "base" | "br" | "col" | "embed" | "hr" | "img" | "input" | "link" | "meta" | "param" | "source"
        | "track" | "wbr" | "p" | "li" | "dt" | "dd" | "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" | "option"
        | "optgroup" | "colgroup" | "html" | "head" | "body" => Kind::Closed,
        _ => Kind::Block,
    }
}

/// Returns the text after the end tag of a text element.
fn after_end<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if after.get(..name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name)) {
            return after;
        }
        rest = after;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_excessive_nesting_is_detected_before_parsing() {
        assert!(is_too_costly(&"<div>".repeat(10_000)));
        assert!(is_too_costly(&format!("{}{}", "<b>".repeat(1_000), "<p>x".repeat(10_000))));
        assert!(!is_too_costly(&"<p>One<li>two<br><b>three</b><div>four</div>".repeat(20_000)));
        assert!(!is_too_costly(&format!("<script>{}</SCRIPT><p>x", "'<div>'".repeat(50_000))));
        assert!(!is_too_costly("a < b </ <"));
    }

    #[test]
    fn unmatched_closing_tags_do_not_hide_nesting() {
        let open: String = (0..1_000).map(|n| format!("<b id={n}>")).collect();
        assert!(is_too_costly(&format!("{open}{}{}", "</i>".repeat(1_000), "<p>x".repeat(10_000))));
        assert!(is_too_costly(&format!("{}{}", "<span>".repeat(5_000), "</q>".repeat(10_000))));
        assert!(!is_too_costly(&"<td><a name=x>one".repeat(10_000)));
    }

    #[test]
    fn a_tag_with_too_many_attributes_is_too_costly_despite_fake_ends() {
        let many: String = (0..10_000).map(|n| format!(" a{n}")).collect();
        assert!(is_too_costly(&format!("<p{many}>")));
        assert!(is_too_costly(&format!("<p x=\">\" y='<'{many}>")));
        assert!(is_too_costly(&format!("</p{many}")));
        assert_eq!(attributes(" a b=c d = \"e > f\" g='>'/>rest"), (4, "rest"));
        assert_eq!(attributes(" =x é=ü>rest"), (2, "rest"));
    }
}
