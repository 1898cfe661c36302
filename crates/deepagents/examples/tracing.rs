//! A run as OpenTelemetry spans: written to a file, and sent to a collector if there is one.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::time::Duration;

use deepagents::DeepAgent;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::otel::{Content, ExportConfig, OtelConfig, TraceOptions, Tracer};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("write_file", json!({"file_path": "/key.txt", "content": "s3cr3t"})),
        Turn::text("I have written it down."),
    ]);
    let file = tempfile::NamedTempFile::new()?;
    // The values of `OTEL_EXPORTER_OTLP_ENDPOINT` and the like; unset here, so spans only go to the file.
    let environment = |name: &str| std::env::var(name).ok();
    let asked = OtelConfig::from_variables(&environment)?;
    let (export, mut options) =
        asked.map_or_else(|| (ExportConfig::default(), TraceOptions::default()), |asked| (asked.export, asked.options));

    // Spans do not contain message content unless requested; it then passes through a redaction function.
    options.content = Some(Content::default().redact(|_attribute, text| Some(text.replace("s3cr3t", "[redacted]"))));
    let tracer = Tracer::new(export.file(file.reopen()?), options)?;

    let watching = tracer.clone();
    let agent = DeepAgent::builder().model(model).observe_runs(move || watching.observer()).build()?;
    let outcome = agent.invoke("Keep my key.").await?;

    // Runs never wait for a collector; the end of the program does, up to this long.
    let report = tracer.shutdown(Duration::from_secs(5)).await;
    println!("{} {} spans, {} lost", outcome.text(), report.exported, report.dropped);
    let trace = std::fs::read_to_string(file.path())?;
    println!("{} lines, the key is in them: {}", trace.lines().count(), trace.contains("s3cr3t"));
    Ok(())
}
// ANCHOR_END: example
