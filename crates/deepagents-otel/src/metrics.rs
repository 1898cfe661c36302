//! Measurements of spans, aggregated into histograms until they are exported.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::span::seconds;
use crate::{Chat, ModelName, Operation, Span, conventions as names};

/// Maximum number of series. Further ones are aggregated into one overflow series per instrument.
const MAX_SERIES: usize = 2_000;

/// Bucket bounds for tokens.
const TOKEN_BOUNDS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Bucket bounds for seconds.
const SECOND_BOUNDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// An instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instrument {
    TokenUsage,
    OperationDuration,
    TimeToFirstChunk,
    ToolDuration,
    AgentDuration,
}

impl Instrument {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TokenUsage => names::metric::TOKEN_USAGE,
            Self::OperationDuration => names::metric::OPERATION_DURATION,
            Self::TimeToFirstChunk => names::metric::TIME_TO_FIRST_CHUNK,
            Self::ToolDuration => names::metric::TOOL_DURATION,
            Self::AgentDuration => names::metric::AGENT_DURATION,
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        if self == Self::TokenUsage { "{token}" } else { "s" }
    }

    pub(crate) fn bounds(self) -> &'static [f64] {
        if self == Self::TokenUsage { TOKEN_BOUNDS } else { SECOND_BOUNDS }
    }

    fn operation(self) -> &'static str {
        match self {
            Self::ToolDuration => names::operation::EXECUTE_TOOL,
            Self::AgentDuration => names::operation::INVOKE_AGENT,
            _ => names::operation::CHAT,
        }
    }
}

/// The labels that distinguish the series of an instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    model: Option<Arc<ModelName>>,
    /// The tool or the agent.
    subject: Option<Arc<str>>,
    token_type: Option<&'static str>,
    error: Option<Cow<'static, str>>,
    pub(crate) overflow: bool,
}

impl Labels {
    /// Returns the attributes by their names in the conventions, without the overflow mark.
    pub(crate) fn attributes(&self, instrument: Instrument) -> Vec<(&'static str, &str)> {
        let mut all = vec![(names::OPERATION_NAME, instrument.operation())];
        if let Some(model) = &self.model {
            all.extend([(names::PROVIDER_NAME, &*model.provider), (names::REQUEST_MODEL, &*model.model)]);
        }
        let subject = if instrument == Instrument::ToolDuration { names::TOOL_NAME } else { names::AGENT_NAME };
        all.extend(self.subject.as_deref().map(|name| (subject, name)));
        all.extend(self.token_type.map(|kind| (names::TOKEN_TYPE, kind)));
        all.extend(self.error.as_deref().map(|error| (names::ERROR_TYPE, error)));
        all
    }
}

/// A histogram with explicit bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The counts per bucket, one more than there are bounds.
    pub(crate) buckets: Vec<u64>,
}

impl Histogram {
    fn new(bounds: &[f64]) -> Self {
        Self { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, buckets: vec![0; bounds.len() + 1] }
    }

    fn record(&mut self, value: f64, bounds: &[f64]) {
        self.count += 1;
        self.sum += value;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        let at = bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
    }
}

/// All series since `since`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) series: BTreeMap<(Instrument, Labels), Histogram>,
    /// When the first measurement started or, after [`take`](Self::take), when the last one taken ended; in nanoseconds
    /// since 1970.
    pub(crate) since: Option<u64>,
    /// When the last measured span ended.
    pub(crate) last: u64,
}

impl Metrics {
    /// Records a span.
    pub(crate) fn record(&mut self, span: &Span) {
        self.since.get_or_insert(span.start);
        self.last = self.last.max(span.end);
        let error = || span.error.as_ref().map(|error| error.kind.clone());
        match &span.operation {
            Operation::Chat(Chat { model, usage, first_chunk, .. }) => {
                let model = || Labels { model: model.clone(), ..Labels::default() };
                let duration = Labels { error: error(), ..model() };
                self.add(Instrument::OperationDuration, duration, span.seconds());
                if let Some(nanos) = first_chunk {
                    self.add(Instrument::TimeToFirstChunk, model(), seconds(*nanos));
                }
                for (kind, count) in [("input", usage.input), ("output", usage.output)] {
                    if count > 0 {
                        let labels = Labels { token_type: Some(kind), ..model() };
                        self.add(Instrument::TokenUsage, labels, tokens(count));
                    }
                }
            }
            Operation::ExecuteTool { tool, .. } => {
                let labels = Labels { subject: Some(tool.clone()), error: error(), ..Labels::default() };
                self.add(Instrument::ToolDuration, labels, span.seconds());
            }
            Operation::InvokeAgent { .. } => {
                let labels = Labels { subject: Some(span.agent.clone()), error: error(), ..Labels::default() };
                self.add(Instrument::AgentDuration, labels, span.seconds());
            }
        }
    }

    fn add(&mut self, instrument: Instrument, labels: Labels, value: f64) {
        let bounds = instrument.bounds();
        let mut key = (instrument, labels);
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&key) {
            key.1 = Labels { overflow: true, ..Labels::default() };
        }
        self.series.entry(key).or_insert_with(|| Histogram::new(bounds)).record(value, bounds);
    }

    /// Takes the measurements and starts over.
    pub(crate) fn take(&mut self) -> Self {
        let taken = std::mem::take(self);
        self.since = taken.since.map(|_| taken.last);
        taken
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
fn tokens(count: u64) -> f64 {
    count as f64
}
