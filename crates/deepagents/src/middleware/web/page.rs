//! Converts responses to text.

use std::rc::Rc;

use deepagents_core::error::BoxError;
use encoding_rs::Encoding;
use htmd::{HtmlToMarkdown, Node};

use super::cost::is_too_costly;

/// Maximum nesting depth of a page.
pub(super) const MAX_DEPTH: usize = 512;
/// Stack size of the thread that converts a page: each level takes several calls.
const STACK_BYTES: usize = 16 << 20;

/// How to read a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Text,
}

/// Returns the media type of a content type, without its parameters.
fn media(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// Returns how to read a content type, or `None` if it is not text.
pub(super) fn kind(content_type: &str) -> Option<Kind> {
    match media(content_type).as_str() {
        "text/html" | "application/xhtml+xml" => Some(Kind::Html),
        ""
        | "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-ndjson"
        | "application/yaml"
        | "application/toml" => Some(Kind::Text),
        other if other.starts_with("text/") || other.ends_with("+json") || other.ends_with("+xml") => Some(Kind::Text),
        _ => None,
    }
}

/// Number of bytes at the start of a page in which it may declare its encoding.
const HEAD_BYTES: usize = 1_024;

/// Decodes a body with the encoding given by its byte order mark, the content type, or the declaration in HTML or XML,
/// in this order; UTF-8 if none is known. In other texts, declarations are ignored: they may be about other documents.
pub(super) fn decode(body: &[u8], content_type: &str) -> String {
    let head = || String::from_utf8_lossy(body.get(..HEAD_BYTES).unwrap_or(body)).to_ascii_lowercase();
    let given = named(&content_type.to_ascii_lowercase(), "charset");
    let encoding = given.or_else(|| is_markup(content_type, body).then(|| in_head(&head())).flatten());
    encoding.unwrap_or(encoding_rs::UTF_8).decode(body).0.into_owned()
}

/// Returns `true` if a text may declare its own encoding.
fn is_markup(content_type: &str, body: &[u8]) -> bool {
    match media(content_type).as_str() {
        "" => body.trim_ascii_start().starts_with(b"<"),
        media => media == "text/html" || media.ends_with("/xml") || media.ends_with("+xml"),
    }
}

/// Returns the encoding in the declaration of XML or in the head of a page.
fn in_head(head: &str) -> Option<&'static Encoding> {
    let declared = head.trim_start().strip_prefix("<?xml").and_then(|declared| declared.split("?>").next());
    let encoding = declared.and_then(|declared| named(declared, "encoding")).or_else(|| named(head, "charset"))?;
    // A declaration that is readable as ASCII cannot be in a two-byte encoding.
    Some(encoding.output_encoding())
}

/// Returns the encoding that follows a word and `=`, in lower-case text.
fn named(text: &str, word: &str) -> Option<&'static Encoding> {
    text.split(word).skip(1).find_map(|behind| {
        let label = behind.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':' | '.'));
        let encoding = Encoding::for_label(label.get(..end.unwrap_or(label.len()))?.as_bytes())?;
        // Stands for encodings that are unsafe to decode.
        (encoding != encoding_rs::REPLACEMENT).then_some(encoding)
    })
}

/// Converts a page to Markdown. Returns `None` if it is nested too deeply or too costly to parse.
///
/// # Errors
/// Returns an error if it cannot be converted, or if the thread cannot be started.
pub(super) async fn markdown(html: String) -> Result<Option<String>, BoxError> {
    let (tell, told) = tokio::sync::oneshot::channel();
    // A large page takes time, and a deep one needs stack.
    let work = move || {
        let _ = tell.send(convert(&html));
    };
    std::thread::Builder::new().name("deepagents-web".to_owned()).stack_size(STACK_BYTES).spawn(work)?;
    Ok(told.await??)
}

fn convert(html: &str) -> std::io::Result<Option<String>> {
    if is_too_costly(html) {
        return Ok(None);
    }
    let skipped = vec!["script", "style", "noscript", "template", "svg", "iframe", "object", "head"];
    let converter = HtmlToMarkdown::builder().skip_tags(skipped).scripting_enabled(false).build();
    let tree = converter.html_to_tree(html)?;
    Ok((depth(&tree) <= MAX_DEPTH).then(|| converter.tree_to_markdown(&tree)))
}

/// Returns the nesting depth of a page, without recursion.
fn depth(tree: &Rc<Node>) -> usize {
    let (mut deepest, mut open) = (0, vec![(tree.clone(), 1)]);
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        if level > MAX_DEPTH {
            break;
        }
        open.extend(node.children.borrow().iter().map(|child| (child.clone(), level + 1)));
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_content_types_are_recognised() {
        assert_eq!(kind("text/html; charset=utf-8"), Some(Kind::Html));
        assert_eq!((kind("application/ld+json"), kind("")), (Some(Kind::Text), Some(Kind::Text)));
        assert_eq!((kind("image/png"), kind("application/octet-stream")), (None, None));
        assert_eq!(decode(b"caf\xe9", "text/plain; charset=ISO-8859-1"), "café");
        assert_eq!(decode("café".as_bytes(), "text/plain"), "café");
        assert_eq!(decode(b"\x93caf\xe9\x94", "text/html; Charset=\"Windows-1252\"; x=y"), "“café”");
        assert_eq!(decode(b"\x83\x65\x83\x58\x83\x67", "text/plain;charset=shift_jis"), "テスト");
        assert_eq!(decode(b"\xef\xbb\xbfcaf\xc3\xa9", "text/html; charset=latin1"), "café");
        assert_eq!(decode(b"\xff\xfea\0b\0", "text/plain"), "ab");
        let meta = b"<head><meta http-equiv=x content='text/html; charset=iso-8859-1'></head>caf\xe9";
        assert!(decode(meta, "text/html").ends_with("café"));
        assert_eq!(decode(b"caf\xe9", "text/plain; charset=none-such"), "caf\u{fffd}");
        assert_eq!(decode(b"c\0a\0f\0\xe9\0", "text/plain; charset=utf-16le"), "café");
        let feed = b"<?xml version='1.0' encoding=\"windows-1251\"?><rss>\xef\xf0\xe8</rss>";
        for kind in ["application/rss+xml", "text/xml", "application/xml; charset=none-such"] {
            assert!(decode(feed, kind).ends_with("<rss>при</rss>"), "{kind}");
        }
        let second = b"<!-- the charset follows --><meta charset=iso-8859-1>caf\xe9";
        assert!(decode(second, "text/html").ends_with("café"));
        // A text about encodings is not in them.
        let about = "Say <meta charset=iso-8859-1> for a café.";
        for kind in ["text/plain", "text/markdown", "application/json", ""] {
            assert_eq!(decode(about.as_bytes(), kind), about, "{kind}");
        }
    }

    #[tokio::test]
    async fn a_page_becomes_markdown_and_an_excessively_nested_one_is_not_read() {
        let page = "<html><head><title>No</title><style>p{}</style></head><body><h1>Title</h1>\
                    <p>See <a href=\"/x\">this</a>.</p><script>evil()</script></body></html>";
        assert_eq!(markdown(page.to_owned()).await.unwrap().unwrap(), "# Title\n\nSee [this](/x).");
        assert_eq!(markdown("<div>".repeat(400_000)).await.unwrap(), None);
        assert_eq!(markdown("<div>".repeat(1_000)).await.unwrap(), None);
        let attributes: String = (0..400_000).map(|n| format!(" a{n}")).collect();
        assert_eq!(markdown(format!("<p{attributes}>")).await.unwrap(), None);
    }
}
