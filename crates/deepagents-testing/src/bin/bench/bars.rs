//! What a figure may be at most.

use serde_json::{Map, Value, json};

/// The bars of one case, each with its figure.
#[derive(Default)]
pub(crate) struct Bars(Vec<Value>);

/// How many times wider bars of time are: the variable `BENCH_SLACK`, 1 without it, more where this program is not
/// optimised.
fn slack() -> f64 {
    std::env::var("BENCH_SLACK").ok().and_then(|slack| slack.parse().ok()).unwrap_or(1.0)
}

impl Bars {
    /// A time, or a time measured against that of another program, that may be at most so much when optimised.
    pub(crate) fn takes_at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.at_most(name, figure, limit * slack());
    }

    /// A time measured against another of this program, which is no less noisy where there is slack.
    pub(crate) fn ratio_at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.at_most(name, figure, limit * slack().min(2.0));
    }

    /// A figure that may be at most so much; one that could not be had is told as skipped.
    pub(crate) fn at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        let pass = figure.map_or(json!("skipped"), |figure| json!(figure <= limit));
        self.0.push(json!({"name": name, "figure": figure, "at_most": limit, "pass": pass}));
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Array(self.0)
    }
}

/// Whether a case's figures are within all of its bars.
pub(crate) fn held(out: &Map<String, Value>) -> bool {
    let bars = out.get("bars").and_then(Value::as_array);
    bars.is_none_or(|bars| bars.iter().all(|bar| bar.get("pass") != Some(&Value::Bool(false))))
}
