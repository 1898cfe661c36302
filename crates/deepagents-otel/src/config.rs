//! Configuration by the standard environment variables of OpenTelemetry.

use std::str::FromStr;
use std::time::Duration;

use crate::{Content, Endpoint, ExportConfig, Protocol, Sampler, Temporality, TraceOptions};

/// Looks up a variable. The program owns the environment and reads it.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The configuration that the standard variables describe.
///
/// ```
/// use deepagents_otel::OtelConfig;
/// let variables = |name: &str| match name {
///     "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://localhost:4318".to_owned()),
///     "OTEL_SERVICE_NAME" => Some("notes".to_owned()),
///     _ => None,
/// };
/// let config = OtelConfig::from_variables(&variables)?.ok_or("tracing is off")?;
/// assert_eq!(config.export.traces.map(|to| to.url).as_deref(), Some("http://localhost:4318/v1/traces"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct OtelConfig {
    /// The destinations of spans and metrics, and the export schedule.
    pub export: ExportConfig,
    /// The contents of spans.
    pub options: TraceOptions,
    /// Messages about variables that ask for unsupported features. They have no other effect.
    pub ignored: Vec<String>,
}

/// Reports an invalid value of a variable, or an invalid `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// A variable has an invalid value.
    #[error("the variable {variable} cannot be `{value}`: {expected}")]
    Value { variable: String, value: String, expected: &'static str },
    /// The text is not a valid `traceparent`.
    #[error("`{value}` is not a valid traceparent; write it as 00-TRACE-SPAN-FLAGS, in lower-case hexadecimal")]
    TraceParent { value: String },
}

/// The expectation for a duration or a number.
const NUMBER: &str = "write a whole number";
/// The default address of HTTP receivers.
const HTTP: &str = "http://localhost:4318";
/// The default address of gRPC receivers.
const GRPC: &str = "http://localhost:4317";

impl OtelConfig {
    /// Reads the variables. Returns `None` if they name neither an endpoint nor an exporter, or if `OTEL_SDK_DISABLED`
    /// is true. If everything they ask for is [`ignored`](Self::ignored), the configuration has no endpoint.
    ///
    /// # Errors
    /// Returns an error if a variable has an invalid value.
    pub fn from_variables(variables: Variables<'_>) -> Result<Option<Self>, ConfigError> {
        let env = Env(variables);
        if env.flag("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let mut ignored = Vec::new();
        let traces = env.endpoint("TRACES", "traces", &mut ignored)?;
        let metrics = env.endpoint("METRICS", "metrics", &mut ignored)?;
        if traces.is_none() && metrics.is_none() && ignored.is_empty() {
            return Ok(None);
        }
        if let Some(value) = env.get("OTEL_EXPORTER_OTLP_COMPRESSION").filter(|value| value != "none") {
            ignored.push(format!("OTEL_EXPORTER_OTLP_COMPRESSION={value}: nothing is compressed"));
        }
        let defaults = ExportConfig::default();
        let export = ExportConfig {
            traces,
            metrics,
            resource: env.resource()?,
            schedule_delay: env.millis("OTEL_BSP_SCHEDULE_DELAY", defaults.schedule_delay)?,
            max_queue: env.number("OTEL_BSP_MAX_QUEUE_SIZE")?.unwrap_or(defaults.max_queue),
            max_batch: env.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")?.unwrap_or(defaults.max_batch),
            metric_interval: env.millis("OTEL_METRIC_EXPORT_INTERVAL", defaults.metric_interval)?,
            timeout: env.millis("OTEL_EXPORTER_OTLP_TIMEOUT", defaults.timeout)?,
            temporality: env.temporality()?,
            ..ExportConfig::default()
        };
        Ok(Some(Self { export, options: Self::options(variables)?, ignored }))
    }

    /// Reads the contents of spans and how traces are connected, whether or not anything is exported over the network.
    ///
    /// # Errors
    /// Returns an error if a variable has an invalid value. An invalid `TRACEPARENT` is ignored, as the standard
    /// requires.
    pub fn options(variables: Variables<'_>) -> Result<TraceOptions, ConfigError> {
        let env = Env(variables);
        let propagators = env.get("OTEL_PROPAGATORS");
        let listed = |list: &str| list.split(',').any(|name| name.trim() == "tracecontext");
        let reads = propagators.as_deref().is_none_or(listed);
        let parent = env.get("TRACEPARENT").filter(|_| reads).and_then(|parent| parent.parse().ok());
        let content = match env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").as_deref() {
            Some(value) if value.eq_ignore_ascii_case("true") => true,
            Some(value) => value.eq_ignore_ascii_case("span_only") || value.eq_ignore_ascii_case("span_and_event"),
            None => false,
        };
        Ok(TraceOptions {
            content: content.then(Content::default),
            sampler: env.sampler()?,
            parent,
            // Reading the parent is the default; sending it to model servers has to be requested.
            propagate: propagators.as_deref().is_some_and(listed),
            ..TraceOptions::default()
        })
    }
}

struct Env<'a>(Variables<'a>);

