//! Counts the tokens of requests: the provider's counts where available, and estimates for the rest.

use std::sync::Arc;

use deepagents_core::message::{
    Block, HistoryVersion, Media, MediaKind, MediaSource, Message, Messages, Origin, Usage,
};
use deepagents_core::model::{ModelRequest, SystemBlock};
use deepagents_core::tool::ToolSpec;

pub(super) use crate::tokens::estimate as of_text;

/// Number of overhead tokens per message.
const MESSAGE_OVERHEAD: u64 = 4;
/// Number of tokens of an image; about that of a large one.
const IMAGE_TOKENS: u64 = 1_600;
/// Limits of the correction of an estimate, in thousandths.
const CORRECTION: std::ops::RangeInclusive<u64> = 700..=2_500;

/// Estimates the tokens of a message.
pub(super) fn of_message(message: &Message) -> u64 {
    MESSAGE_OVERHEAD + message.content().iter().map(of_block).sum::<u64>()
}

fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text(text) => of_text(&text.text),
        Block::Reasoning(thought) => of_text(&thought.text),
        Block::ToolCall(call) => of_text(&call.name) + of_json(&call.args) + MESSAGE_OVERHEAD,
        Block::InvalidToolCall(call) => of_text(&call.name) + of_text(&call.raw) + MESSAGE_OVERHEAD,
        Block::Media(media) => of_media(media),
        Block::ProviderItem(item) => of_json(item.native.value()),
        _ => MESSAGE_OVERHEAD,
    }
}

pub(super) fn of_media(media: &Media) -> u64 {
    match &media.source {
        // A page of a document or a second of sound takes some tens of kilobytes.
        MediaSource::Base64(data) if media.kind != MediaKind::Image => (data.len() as u64 / 40).max(IMAGE_TOKENS),
        _ => IMAGE_TOKENS,
    }
}

fn of_json(value: &serde_json::Value) -> u64 {
    // UTF-8 bytes give about the same weight as the characters do in `of_text`.
    (value.to_string().len() as u64).div_ceil(4)
}

fn of_system(block: &SystemBlock) -> u64 {
    of_text(&block.text) + block.media.as_deref().map_or(0, of_media)
}

fn of_tool(tool: &ToolSpec) -> u64 {
    MESSAGE_OVERHEAD + of_text(&tool.name) + of_text(&tool.description) + of_json(&tool.schema)
}

/// Estimates the tokens of a request: the system prompt, the messages and the tools. Takes four characters of ASCII, two
/// of another alphabet or one ideograph as a token, and every image as a large one.
///
/// ```
/// use deepagents::ModelRequest;
/// use deepagents::middleware::summarization::estimated_tokens;
///
/// let request = ModelRequest::new("How is the weather in Turin?");
/// assert_eq!(estimated_tokens(&request), 11);
/// ```
pub fn estimated_tokens(request: &ModelRequest) -> u64 {
    let system: u64 = request.system.iter().map(of_system).sum();
    let tools: u64 = request.tools.iter().map(|tool| of_tool(tool)).sum();
    system + tools + request.messages.iter().map(|message| of_message(message)).sum::<u64>()
}

/// Counts the requests of one run incrementally.
#[derive(Default)]
pub(super) struct Tally {
    mark: Option<HistoryVersion>,
    /// Cumulative tokens of the messages up to and including each.
    sums: Vec<u64>,
    tools: Vec<Arc<ToolSpec>>,
    of_tools: u64,
    /// The count of the last request, for use between requests.
    pub(super) last: Count,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// Total number of tokens.
    pub(super) tokens: u64,
    /// Tokens of the system prompt and tools.
    pub(super) fixed: u64,
    /// Ratio of the provider's counts to the estimates, in thousandths.
    pub(super) correction: u64,
    /// The usage that the provider reported for the previous request, if the view has not changed since.
    pub(super) reported: Option<Usage>,
}

impl Default for Count {
    fn default() -> Self {
        Self { tokens: 0, fixed: 0, correction: 1000, reported: None }
    }
}

impl Count {
    /// Returns a lower bound for the tokens of the system prompt and tools: if the provider has counted more than
    /// estimated, the messages may be the cause.
    pub(super) fn surely_fixed(&self) -> u64 {
        (self.fixed.saturating_mul(1000) / self.correction.max(1000)).min(self.tokens)
    }

    /// Returns a corrected estimate.
    pub(super) fn corrected(&self, estimate: u64) -> u64 {
        estimate.saturating_mul(self.correction) / 1000
    }
}

impl Tally {
    /// Counts a request. The usage reported with an answer gives the tokens up to that answer, if it belongs to a
    /// request of the same view, that is, one after `changed_at` messages of the thread. Usage reported by another
    /// model is ignored; `model` is the name of the current one, `provider:model`.
    pub(super) fn count(&mut self, request: &ModelRequest, thread: &Messages, changed_at: usize, model: &str) -> Count {
        self.sum_up(&request.messages);
        let system: u64 = request.system.iter().map(of_system).sum();
        let fixed = system + self.tools(&request.tools);
        let all = self.upto(request.messages.len());
        let mut count = Count { correction: self.last.correction, ..Count::default() };
        if let Some((at, usage)) = reported(request, thread, changed_at, model) {
            let ratio = usage.input.saturating_mul(1000) / (fixed + self.upto(at)).max(1);
            count.correction = ratio.clamp(*CORRECTION.start(), *CORRECTION.end());
            count.tokens = usage.total() + count.corrected(all - self.upto(at + 1));
            count.reported = Some(usage);
        } else {
            count.tokens = count.corrected(fixed + all);
        }
        count.fixed = count.corrected(fixed);
        self.last = count;
        count
    }

