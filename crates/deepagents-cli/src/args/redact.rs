//! What is redacted from the model and from the thread.

use clap::ValueEnum;
use deepagents::middleware::redaction::{Detector, Redaction};
use serde::{Deserialize, Serialize};

/// A kind of text to redact. Recordings store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RedactedKind {
    /// Keys, tokens and private keys
    Secrets,
    /// E-mail addresses
    Email,
    /// Credit card numbers
    CreditCard,
    /// IPv4 and IPv6 addresses
    Ip,
    /// Hardware addresses
    Mac,
    /// Web addresses
    Url,
}

impl RedactedKind {
    fn detectors(self) -> &'static [fn() -> Detector] {
        match self {
            Self::Secrets => &[|| Detector::ApiKey, || Detector::PrivateKey],
            Self::Email => &[|| Detector::Email],
            Self::CreditCard => &[|| Detector::CreditCard],
            Self::Ip => &[|| Detector::Ip],
            Self::Mac => &[|| Detector::MacAddress],
            Self::Url => &[|| Detector::Url],
        }
    }
}

/// Redacts a text that is stored next to a conversation.
pub(crate) fn hidden(kinds: &[RedactedKind], text: &str) -> String {
    // Cannot fail: these kinds are replaced by marks, and none blocks a text.
    redaction(kinds).and_then(|redaction| redaction.text(text.to_owned()).ok()).unwrap_or_else(|| text.to_owned())
}

/// Returns the redaction for these kinds; `None` if there are none.
pub(crate) fn redaction(kinds: &[RedactedKind]) -> Option<Redaction> {
    let detectors = kinds.iter().flat_map(|kind| kind.detectors());
    let redaction = detectors.fold(Redaction::new(), |redaction, detector| redaction.hide(detector()));
    (!kinds.is_empty()).then(|| redaction.output(true).tool_results(true))
}
