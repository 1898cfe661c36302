//! A run as spans of OpenTelemetry: written to a file here, sent to a receiver where there is one.

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
    // What `OTEL_EXPORTER_OTLP_ENDPOINT` and its like say; here nothing, so spans go to a file alone.
    let environment = |name: &str| std::env::var(name).ok();
    let asked = OtelConfig::from_variables(&environment)?;
    let (export, mut options) =
        asked.map_or_else(|| (ExportConfig::default(), TraceOptions::default()), |asked| (asked.export, asked.options));

    // What was said is no part of spans, unless it is asked for; then it passes through a function first.
    options.content = Some(Content::default().redact(|_attribute, text| Some(text.replace("s3cr3t", "[redacted]"))));
    let tracer = Tracer::new(export.file(file.reopen()?), options)?;

    let watching = tracer.clone();
    let agent = DeepAgent::builder().model(model).observe_runs(move || watching.observer()).build()?;
    let outcome = agent.invoke("Keep my key.").await?;

    // No run waits for a receiver; the end of the program does, for so long.
    let report = tracer.shutdown(Duration::from_secs(5)).await;
    println!("{} {} spans, {} lost", outcome.text(), report.exported, report.dropped);
    let trace = std::fs::read_to_string(file.path())?;
    println!("{} lines, the key is in them: {}", trace.lines().count(), trace.contains("s3cr3t"));
    Ok(())
}
// ANCHOR_END: example