impl Env<'_> {
    /// Returns the value of a variable. An empty one counts as unset.
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| wrong(name, &value, NUMBER))
    }

    fn millis(&self, name: &str, default: Duration) -> Result<Duration, ConfigError> {
        Ok(self.number(name)?.map_or(default, Duration::from_millis))
    }

    /// Returns the endpoint of a signal, if it is to be exported.
    fn endpoint(&self, signal: &str, path: &str, ignored: &mut Vec<String>) -> Result<Option<Endpoint>, ConfigError> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let exporters = self.get(&exporter);
        let named = exporters.as_deref().map(|list| list.split(',').map(str::trim).collect::<Vec<_>>());
        if let Some(named) = &named {
            let others = named.iter().filter(|name| !matches!(**name, "otlp" | "none"));
            ignored.extend(others.map(|name| format!("{exporter}={name}: only otlp is exported")));
            if !named.contains(&"otlp") {
                return Ok(None);
            }
        }
        let own = self.get(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
        let base = self.get("OTEL_EXPORTER_OTLP_ENDPOINT");
        if named.is_none() && own.is_none() && base.is_none() {
            return Ok(None);
        }
        let variables = [format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()];
        let protocol = match variables.iter().find_map(|variable| Some((variable, self.get(variable)?))) {
            None => Protocol::HttpProtobuf,
            Some((variable, protocol)) => match protocol.as_str() {
                "http/protobuf" => Protocol::HttpProtobuf,
                "http/json" => Protocol::HttpJson,
                "grpc" => Protocol::Grpc,
                other => return Err(wrong(variable, other, "write grpc, http/protobuf or http/json")),
            },
        };
        let url = match (own, protocol) {
            (Some(own), _) => address(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"), own, protocol)?,
            (None, Protocol::Grpc) => base.unwrap_or_else(|| GRPC.to_owned()),
            (None, _) => {
                let base = base.unwrap_or_else(|| HTTP.to_owned());
                let base = address("OTEL_EXPORTER_OTLP_ENDPOINT", base, protocol)?;
                format!("{}/v1/{path}", base.trim_end_matches('/'))
            }
        };
        // Addresses for gRPC often have no scheme.
        let url = if url.contains("://") { url } else { format!("http://{url}") };
        let mut headers = self.pairs("OTEL_EXPORTER_OTLP_HEADERS")?;
        for (name, value) in self.pairs(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS"))? {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
        Ok(Some(Endpoint { headers, ..Endpoint::new(protocol, url) }))
    }

    /// Parses a list of the form `name=value,name=value`, with percent-encoding. Values may be secret, so errors do not
    /// contain them.
    fn pairs(&self, variable: &str) -> Result<Vec<(String, String)>, ConfigError> {
        let list = self.get(variable).unwrap_or_default();
        let decoded = |text: &str| percent_encoding::percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
        let entries = list.split(',').filter(|entry| !entry.trim().is_empty());
        let read = entries.map(|entry| match entry.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => Ok((decoded(name), decoded(value))),
            _ => Err(wrong(variable, "…", "write it as name=value,name=value")),
        });
        read.collect()
    }

    fn resource(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let mut resource = self.pairs("OTEL_RESOURCE_ATTRIBUTES")?;
        let name = self.get("OTEL_SERVICE_NAME");
        if name.is_some() || !resource.iter().any(|(key, _)| key == "service.name") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name.unwrap_or_else(|| "deepagents".to_owned())));
        }
        Ok(resource)
    }

    fn sampler(&self) -> Result<Sampler, ConfigError> {
        let ratio = || {
            let Some(value) = self.get("OTEL_TRACES_SAMPLER_ARG") else { return Ok(1.0) };
            let ratio = value.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.ok_or_else(|| wrong("OTEL_TRACES_SAMPLER_ARG", &value, "write a number from 0 to 1"))
        };
        Ok(match self.get("OTEL_TRACES_SAMPLER").as_deref() {
            None | Some("parentbased_always_on") => Sampler::ParentBased(1.0),
            Some("parentbased_always_off") => Sampler::ParentBased(0.0),
            Some("parentbased_traceidratio") => Sampler::ParentBased(ratio()?),
            Some("always_on") => Sampler::AlwaysOn,
            Some("always_off") => Sampler::AlwaysOff,
            Some("traceidratio") => Sampler::Ratio(ratio()?),
            Some(other) => {
                let expected = "write always_on, always_off, traceidratio, or one of these after parentbased_";
                return Err(wrong("OTEL_TRACES_SAMPLER", other, expected));
            }
        })
    }

    fn temporality(&self) -> Result<Temporality, ConfigError> {
        let variable = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        let value = self.get(variable).unwrap_or_default();
        match value.to_lowercase().as_str() {
            "" | "cumulative" => Ok(Temporality::Cumulative),
            // The two differ only for instruments that are not used here.
            "delta" | "lowmemory" => Ok(Temporality::Delta),
            _ => Err(wrong(variable, &value, "write cumulative, delta or lowmemory")),
        }
    }
}

fn wrong(variable: &str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Value { variable: variable.to_owned(), value: value.to_owned(), expected }
}

/// Checks an address: for HTTP, it must have a scheme.
fn address(variable: &str, value: String, protocol: Protocol) -> Result<String, ConfigError> {
    if protocol == Protocol::Grpc || value.starts_with("http://") || value.starts_with("https://") {
        return Ok(value);
    }
    Err(wrong(variable, &value, "write an address with its scheme, such as http://localhost:4318"))
}
