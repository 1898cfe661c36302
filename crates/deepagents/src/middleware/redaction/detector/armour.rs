//! Private keys between the lines of their armour, also those of which a part is there.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::captured;

/// Letters of base64.
const BASE64: &str = "[A-Za-z0-9+/=]";
/// The end of a line, also as it is written in JSON.
const END: &str = r"[ \t]*(?:\\r)?(?:\r?\n|\\n)";
/// What tools write before a line: a path, its number. No path goes beyond a line break that is written as in JSON: each of
/// many lines would be looked through to the end of the text.
const BEFORE: &str = r"[ \t]*(?:(?:[^\s:\\]|\\[^nr\s:])*[:-])?[0-9]*[:-]?[ \t→|]*";
/// How the keys of the usual kinds begin, which certificates and public keys do not.
const FIRST: &str = r"(?:MII[A-Za-z0-9+/]{3}IBA[AD]|MI[GH][A-Za-z0-9+/]AgEAM|MHcCAQEE|MC4CAQAw|b3BlbnNzaC1rZXktdjE)";

expression!(
    PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)"
);
expression!(
    PEM_WHOLE =
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
);
expression!(PEM_BEGIN = r"-----BEGIN (?:[A-Z0-9 ]*\z|[A-Z0-9 ]*PRIVATE KEY)");
expression!(HEAD = r"(?:^|[^A-Za-z0-9+/=])({FIRST}{BASE64}{{20,}}(?:{END}{BEFORE}{BASE64}{{16,}})*)");
expression!(
    HEAD_OPEN = r"(?:^|[^A-Za-z0-9+/=])({FIRST}{BASE64}{{20,}}(?:{END}{BEFORE}{BASE64}{{16,}})*(?:{END}{BEFORE}{BASE64}*)?[ \t\r]*)\z"
);
expression!(
    TAIL = r"(?:^|[^A-Za-z0-9+/=])({BASE64}{{60,76}}{END}(?:{BEFORE}{BASE64}{{60,76}}{END})*(?:{BEFORE}{BASE64}{{1,76}}{END})?{BEFORE}-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)"
);
expression!(
    TAIL_OPEN = r"(?:^|[^A-Za-z0-9+/=])({BASE64}{{60,76}}(?:{END}{BEFORE}{BASE64}{{60,76}})*(?:{END}{BEFORE}{BASE64}{{0,76}})?(?:{END}{BEFORE}(?:-.*)?)?[ \t\r]*)\z"
);

expression!(
    MIDDLE = r"(?:^|[^A-Za-z0-9+/=])({BASE64}{{64}}(?:{END}{BEFORE}{BASE64}{{64}})+|{BASE64}{{70}}(?:{END}{BEFORE}{BASE64}{{70}})+)"
);

/// Lines that are more are no key of any usual size.
const LINES: usize = 128;

fn all(expression: &LazyLock<Option<Regex>>, text: &str) -> Vec<Range<usize>> {
    expression.iter().flat_map(|expression| expression.find_iter(text).map(|found| found.range())).collect()
}

/// Private keys in a text, in no order.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = all(&PEM, text);
    // A tool that shows some lines of a file shows a key without its first line, or without the last.
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

/// How the first line of an armour begins, and how its last one does.
const BEGIN: &str = "-----BEGIN ";
const LAST: &str = "-----END ";
/// Lines behind lines of base64 in which the last line of their armour may stand.
const BEHIND: usize = 4;

/// Where armours begin and end, and where lines do: found once for all parts of a text.
struct Frames {
    begins: Vec<usize>,
    ends: Vec<usize>,
    breaks: Vec<usize>,
}

impl Frames {
    fn of(text: &str) -> Self {
        let all = |what: &str| text.match_indices(what).map(|(at, _)| at).collect();
        Self { begins: all(BEGIN), ends: all(LAST), breaks: all("\n") }
    }

    /// Whether an armour has begun before a place and has not ended there.
    fn is_open(&self, at: usize) -> bool {
        let last = |places: &[usize], what: &str| {
            let before = places.partition_point(|place| place + what.len() <= at);
            before.checked_sub(1).and_then(|last| places.get(last)).copied()
        };
        last(&self.begins, BEGIN).is_some_and(|begun| last(&self.ends, LAST).is_none_or(|ended| ended < begun))
    }

    /// Whether an armour ends in the lines behind a place.
    fn ends_behind(&self, at: usize) -> bool {
        let breaks_before = |place: usize| self.breaks.partition_point(|line| *line < place);
        let end = self.ends.get(self.ends.partition_point(|place| *place < at));
        end.is_some_and(|end| breaks_before(*end) - breaks_before(at) < BEHIND)
    }
}

/// Whether lines of base64 may be from within a private key: nothing says that they are of something else.
fn is_middle(text: &str, at: &Range<usize>, frames: &Frames) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let (lines, after) = (part(at.clone()), part(at.end..text.len()));
    let mut lines = lines.split(|c| !is_base64(c)).filter(|line| line.len() >= 64);
    // Digests and other numbers are written with fewer letters.
    let mixed = |line: &str| {
        let has = |is: fn(&u8) -> bool| line.bytes().any(|byte| is(&byte));
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
    };
    // How certificates, requests and public keys begin.
    let is_public = |line: &str| line.starts_with("MII") || line.starts_with("AAAA");
    !after.starts_with(is_base64)
        && !frames.is_open(at.start)
        && !frames.ends_behind(at.end)
        && lines.clone().next().is_some_and(|first| !is_public(first))
        && lines.clone().count() <= LINES
        && lines.all(mixed)
}

/// From where on there may be the beginning of a private key that is not complete.
pub(super) fn open_from(text: &str) -> usize {
    let complete = all(&PEM_WHOLE, text).last().map_or(0, |range| range.end);
    let rest = text.get(complete..).unwrap_or_default();
    let begun = PEM_BEGIN.iter().find_map(|begin| begin.find(rest)).map(|begin| complete + begin.start());
    let parts = [&HEAD_OPEN, &TAIL_OPEN].into_iter().filter_map(|part| Some(captured(part, text).first()?.start));
    parts.chain(begun).min().unwrap_or(text.len())
}
