//! The ids of traces and spans, and their propagation between processes.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

/// The identity of a span in other processes: the `traceparent` of W3C Trace Context.
///
/// ```
/// use deepagents_otel::SpanContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: SpanContext = text.parse()?;
/// assert!(parent.sampled);
/// assert_eq!(parent.to_string(), text);
/// # Ok::<(), deepagents_otel::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether the trace is sampled.
    pub sampled: bool,
}

impl TraceId {
    /// Returns the trace of a run that has no parent in another process. Every process that resumes the run derives the
    /// same id.
    pub fn of_run(thread: Option<&str>, run: &str) -> Self {
        let digest = digest(&["trace", thread.unwrap_or_default(), run]);
        let mut id = [0; 16];
        id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(id)
    }
}

impl SpanId {
    /// Returns the span of a process' part of a run.
    pub fn of_run(thread: Option<&str>, run: &str, attempt: u32) -> Self {
        let digest = digest(&["span", thread.unwrap_or_default(), run, &attempt.to_string()]);
        let mut id = [0; 8];
        id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// Derives the id of a span below this one from what distinguishes it.
    pub(crate) fn below(self, about: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (self, about).hash(&mut hasher);
        Self(hasher.finish().to_be_bytes())
    }
}

fn digest(parts: &[&str]) -> impl Iterator<Item = u8> + use<> {
    let mut hash = Sha256::new();
    hash.update("deepagents");
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    hash.finalize().into_iter()
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// Parses N bytes of lower-case hexadecimal that are not all zero.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut digits = text.bytes().map(|digit| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    });
    let mut id = [0; N];
    for byte in &mut id {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    (digits.next().is_none() && id != [0; N]).then_some(id)
}

impl FromStr for SpanContext {
    type Err = crate::ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let mut parts = text.trim().split('-');
            let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
            let flags = parts.next()?;
            let plain = |text: &str| text.len() == 2 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            // Future versions may append fields.
            let fits = plain(version) && version != "ff" && (version != "00" || parts.next().is_none());
            let flags = u8::from_str_radix(flags, 16).ok().filter(|_| plain(flags) && fits)?;
            Some(Self { trace: TraceId(bytes(trace)?), span: SpanId(bytes(span)?), sampled: flags & 1 == 1 })
        };
        read().ok_or_else(|| crate::ConfigError::TraceParent { value: text.to_owned() })
    }
}
