//! Converts spans and metrics to OTLP messages.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as metrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as trace;

use crate::metrics::{Histogram, Instrument, Labels, Metrics};
use crate::{AttributeValue, DiscardedAttempt, Operation, Span, SpanContext, SpanKind, Temporality, conventions};

/// The attribute of the overflow series.
const OVERFLOW: &str = "otel.metric.overflow";

/// Builds the resource, which describes the process.
pub(crate) fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().map(|(name, value)| key_value(name, Value::StringValue(value.clone())));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: conventions::SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Builds a request that exports spans.
pub(crate) fn spans(resource: &Resource, spans: &[Span]) -> ExportTraceServiceRequest {
    let scope_spans = trace::ScopeSpans {
        scope: Some(scope()),
        spans: spans.iter().map(span).collect(),
        schema_url: conventions::SCHEMA_URL.to_owned(),
    };
    let resource_spans = trace::ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        schema_url: conventions::SCHEMA_URL.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn span(span: &Span) -> trace::Span {
    let kind = match span.kind() {
        SpanKind::Internal => trace::span::SpanKind::Internal,
        SpanKind::Client => trace::span::SpanKind::Client,
    };
    let discarded = match &span.operation {
        Operation::Chat(chat) => chat.discarded.as_slice(),
        _ => &[],
    };
    let status = span.error.as_ref().map(|error| trace::Status {
        message: error.message.clone().unwrap_or_default(),
        code: trace::status::StatusCode::Error.into(),
    });
    trace::Span {
        trace_id: span.context.trace.0.to_vec(),
        span_id: span.context.span.0.to_vec(),
        parent_span_id: span.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        // The flag of sampled spans is 1. Those for remote parents and links are not set.
        flags: span.context.sampled.into(),
        name: span.name(),
        kind: kind.into(),
        start_time_unix_nano: span.start,
        end_time_unix_nano: span.end,
        attributes: span.attributes().into_iter().map(|(name, value)| attribute(name, value)).collect(),
        events: discarded.iter().map(event).collect(),
        links: span.link.iter().map(link).collect(),
        status,
        ..trace::Span::default()
    }
}

fn event(discarded: &DiscardedAttempt) -> trace::span::Event {
    let pause = i64::try_from(discarded.retry_after_ms).unwrap_or(i64::MAX);
    let pause = key_value(conventions::RETRY_AFTER_MS, Value::IntValue(pause));
    let reason = discarded.reason.iter();
    let reason = reason.map(|reason| key_value(conventions::REASON, Value::StringValue(reason.clone())));
    trace::span::Event {
        time_unix_nano: discarded.at,
        name: conventions::ATTEMPT_DISCARDED.to_owned(),
        attributes: reason.chain([pause]).collect(),
        dropped_attributes_count: 0,
    }
}

fn link(earlier: &SpanContext) -> trace::span::Link {
    trace::span::Link {
        trace_id: earlier.trace.0.to_vec(),
        span_id: earlier.span.0.to_vec(),
        flags: earlier.sampled.into(),
        ..trace::span::Link::default()
    }
}

fn attribute(name: &str, value: AttributeValue<'_>) -> KeyValue {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let value = match value {
        AttributeValue::Text(value) => text(value),
        AttributeValue::Texts(values) => {
            let values = values.into_iter().map(|value| AnyValue { value: Some(text(value)) });
            Value::ArrayValue(ArrayValue { values: values.collect() })
        }
        AttributeValue::Int(value) => Value::IntValue(value),
        AttributeValue::Double(value) => Value::DoubleValue(value),
    };
    key_value(name, value)
}

fn key_value(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Builds a request that exports metrics and the number of dropped spans.
pub(crate) fn metrics(
    resource: &Resource,
    measured: &Metrics,
    dropped: u64,
    temporality: Temporality,
) -> ExportMetricsServiceRequest {
    let (start, time) = (measured.since.unwrap_or(measured.last), measured.last);
    let temporality = match temporality {
        Temporality::Cumulative => metrics::AggregationTemporality::Cumulative,
        Temporality::Delta => metrics::AggregationTemporality::Delta,
    };
    let mut all: Vec<metrics::Metric> = Vec::new();
    for ((instrument, labels), histogram) in &measured.series {
        let point = point(*instrument, labels, histogram, (start, time));
        match all.last_mut() {
            Some(metrics::Metric { name, data: Some(metrics::metric::Data::Histogram(data)), .. })
                if *name == instrument.name() =>
            {
                data.data_points.push(point);
            }
            _ => {
                let data = metrics::Histogram { data_points: vec![point], aggregation_temporality: temporality.into() };
                all.push(metric(instrument.name(), instrument.unit(), metrics::metric::Data::Histogram(data)));
            }
        }
    }
    // This count covers the exporter's whole lifetime.
    let sum = metrics::Sum {
        data_points: vec![metrics::NumberDataPoint {
            start_time_unix_nano: start,
            time_unix_nano: time,
            value: Some(metrics::number_data_point::Value::AsInt(i64::try_from(dropped).unwrap_or(i64::MAX))),
            ..metrics::NumberDataPoint::default()
        }],
        aggregation_temporality: metrics::AggregationTemporality::Cumulative.into(),
        is_monotonic: true,
    };
    all.push(metric(conventions::metric::DROPPED_SPANS, "{span}", metrics::metric::Data::Sum(sum)));
    let scope_metrics =
        metrics::ScopeMetrics { scope: Some(scope()), metrics: all, schema_url: conventions::SCHEMA_URL.to_owned() };
    let resource_metrics = metrics::ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        schema_url: conventions::SCHEMA_URL.to_owned(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

fn metric(name: &str, unit: &str, data: metrics::metric::Data) -> metrics::Metric {
    metrics::Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..metrics::Metric::default() }
}

fn point(
    instrument: Instrument,
    labels: &Labels,
    histogram: &Histogram,
    (start, time): (u64, u64),
) -> metrics::HistogramDataPoint {
    let attributes = labels.attributes(instrument).into_iter();
    let attributes = attributes.map(|(name, value)| key_value(name, Value::StringValue(value.to_owned())));
    let overflow = labels.overflow.then(|| key_value(OVERFLOW, Value::BoolValue(true)));
    metrics::HistogramDataPoint {
        attributes: attributes.chain(overflow).collect(),
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: histogram.count,
        sum: Some(histogram.sum),
        bucket_counts: histogram.buckets.clone(),
        explicit_bounds: instrument.bounds().to_vec(),
        min: Some(histogram.min),
        max: Some(histogram.max),
        ..metrics::HistogramDataPoint::default()
    }
}
