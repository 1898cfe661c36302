//! One turn that delegates many tasks at once.

use std::time::Instant;

use anyhow::{Result, ensure};
use deepagents::{FinishReason, Message};
use serde_json::{Map, Value, json};

use crate::bars::Bars;
use crate::{Bench, timed, usage};

/// Maximum time of a run as a multiple of its consecutive model delays.
const MAX_FACTOR: f64 = 1.6;

impl Bench {
    /// `fan K D`: one run of K tasks in one turn, with a model delay of D ms. Three delays follow one another: that of
    /// the turn, that of all sub-agents at once, and that of the answer. The minimum time is therefore three delays.
    pub(crate) async fn fan(&self) -> Result<Map<String, Value>> {
        let (tasks, delay): (usize, u64) = (self.arg(0)?, self.arg(1)?);
        let agent = self.agent(&format!("fan-{tasks}-d{delay}"), None)?;
        let (started, cpu) = (Instant::now(), usage::cpu());
        let outcome = agent.invoke("go").await?;
        let (seconds, cpu) = (started.elapsed(), usage::cpu().saturating_sub(cpu));
        ensure!(outcome.stop == FinishReason::Done, "the run ended with {:?}", outcome.stop);
        let messages = outcome.messages();
        let done = messages.iter().filter(|m| matches!(&***m, Message::Tool(result) if !result.is_error)).count();
        ensure!(done == tasks, "{done} of {tasks} tasks were done");
        let mut out = timed(seconds, cpu);
        let delays = (3 * delay) as f64 / 1000.0;
        out.insert("delays_s".to_owned(), json!(delays));
        let mut bars = Bars::default();
        if delay > 0 {
            bars.takes_at_most("seconds", Some(seconds.as_secs_f64()), delays * MAX_FACTOR);
        }
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}
