//! Traces and metrics of runs, if the standard variables or an option ask for them.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use deepagents::DeepAgentBuilder;
use deepagents::otel::{ExportConfig, ExportReport, OtelConfig, RunTrace, SpanContext, Tracer};

use crate::exit::WrongUsage;
use crate::model_choice::env;
use crate::{output, proxy};

/// How long to wait for a receiver at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Tracing of the runs of this process, if enabled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing(Option<Active>);

#[derive(Clone, Debug)]
struct Active {
    tracer: Tracer,
    /// The caller's `traceparent`.
    parent: Option<SpanContext>,
    /// The observer for the single task of this process, if it has one.
    task: Arc<RunTrace>,
}

impl Tracing {
    /// Starts exporting if requested: to the receivers that variables name, and to a new file. `previous` is the
    /// caller's trace that an earlier process noted in the thread.
    pub(crate) async fn open(file: Option<&Path>, previous: Option<&str>) -> Result<Self> {
        let asked = OtelConfig::from_variables(&env)?;
        let (mut export, mut options) = match asked {
            Some(config) => {
                for ignored in &config.ignored {
                    output::remark(&format!("tracing: {ignored}"));
                }
                if config.export.traces.is_none() && config.export.metrics.is_none() && file.is_none() {
                    return Ok(Self::default());
                }
                (config.export, config.options)
            }
            None if file.is_none() => return Ok(Self::default()),
            None => (ExportConfig::default(), OtelConfig::options(&env)?),
        };
        for endpoint in export.traces.iter_mut().chain(&mut export.metrics) {
            endpoint.proxy = proxy::for_address(&endpoint.url, &env);
        }
        if let Some(path) = file {
            export = export.file(create(path)?);
        }
        let parent = options.parent;
        options.previous_trace = previous.and_then(|text| text.parse::<SpanContext>().ok()).map(|span| span.trace);
        let tracer = Tracer::new(export, options)?;
        let task = tracer.observer();
        Ok(Self(Some(Active { tracer, parent, task })))
    }

    /// Returns the caller's span context, to be noted for the process that resumes the thread. The inner value is
    /// `None` if there is no caller, the outer one if tracing is off.
    pub(crate) fn parent(&self) -> Option<Option<SpanContext>> {
        self.0.as_ref().map(|active| active.parent)
    }

    /// Traces all runs of the agent as parts of one task.
    pub(crate) fn watch_task(&self, builder: DeepAgentBuilder) -> DeepAgentBuilder {
        match &self.0 {
            Some(Active { task, .. }) => {
                let task = task.clone();
                builder.observe_runs(move || task.clone())
            }
            None => builder,
        }
    }

    /// Traces each run of the agent as a task of its own.
    pub(crate) fn watch_runs(&self, builder: DeepAgentBuilder) -> DeepAgentBuilder {
        match &self.0 {
            Some(Active { tracer, .. }) => {
                let tracer = tracer.clone();
                builder.observe_runs(move || tracer.observer())
            }
            None => builder,
        }
    }

    /// Flushes the exporters and reports what was lost. Waits a limited time for a receiver that does not answer.
    pub(crate) async fn finish(&self) {
        let Some(Active { tracer, task, .. }) = &self.0 else { return };
        task.finish();
        let ExportReport { dropped, last_error, .. } = tracer.shutdown(FLUSH_TIMEOUT).await;
        if let Some(why) = last_error {
            let lost = if dropped == 0 { String::new() } else { format!("{dropped} spans were lost: ") };
            output::remark(&format!("tracing: {lost}{why}"));
        }
    }
}

/// Creates a new file for spans.
fn create(path: &Path) -> Result<std::fs::File> {
    let shown = path.display();
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            WrongUsage::new(format!("`{shown}` exists already and is not overwritten; give --trace another file"))
                .into()
        }
        _ => WrongUsage::new(format!("the trace file `{shown}` cannot be created: {error}")).into(),
    })
}
