//! A one-line summary of a run.

use deepagents::Usage;

use super::Ending;
use super::style::{count, grouped};
use crate::duration;

/// Formats `1,234 tokens in (1,000 cached), 56 out · 3 model calls · 2.1 s · thread 4f1c09a2`.
pub(super) fn summary(ending: &Ending, thread: Option<&str>) -> String {
    let calls = count(ending.spent.model_calls, "model call");
    let thread = thread.map(|thread| format!(" · thread {thread}")).unwrap_or_default();
    format!("{} · {calls} · {}{thread}", tokens(ending.usage), duration::show(ending.elapsed))
}

fn tokens(usage: Usage) -> String {
    if usage.total() == 0 {
        return "no tokens reported".to_owned();
    }
    format!("{} tokens in ({} cached), {} out", grouped(usage.input), grouped(usage.cache_read), grouped(usage.output))
}
