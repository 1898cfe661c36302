//! The standard environment variables.

use std::collections::BTreeMap;

use deepagents_otel::{ConfigError, OtelConfig, Protocol, Sampler, Temporality};

fn read(variables: &[(&str, &str)]) -> Result<Option<OtelConfig>, ConfigError> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    OtelConfig::from_variables(&|name| variables.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn tracing_is_off_unless_enabled_by_a_variable() {
    for off in [
        &[][..],
        &[("OTEL_SERVICE_NAME", "notes")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"), ("OTEL_SDK_DISABLED", "true")],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ] {
        assert!(read(off).unwrap().is_none(), "{off:?}");
    }
    let on = read(&[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap().unwrap();
    assert_eq!(on.export.traces.unwrap().url, "http://localhost:4318/v1/traces");
    assert!(on.export.metrics.is_none());
    let other = read(&[("OTEL_TRACES_EXPORTER", "console")]).unwrap().unwrap();
    assert!(other.export.traces.is_none() && other.export.metrics.is_none());
    assert_eq!(other.ignored, ["OTEL_TRACES_EXPORTER=console: only otlp is exported"]);
}

#[test]
fn per_signal_endpoints_headers_and_protocols_override_the_general_ones() {
    let config = read(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all.example/otlp/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%3Db%20c, project=one"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Project=two"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "metrics.example:4317"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=ignored"),
        ("OTEL_SERVICE_NAME", "notes"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "DELTA"),
    ]);
    let config = config.unwrap().unwrap();
    let traces = config.export.traces.unwrap();
    assert_eq!(traces.url, "https://all.example/otlp/v1/traces");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(traces.headers, [pair("x-api-key", "a=b c"), pair("Project", "two")]);
    assert!(!format!("{traces:?}").contains("a=b"), "values of headers are keys");
    let metrics = config.export.metrics.unwrap();
    assert_eq!((metrics.protocol, metrics.url.as_str()), (Protocol::Grpc, "http://metrics.example:4317"));
    let resource = [pair("deployment.environment.name", "test"), pair("service.name", "notes")];
    assert_eq!((config.export.resource, config.export.max_queue), (resource.to_vec(), 10));
    assert_eq!((config.export.timeout.as_millis(), config.export.temporality), (1500, Temporality::Delta));
    assert_eq!(config.ignored, ["OTEL_EXPORTER_OTLP_COMPRESSION=gzip: nothing is compressed"]);
}

#[test]
fn an_invalid_setting_is_an_error_that_lists_the_allowed_values() {
    let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1");
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "smoke"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "now"),
    ] {
        let error = read(&[on, (variable, value)]).unwrap_err().to_string();
        assert!(error.contains(variable) && error.contains(value) && error.contains("write"), "{error}");
    }
    for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let error = read(&[(variable, "nonsense")]).unwrap_err().to_string();
        assert!(error.contains(variable) && error.contains("nonsense") && error.contains("http://"), "{error}");
    }
    let error = read(&[on, ("OTEL_EXPORTER_OTLP_HEADERS", "s3cr3t")]).unwrap_err().to_string();
    assert!(!error.contains("s3cr3t"), "{error}");
    let ratio = [on, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
    assert!(read(&ratio).is_err());
}

#[test]
fn the_callers_trace_is_read_and_propagated_only_when_enabled() {
    let parent = ("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let on = ("OTEL_TRACES_EXPORTER", "otlp");
    let options = |more: &[(&str, &str)]| read(&[&[on, parent][..], more].concat()).unwrap().unwrap().options;
    let usual = options(&[]);
    assert!(usual.parent.is_some() && !usual.propagate && usual.content.is_none());
    assert_eq!(usual.sampler, Sampler::ParentBased(1.0));
    assert!(options(&[("OTEL_PROPAGATORS", "tracecontext,baggage")]).propagate);
    let none = options(&[("OTEL_PROPAGATORS", "none")]);
    assert!(none.parent.is_none() && !none.propagate);
    assert!(options(&[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")]).content.is_some());
    let wrong = read(&[on, ("TRACEPARENT", "what")]).unwrap().unwrap();
    assert!(wrong.options.parent.is_none());
}
