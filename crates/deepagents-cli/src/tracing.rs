//! Traces and metrics of runs, where the standard variables or an option ask for them.

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

/// How long the end waits for a receiver.
const FLUSH: Duration = Duration::from_secs(5);

/// What watches the runs of this process, if anything does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing(Option<Active>);

#[derive(Clone, Debug)]
struct Active {
    tracer: Tracer,
    /// The caller's `traceparent`.
    parent: Option<SpanContext>,
    /// Of the one task that this process has, where it has one.
    task: Arc<RunTrace>,
}

impl Tracing {
    /// Begins to export where something asks for it: to receivers that variables name, and to a new file. `previous` is
    /// the caller's trace that an earlier process noted in the thread.
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

    /// The caller's trace, for whoever goes on with the thread; none within where there is no caller.
    pub(crate) fn parent(&self) -> Option<Option<SpanContext>> {
        self.0.as_ref().map(|active| active.parent)
    }

    /// The agent's runs are parts of one task.
    pub(crate) fn watch_task(&self, builder: DeepAgentBuilder) -> DeepAgentBuilder {
        match &self.0 {
            Some(Active { task, .. }) => {
                let task = task.clone();
                builder.observe_runs(move || task.clone())
            }
            None => builder,
        }
    }

    /// Each run of the agent is a task of its own.
    pub(crate) fn watch_runs(&self, builder: DeepAgentBuilder) -> DeepAgentBuilder {
        match &self.0 {
            Some(Active { tracer, .. }) => {
                let tracer = tracer.clone();
                builder.observe_runs(move || tracer.observer())
            }
            None => builder,
        }
    }

    /// Exports what waits; says what was lost. A receiver that does not answer is waited for a while.
    pub(crate) async fn finish(&self) -> Option<String> {
        let Active { tracer, task, .. } = self.0.as_ref()?;
        task.finish();
        let ExportReport { dropped, last_error, .. } = tracer.shutdown(FLUSH).await;
        let why = last_error?;
        Some(if dropped == 0 { why } else { format!("{dropped} spans were lost: {why}") })
    }
}

/// A new file for spans.
fn create(path: &Path) -> Result<std::fs::File> {
    let shown = path.display();
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            WrongUsage(format!("`{shown}` exists already and is not overwritten; give --trace another file")).into()
        }
        _ => WrongUsage(format!("the file of traces `{shown}` cannot be created: {error}")).into(),
    })
}