    /// Applies the provider's count of the last counted request.
    pub(super) fn correct(&mut self, tokens: u64) -> Count {
        let Count { tokens: estimated, correction, fixed, .. } = self.last;
        let ratio = tokens.saturating_mul(correction) / estimated.max(1);
        let ratio = ratio.clamp(*CORRECTION.start(), *CORRECTION.end());
        let fixed = fixed.saturating_mul(ratio) / correction.max(1);
        self.last = Count { tokens, fixed, correction: ratio, reported: None };
        self.last
    }

    /// Returns the share of messages in the last request's tokens, given their corrected estimate. If the provider
    /// counts far more than can be corrected, the excess is distributed over the messages by size.
    pub(super) fn share(&self, corrected: u64) -> u64 {
        let estimated = self.last.corrected(self.sums.last().copied().unwrap_or(0)).max(1);
        let counted = self.last.tokens.saturating_sub(self.last.fixed).max(estimated);
        let share = u128::from(counted) * u128::from(corrected) / u128::from(estimated);
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the estimated tokens of the first messages.
    fn upto(&self, messages: usize) -> u64 {
        messages.checked_sub(1).and_then(|at| self.sums.get(at)).copied().unwrap_or(0)
    }

    fn sum_up(&mut self, messages: &Messages) {
        let known = self.mark.as_ref().map_or(0, |mark| messages.shared_with(mark));
        self.sums.truncate(known);
        let mut sum = self.upto(known);
        for message in messages.tail(known) {
            sum += of_message(message);
            self.sums.push(sum);
        }
        self.mark = Some(messages.mark());
    }

    fn tools(&mut self, tools: &[Arc<ToolSpec>]) -> u64 {
        let same = self.tools.len() == tools.len() && self.tools.iter().zip(tools).all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            self.tools = tools.to_vec();
            self.of_tools = tools.iter().map(|tool| of_tool(tool)).sum();
        }
        self.of_tools
    }
}

/// Returns the position of the last answer in the request and its reported usage, if that answer saw the same view.
fn reported(request: &ModelRequest, thread: &Messages, changed_at: usize, model: &str) -> Option<(usize, Usage)> {
    let at = request.messages.last_assistant()?;
    let answer = request.messages.get(at)?.as_assistant()?;
    let usage = answer.usage.filter(|usage| usage.input > 0)?;
    if answer.origin.as_ref().is_some_and(|origin| is_of_another(origin, model)) {
        return None;
    }
    // Both lists have the same end, so the position in the thread is found without a search; middlewares that append
    // messages shift it.
    let from_end = request.messages.len() - at;
    let in_thread = (0..from_end.min(8)).find_map(|less| {
        let index = thread.len().checked_sub(from_end - less)?;
        thread.get(index).is_some_and(|m| m.id() == answer.id).then_some(index)
    })?;
    (in_thread >= changed_at).then_some((at, usage))
}

/// Returns `true` if an answer is certainly another model's. A service may be registered under a custom name, and a
/// model may be served by several, so one matching name is enough.
fn is_of_another(origin: &Origin, model: &str) -> bool {
    let (provider, name) = model.split_once(':').unwrap_or(("", model));
    !origin.provider.is_empty() && origin.provider != provider && origin.model != name
}

#[cfg(test)]
mod tests {
    use deepagents_core::message::AssistantMessage;

    use super::*;

    fn answer(usage: u64, text: &str) -> Message {
        let usage = (usage > 0).then_some(Usage { input: usage, output: 10, ..Usage::default() });
        Message::Assistant(AssistantMessage {
            id: text.into(),
            usage,
            ..AssistantMessage::new(vec![Block::text(text)])
        })
    }

    #[test]
    fn the_provider_reported_count_corrects_the_estimate() {
        let mut request =
            ModelRequest::new(vec![Message::user("x".repeat(400)), answer(208, "a"), Message::user("y".repeat(400))]);
        request.system = vec![SystemBlock::new("z".repeat(400))];
        let mut tally = Tally::default();
        let count = tally.count(&request, &request.messages, 0, "");
        // The first request was estimated at 204 and reported as 208; the last message adds 104.
        assert_eq!(count.correction, 208 * 1000 / 204);
        assert_eq!(count.tokens, 218 + 104 * count.correction / 1000);
        // After a change of the view the report no longer applies, but the correction does.
        let later = tally.count(&request, &request.messages, 2, "");
        assert_eq!(later.tokens, (204 + 5 + 104) * count.correction / 1000);
    }

    #[test]
    fn a_count_far_above_the_estimate_is_shared_out_by_message_size() {
        let messages = vec![Message::user("x".repeat(400)), answer(60_000, "abcd"), Message::user("y".repeat(84))];
        let mut request = ModelRequest::new(messages);
        request.system = vec![SystemBlock::new("z".repeat(400))];
        let mut tally = Tally::default();
        let count = tally.count(&request, &request.messages, 0, "");
        assert_eq!((count.correction, count.fixed), (2_500, 250));
        // The first message is 104 of the estimated 134.
        let first = tally.share(count.corrected(104));
        assert_eq!(first, (count.tokens - count.fixed) * 260 / 335);
        let plain = tally.count(&ModelRequest::new(vec![Message::user("x")]), &request.messages, 3, "");
        assert_eq!(tally.share(plain.corrected(5)), plain.tokens);
    }

    #[test]
    fn incremental_counting_equals_counting_at_once() {
        let mut tally = Tally::default();
        let mut messages = Messages::new();
        for n in 0..50 {
            messages.put(Arc::new(answer(0, &format!("{n} {}", "x".repeat(n * 7)))));
            let request = ModelRequest::new(messages.clone());
            let at_once = Tally::default().count(&request, &messages, 0, "");
            assert_eq!(tally.count(&request, &messages, 0, "").tokens, at_once.tokens);
        }
    }
}
