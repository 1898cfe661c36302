//! What reading a page costs, before it is read: the parser of a browser takes time, and memory, that grows with what is
//! open at each tag, and a page can be written to have it all open.

/// Tags that are open, summed up over all tags, up to which a page is read.
const MOST: usize = 20_000_000;
/// A formatting tag that stays open is made anew in each block that follows.
const FORMATTING: usize = 64;

/// Whether a page is built to be hard to read.
pub(super) fn is_too_costly(html: &str) -> bool {
    let (mut open, mut formatting, mut cost) = (0_usize, 0_usize, 0_usize);
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let (closes, named) = after.strip_prefix('/').map_or((false, after), |named| (true, named));
        let length = named.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = named.get(..length).unwrap_or_default().to_ascii_lowercase();
        rest = named.get(length..).unwrap_or_default();
        match (kind(&name), closes) {
            (Kind::None, _) => {}
            // What looks like tags in a script is none.
            (Kind::Text, false) => rest = after_end(rest, &name),
            (Kind::Text, true) => {}
            (Kind::Formatting, true) => formatting = formatting.saturating_sub(1),
            (Kind::Block, true) => open = open.saturating_sub(1),
            (kind, false) => {
                cost = cost.saturating_add(open).saturating_add(formatting.saturating_mul(FORMATTING));
                if cost > MOST {
                    return true;
                }
                formatting += usize::from(kind == Kind::Formatting);
                open += usize::from(kind == Kind::Block);
            }
            (Kind::Closed, true) => {}
        }
    }
    false
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No tag.
    None,
    /// What is in it is no markup.
    Text,
    Formatting,
    /// Its end may be left out, or it has none: it does not pile up.
    Closed,
    Block,
}

fn kind(name: &str) -> Kind {
    match name {
        "" => Kind::None,
        "script" | "style" | "textarea" | "title" | "noscript" | "iframe" | "xmp" => Kind::Text,
        "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small" | "strike" | "strong" | "tt"
        | "u" => Kind::Formatting,
        "area" | "base" | "br" | "col" | "embed" | "hr" | "img" | "input" | "link" | "meta" | "param" | "source"
        | "track" | "wbr" | "p" | "li" | "dt" | "dd" | "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" | "option"
        | "optgroup" | "colgroup" | "html" | "head" | "body" => Kind::Closed,
        _ => Kind::Block,
    }
}

/// What follows the end tag of an element of text.
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
    fn a_page_that_piles_up_tags_is_known_before_it_is_read() {
        assert!(is_too_costly(&"<div>".repeat(10_000)));
        assert!(is_too_costly(&format!("{}{}", "<b>".repeat(1_000), "<p>x".repeat(10_000))));
        assert!(!is_too_costly(&"<p>One<li>two<br><b>three</b><div>four</div>".repeat(20_000)));
        assert!(!is_too_costly(&format!("<script>{}</SCRIPT><p>x", "'<div>'".repeat(50_000))));
        assert!(!is_too_costly("a < b </ <"));
    }
}
