//! What is hidden from the model and from the thread.

use clap::ValueEnum;
use deepagents::middleware::redaction::{Detector, Redaction};
use serde::{Deserialize, Serialize};

/// A kind of text that is hidden. A recording keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RedactedKind {
    /// Keys, tokens and private keys
    Secrets,
    /// Addresses of mail
    Email,
    /// Numbers of credit cards
    CreditCard,
    /// Addresses of IPv4 and IPv6
    Ip,
    /// Hardware addresses
    Mac,
    /// Addresses of the web
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

/// A text with what is hidden in it hidden, for what is kept beside a conversation.
pub(crate) fn hidden(kinds: &[RedactedKind], text: &str) -> String {
    // These kinds have marks; none blocks a text.
    redaction(kinds).and_then(|redaction| redaction.text(text.to_owned()).ok()).unwrap_or_else(|| text.to_owned())
}

/// Hides these kinds wherever they come in; none where there are no kinds.
pub(crate) fn redaction(kinds: &[RedactedKind]) -> Option<Redaction> {
    let detectors = kinds.iter().flat_map(|kind| kind.detectors());
    let redaction = detectors.fold(Redaction::new(), |redaction, detector| redaction.hide(detector()));
    (!kinds.is_empty()).then(|| redaction.output(true).tool_results(true))
}
