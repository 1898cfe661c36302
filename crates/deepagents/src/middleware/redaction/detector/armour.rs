//! Private keys in ASCII armour, including partial ones.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::captured;

/// Characters of base64.
const BASE64: &str = "[A-Za-z0-9+/=]";
/// The end of a line, also in its JSON escape.
const END: &str = r"[ \t]*(?:\\r)?(?:\r?\n|\\n)";
/// What precedes a line of base64. The `n` of an escaped line break is not part of the line.
const START: &str = r"(?:^|\\n|[^A-Za-z0-9+/=])";
/// Prefixes that tools add to lines: a path, a line number. A path does not extend past a JSON-escaped line break;
/// otherwise each of many lines would be scanned to the end of the text.
const BEFORE: &str = r"[ \t]*(?:(?:[^\s:\\]|\\[^nr\s:])*[:-])?[0-9]*[:-]?[ \t→|]*";
/// An incomplete prefix: the beginning of a path.
const PATH: &str = r"[ \t]*(?:[^\s:\\]|\\[^nr\s:])*";
/// How private keys of the usual kinds begin, unlike certificates and public keys.
const FIRST: &str = r"(?:MII[A-Za-z0-9+/]{3}IBA[AD]|MI[GH][A-Za-z0-9+/]AgEAM|MHcCAQEE|MC4CAQAw|b3BlbnNzaC1rZXktdjE)";

expression!(
    PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)"
);
expression!(
    PEM_WHOLE =
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
);
expression!(PEM_BEGIN = r"-----BEGIN (?:[A-Z0-9 ]*\z|[A-Z0-9 ]*PRIVATE KEY)");
expression!(HEAD = r"{START}({FIRST}{BASE64}{{20,}}(?:{END}{BEFORE}{BASE64}{{16,}})*)");
expression!(
    HEAD_OPEN = r"{START}({FIRST}{BASE64}{{20,}}(?:{END}{BEFORE}{BASE64}{{16,}})*(?:{END}(?:{BEFORE}{BASE64}*|{PATH}))?[ \t\r]*)\z"
);
expression!(
    TAIL = r"{START}({BASE64}{{60,76}}{END}(?:{BEFORE}{BASE64}{{60,76}}{END})*(?:{BEFORE}{BASE64}{{1,76}}{END})?{BEFORE}-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)"
);
expression!(
    TAIL_OPEN = r"{START}({BASE64}{{60,76}}(?:{END}{BEFORE}{BASE64}{{60,76}})*(?:{END}{BEFORE}{BASE64}{{0,76}})?(?:{END}(?:{BEFORE}(?:-.*)?|{PATH}))?[ \t\r]*)\z"
);

expression!(
    MIDDLE = r"{START}({BASE64}{{64}}(?:{END}{BEFORE}{BASE64}{{64}})+|{BASE64}{{70}}(?:{END}{BEFORE}{BASE64}{{70}})+)"
);

/// Maximum number of lines of a key; anything longer is not a key.
const MAX_KEY_LINES: usize = 128;

fn all(expression: &LazyLock<Option<Regex>>, text: &str) -> Vec<Range<usize>> {
    expression.iter().flat_map(|expression| expression.find_iter(text).map(|found| found.range())).collect()
}

/// Returns the private keys in a text, in no particular order.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = all(&PEM, text);
    // A tool that shows some lines of a file may show a key without its first or last line.
    for part in [&HEAD, &TAIL] {
        found.extend(captured(part, text));
    }
    let middles = captured(&MIDDLE, text);
    if !middles.is_empty() {
        let frames = Frames::of(text);
        found.extend(middles.into_iter().filter(|lines| is_middle(text, lines, &frames)));
    }
    found
}

expression!(FIRST_LINE = r"-----BEGIN [^\r\n\\-]+-----");
expression!(BREAK = r"\n|\\n");
/// The beginning of the last line of an armour.
const LAST: &str = "-----END ";
/// Number of lines after lines of base64 within which the armour may end.
const MAX_LINES_BEHIND: usize = 4;

/// The positions of armour boundaries and line breaks in a text, computed once.
struct Frames {
    begins: Vec<usize>,
    ends: Vec<usize>,
    breaks: Vec<usize>,
}

impl Frames {
    fn of(text: &str) -> Self {
        let places = |of: &LazyLock<Option<Regex>>| all(of, text).into_iter().map(|found| found.start).collect();
        let ends = text.match_indices(LAST).map(|(at, _)| at).collect();
        Self { begins: places(&FIRST_LINE), ends, breaks: places(&BREAK) }
    }

    /// Returns `true` if a position is inside an armour.
    fn is_open(&self, at: usize) -> bool {
        let last = |places: &[usize]| {
            let before = places.partition_point(|place| *place < at);
            before.checked_sub(1).and_then(|last| places.get(last)).copied()
        };
        last(&self.begins).is_some_and(|begun| last(&self.ends).is_none_or(|ended| ended < begun))
    }

    /// Returns `true` if an armour ends within a few lines after a position.
    fn ends_after(&self, at: usize) -> bool {
        let breaks_before = |place: usize| self.breaks.partition_point(|line| *line < place);
        let end = self.ends.get(self.ends.partition_point(|place| *place < at));
        end.is_some_and(|end| breaks_before(*end) - breaks_before(at) < MAX_LINES_BEHIND)
    }
}

/// Returns `true` if lines of base64 may be from the middle of a private key: nothing indicates otherwise.
fn is_middle(text: &str, at: &Range<usize>, frames: &Frames) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let (lines, after) = (part(at.clone()), part(at.end..text.len()));
    let mut lines = lines.split(|c| !is_base64(c)).filter(|line| line.len() >= 64);
    // Digests and numbers use fewer kinds of characters.
    let mixed = |line: &str| {
        let has = |is: fn(&u8) -> bool| line.bytes().any(|byte| is(&byte));
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
    };
    // The beginnings of certificates, requests and public keys.
    let is_public = |line: &str| line.starts_with("MII") || line.starts_with("AAAA");
    !after.starts_with(is_base64)
        && !frames.is_open(at.start)
        && !frames.ends_after(at.end)
        && lines.clone().next().is_some_and(|first| !is_public(first))
        && lines.clone().count() <= MAX_KEY_LINES
        && lines.all(mixed)
}

/// Returns the position from which there may be an incomplete private key.
pub(super) fn open_from(text: &str) -> usize {
    let complete = all(&PEM_WHOLE, text).last().map_or(0, |range| range.end);
    let rest = text.get(complete..).unwrap_or_default();
    let begun = PEM_BEGIN.iter().find_map(|begin| begin.find(rest)).map(|begin| complete + begin.start());
    let parts = [&HEAD_OPEN, &TAIL_OPEN].into_iter().filter_map(|part| Some(captured(part, text).first()?.start));
    parts.chain(begun).min().unwrap_or(text.len())
}
