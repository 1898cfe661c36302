//! Upper limits of figures.

use serde_json::{Map, Value, json};

/// The limits of one case, each with the measured figure.
#[derive(Default)]
pub(crate) struct Bars(Vec<Value>);

/// Returns the factor by which time limits are widened: the variable `BENCH_SLACK`, or 1 if it is unset. Set it higher
/// for an unoptimised build.
fn time_factor() -> f64 {
    std::env::var("BENCH_SLACK").ok().and_then(|slack| slack.parse().ok()).unwrap_or(1.0)
}

impl Bars {
    /// Limits a time, or the ratio of a time to another program's. The limit is for an optimised build.
    pub(crate) fn takes_at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.at_most(name, figure, limit * time_factor());
    }

    /// Limits the ratio of two times of this program. Slack widens it by at most a factor of 2.
    pub(crate) fn ratio_at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        self.at_most(name, figure, limit * time_factor().min(2.0));
    }

    /// Limits a figure. A missing figure is reported as skipped.
    pub(crate) fn at_most(&mut self, name: &str, figure: Option<f64>, limit: f64) {
        let pass = figure.map_or(json!("skipped"), |figure| json!(figure <= limit));
        self.0.push(json!({"name": name, "figure": figure, "at_most": limit, "pass": pass}));
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Array(self.0)
    }
}

/// Whether all figures of a case are within their limits.
pub(crate) fn all_within_limits(out: &Map<String, Value>) -> bool {
    let bars = out.get("bars").and_then(Value::as_array);
    bars.is_none_or(|bars| bars.iter().all(|bar| bar.get("pass") != Some(&Value::Bool(false))))
}
