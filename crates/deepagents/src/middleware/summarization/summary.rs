//! Requests summaries from a model.

use std::collections::VecDeque;
use std::sync::Arc;

use deepagents_core::error::Error;
use deepagents_core::message::Message;
use deepagents_core::model::{ChatModel, ModelError, ModelOutput, ModelRequest, StopReason, SystemBlock};
use deepagents_core::run::Context;

use super::count;
use super::options::Settled;
use super::sections::SummaryText;

/// Maximum number of times that messages too long for the summarizing model are halved.
const HALVINGS: usize = 3;
/// Number of tokens of the shortest piece of a message that is worth sending.
const LEAST: u64 = 200;

/// The input and the models of a summary.
pub(super) struct Summariser<'a> {
    pub(super) cx: &'a Context,
    pub(super) options: &'a Settled,
    /// The conversation's model.
    pub(super) main: &'a Arc<dyn ChatModel>,
    /// The previous summary.
    pub(super) earlier: Option<&'a SummaryText>,
    /// The evicted messages as text.
    pub(super) texts: Vec<String>,
    /// Ratio of the provider's counts to estimates, in thousandths.
    pub(super) correction: u64,
}

impl Summariser<'_> {
    /// Returns the summary; with the cached prefix if such a request is given and succeeds.
    pub(super) async fn run(self, inline: Option<ModelRequest>) -> Result<SummaryText, String> {
        if let Some(request) = inline
            && let Ok(answer) = self.cx.invoke_model(self.main, request).await
            && !answer.message.has_calls()
            && let Ok(summary) = self.read(&answer, self.earlier)
        {
            return Ok(summary);
        }
        let mut problem = None;
        for model in self.options.given.model.iter().map(|model| &model.0).chain([self.main]) {
            match self.write(model).await {
                Ok(summary) => return Ok(summary),
                Err(error) => {
                    problem.get_or_insert(format!("{}: {error}", model.name()));
                }
            }
        }
        Err(problem.unwrap_or_default())
    }

    fn read(&self, answer: &ModelOutput, earlier: Option<&SummaryText>) -> Result<SummaryText, Error> {
        // A refusal or a partial answer is not a summary.
        match &answer.stop {
            StopReason::Refusal => return Err(Error::other("the model declined to write it")),
            StopReason::ContextWindow | StopReason::Pause => {
                return Err(Error::other("the model's answer was broken off"));
            }
            StopReason::Other(word) => return Err(Error::other(format!("the model's answer was broken off ({word})"))),
            // An answer that reached its length limit has the most important points first.
            _ => {}
        }
        let text = answer.message.text();
        if text.trim().is_empty() {
            return Err(Error::other("the model's answer holds no summary"));
        }
        let summary = SummaryText::parse(&text);
        Ok(match earlier {
            Some(earlier) => summary.after(earlier),
            None => summary,
        })
    }

    /// Lets a model summarize all messages: at once if they fit its window, otherwise in parts, each together with the
    /// summary so far.
    async fn write(&self, model: &Arc<dyn ChatModel>) -> Result<SummaryText, Error> {
        let own = self.options.given.context_window.filter(|_| Arc::ptr_eq(model, self.main));
        let window = own.or(model.profile().context_window);
        let room = self.options.given.max_summary_tokens.min(window.map_or(u64::MAX, |window| window / 4));
        let prompt = count::of_text(&self.options.prompt);
        // Even corrected estimates may be off by a tenth; if they are off by more, the messages are halved.
        let most = window.map_or(u64::MAX, |window| (window / 10 * 9).saturating_sub(room + prompt));
        let mut most = most.saturating_mul(1000) / self.correction.max(1);
        let mut left: VecDeque<&str> = self.texts.iter().map(String::as_str).collect();
        let mut summary = self.earlier.cloned();
        let mut halvings = 0;
        while !left.is_empty() {
            let earlier = summary.as_ref().map_or(0, |summary| count::of_text(&summary.render()));
            let budget = most.saturating_sub(earlier).max(LEAST);
            let mut tokens = 0;
            let fits = left.iter().take_while(|text| {
                tokens += count::of_text(text);
                tokens <= budget
            });
            let taken = fits.count().max(1);
            let part: Vec<String> = left.iter().take(taken).map(|text| shortened(text, budget)).collect();
            let request = self.request(summary.as_ref(), &part, room);
            match self.cx.invoke_model(model, request).await {
                Ok(answer) => {
                    summary = Some(self.read(&answer, summary.as_ref())?);
                    left.drain(..taken);
                }
                Err(Error::Model(ModelError::ContextLength(_))) if halvings < HALVINGS => {
                    halvings += 1;
                    most = earlier + part.iter().map(|text| count::of_text(text)).sum::<u64>() / 2;
                }
                Err(error) => return Err(error),
            }
        }
        summary.ok_or_else(|| Error::other("there was nothing to summarise"))
    }

    fn request(&self, earlier: Option<&SummaryText>, texts: &[String], room: u64) -> ModelRequest {
        let earlier = earlier
            .map(|earlier| format!("<summary_so_far>\n{}\n</summary_so_far>\n\n", earlier.render()))
            .unwrap_or_default();
        let text = format!("{earlier}<messages>\n{}</messages>\n\nWrite the summary of all this.", texts.join("\n"));
        let mut request = ModelRequest::new(vec![Message::harness(text)]);
        request.system = vec![SystemBlock::new(self.options.prompt.clone())];
        request.settings.max_tokens = Some(room);
        request
    }
}

/// Returns the request for a summary that shares the prefix of the conversation's requests.
pub(super) fn inline(request: &ModelRequest, options: &Settled) -> ModelRequest {
    let mut request = request.clone();
    let lead = include_str!("../../prompts/summary_inline.md").trim_end();
    request.messages.put(Arc::new(Message::harness(format!("{lead}\n\n{}", options.prompt))));
    request
}

/// Removes the middle of a text that is longer than a model accepts.
fn shortened(text: &str, tokens: u64) -> String {
    if count::of_text(text) <= tokens {
        return text.to_owned();
    }
    // A character costs at most one token.
    let half = usize::try_from(tokens / 2).unwrap_or(usize::MAX);
    let chars = text.chars().count();
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(chars.saturating_sub(half)).collect();
    format!("{head}\n[{} characters left out]\n{tail}\n", chars.saturating_sub(2 * half))
}
