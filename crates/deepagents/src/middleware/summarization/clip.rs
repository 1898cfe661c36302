//! Truncation of large results.

use std::collections::BTreeMap;

use deepagents_core::event::MiddlewareEvent;

use super::event::CompactionEvent;
use super::view::Lens;
use super::work::{Work, unstored};
use super::{count, notice};

/// Number of characters to show of a truncated result.
const CLIPPED_CHARS: usize = 4_000;

impl Work<'_> {
    /// Truncates large results, the largest first, until the request has at most this many tokens. The whole results
    /// are stored first.
    pub(super) async fn clip(&mut self, target: u64) -> bool {
        let thread = self.cx.messages();
        let lens = Lens::new(&self.state, thread, self.options.args.as_ref());
        let chars = self.window.map_or(CLIPPED_CHARS, |window| {
            usize::try_from(window / 2).unwrap_or(CLIPPED_CHARS).clamp(200, CLIPPED_CHARS)
        });
        let results = (lens.base..thread.len()).filter_map(|index| Some((index, thread.get(index)?.as_tool()?)));
        let mut large: Vec<_> = results
            .filter(|(_, result)| !self.state.clipped.contains_key(&result.id))
            .filter_map(|(index, result)| {
                // Another middleware may have replaced it with less already. The replacement takes some space itself.
                let shown = self.request.messages.by_id(&result.id)?.text();
                (shown.chars().count() > chars + 200).then(|| (count::of_text(&shown), index, result))
            })
            .collect();
        large.sort_by_key(|(tokens, ..)| std::cmp::Reverse(*tokens));
        let mut shown = BTreeMap::new();
        let mut tokens = self.count.tokens;
        for (tokens_shown, index, result) in large {
            if tokens <= target {
                break;
            }
            let text = thread.get(index).map(|message| message.text()).unwrap_or_default();
            let where_whole = match notice::file_read(thread, index, result) {
                Some(path) => format!("read {path} again with `offset` and `limit`"),
                None => match self.archive.result(&result.id, &text).await {
                    Ok(path) => format!("it is whole in {path}; read it in parts"),
                    Err(error) => {
                        let error = unstored(error);
                        self.cx.report(MiddlewareEvent::CompactionFailed { error: error.clone() });
                        self.problem = Some(error);
                        continue;
                    }
                },
            };
            let short = notice::clipped(&text, chars, &where_whole);
            let saved = tokens_shown.saturating_sub(count::of_text(&short));
            tokens = tokens.saturating_sub(self.count.corrected(saved));
            shown.insert(result.id.clone(), short.into());
        }
        if shown.is_empty() {
            return false;
        }
        let (results, tokens_before) = (shown.len(), self.count.tokens);
        self.apply(CompactionEvent::ResultsClipped { shown, made_at: thread.len() });
        let tokens_after = self.count.tokens;
        self.cx.report(MiddlewareEvent::ResultsClipped { results, tokens_before, tokens_after });
        true
    }
}
