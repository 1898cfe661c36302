//! The ids of traces and spans, and their propagation between processes.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The id of a trace or a span, written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HexId<const N: usize>(pub [u8; N]);

/// The id of a trace.
pub type TraceId = HexId<16>;

/// The id of a span within its trace.
pub type SpanId = HexId<8>;

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
        Self::digest(&["trace", thread.unwrap_or_default(), run])
    }
}

impl SpanId {
    /// Returns the span of a process' part of a run.
    pub fn of_run(thread: Option<&str>, run: &str, attempt: u32) -> Self {
        Self::digest(&["span", thread.unwrap_or_default(), run, &attempt.to_string()])
    }

    /// Derives the id of a span below this one from what distinguishes it.
    pub(crate) fn below(self, about: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (self, about).hash(&mut hasher);
        Self(hasher.finish().to_be_bytes())
    }
}

impl<const N: usize> HexId<N> {
    fn digest(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        hash.update("deepagents");
        for part in parts {
            hash.update([0]);
            hash.update(part);
        }
        let mut id = [0; N];
        id.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        Self(id)
    }

    /// Parses lower-case hexadecimal that is not all zero.
    fn parse(text: &str) -> Option<Self> {
        let mut digits = text.bytes().map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        });
        let mut id = [0; N];
        for byte in &mut id {
            *byte = digits.next()?? << 4 | digits.next()??;
        }
        (digits.next().is_none() && id != [0; N]).then_some(Self(id))
    }
}

impl<const N: usize> fmt::Display for HexId<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for HexId<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
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
            Some(Self { trace: TraceId::parse(trace)?, span: SpanId::parse(span)?, sampled: flags & 1 == 1 })
        };
        read().ok_or_else(|| crate::ConfigError::TraceParent { value: text.to_owned() })
    }
}
