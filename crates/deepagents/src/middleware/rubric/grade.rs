//! Calls the judge.

use std::sync::Arc;

use deepagents_core::message::Message;
use deepagents_core::model::{ChatModel, ModelRequest, SystemBlock};
use deepagents_core::run::Context;

use super::evaluation::Evaluation;
use super::transcript;

/// A judging model.
pub(super) struct Grader<'a> {
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) prompt: &'a str,
    pub(super) rubric: &'a str,
    /// The known criteria.
    pub(super) criteria: &'a [String],
}

impl Grader<'_> {
    /// Evaluates the work of a thread. If the first answer is invalid or incomplete, asks once more.
    ///
    /// # Errors
    /// Returns why there is no evaluation.
    pub(super) async fn evaluate(&self, cx: &Context) -> Result<Evaluation, String> {
        let payload = self.payload(cx);
        let first = Evaluation::read(&self.ask(cx, payload.clone()).await?);
        let correction = match &first {
            Ok(evaluation) if evaluation.covers(self.criteria) => return first.map(|first| first.by(self.criteria)),
            Ok(_) if self.criteria.is_empty() => "list every criterion of the rubric".to_owned(),
            Ok(_) => {
                format!("judge all {} criteria, by these names: {}", self.criteria.len(), self.criteria.join(", "))
            }
            Err(problem) => format!("the answer cannot be used: {problem}"),
        };
        let again = format!("{payload}\n\nYour last answer was not complete; {correction}.");
        let second = self.ask(cx, again).await.and_then(|text| Evaluation::read(&text));
        match (first, second) {
            (_, Ok(second)) if second.covers(self.criteria) => Ok(second.by(self.criteria)),
            (Ok(first), _) => Ok(first.by(self.criteria)),
            (Err(_), Ok(second)) => Ok(second.by(self.criteria)),
            (Err(_), Err(problem)) => Err(problem),
        }
    }

    async fn ask(&self, cx: &Context, text: String) -> Result<String, String> {
        let mut request = ModelRequest::new(vec![Message::user(text)]);
        request.system = vec![SystemBlock::new(self.prompt)];
        let output = cx.invoke_model(&self.model, request).await.map_err(|error| error.to_string())?;
        // The answer may repeat parts of the conversation and is shown to others, so let middlewares redact it.
        cx.receive_text(output.message.text()).map_err(|error| error.to_string())
    }

    /// Formats the rubric, the criteria and the conversation in tags that their content cannot close.
    fn payload(&self, cx: &Context) -> String {
        let nonce = format!("{:016x}", fastrand::u64(..));
        let part = |tag: &str, text: &str| {
            let text = text.replace("</", "<\\/");
            format!("<{tag}_{nonce}>\n{text}\n</{tag}_{nonce}>")
        };
        let mut parts = vec![part("rubric", self.rubric)];
        if !self.criteria.is_empty() {
            let numbered: Vec<String> = (1..).zip(self.criteria).map(|(at, name)| format!("{at}. {name}")).collect();
            parts.push(part("criteria", &numbered.join("\n")));
        }
        parts.push(part("transcript", &transcript::of(cx.messages())));
        parts.join("\n\n")
    }
}
