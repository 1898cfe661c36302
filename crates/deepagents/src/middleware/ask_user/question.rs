//! Questions and the interpretation of answers.

use deepagents_core::interrupt::AnswerForm;
use deepagents_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;

/// The arguments of a question.
#[derive(Deserialize, JsonSchema)]
pub(super) struct QuestionArgs {
    /// The question, in one or two sentences.
    question: String,
    /// Answers to choose from; none for a free answer.
    #[serde(default)]
    choices: Vec<String>,
    /// Whether several may be chosen.
    #[serde(default)]
    several: bool,
}

/// The meaning of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Words(String),
    Chosen(Vec<String>),
    /// The answer is invalid; a message for the person.
    Problem(String),
}

impl QuestionArgs {
    /// Rejects a question that cannot be answered.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.question.trim().is_empty() {
            return Err(ToolError::model("Error: the question is empty. Say what you want to know."));
        }
        if self.choices.len() == 1 || self.choices.iter().any(|choice| choice.trim().is_empty()) {
            return Err(ToolError::model("Error: give two choices or more, each with words, or none."));
        }
        let repeated = |at: usize| self.choices.iter().skip(at + 1).any(|other| same(other, self.choices.get(at)));
        if (0..self.choices.len()).any(repeated) {
            return Err(ToolError::model("Error: two choices are the same."));
        }
        Ok(())
    }

    /// Returns the question as text for a person.
    pub(super) fn text(&self, problem: Option<&str>) -> String {
        let mut lines: Vec<String> = problem.map(str::to_owned).into_iter().collect();
        lines.push(self.question.trim().to_owned());
        lines.extend((1..).zip(&self.choices).map(|(number, choice)| format!("{number}. {}", choice.trim())));
        match (self.choices.is_empty(), self.several) {
            (true, _) => {}
            (false, false) => lines.push("Answer with a number, or in your own words.".to_owned()),
            (false, true) => lines.push("Answer with numbers, commas between, or in your own words.".to_owned()),
        }
        lines.join("\n")
    }

    /// Returns the choices, if there are any.
    pub(super) fn form(&self) -> Option<AnswerForm> {
        let choices = self.choices.iter().map(|choice| choice.trim().to_owned()).collect();
        (!self.choices.is_empty()).then_some(AnswerForm::Choices { choices, several: self.several })
    }

    /// Interprets an answer.
    pub(super) fn read(&self, said: &str) -> Answer {
        let said = said.trim();
        if said.is_empty() {
            return Answer::Problem("Nothing was answered.".to_owned());
        }
        if self.choices.is_empty() {
            return Answer::Words(said.to_owned());
        }
        if let Some(choice) = self.choices.iter().find(|choice| same(said, Some(choice))) {
            return Answer::Chosen(vec![choice.trim().to_owned()]);
        }
        let mut chosen: Vec<String> = Vec::new();
        for part in said.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let number = part.parse::<usize>().ok();
            let numbered = number.and_then(|number| self.choices.get(number.checked_sub(1)?));
            // A number may also be the text of a choice.
            let choice = match numbered.or_else(|| self.choices.iter().find(|choice| same(part, Some(choice)))) {
                Some(choice) => choice,
                None => match number {
                    Some(number) => return Answer::Problem(format!("There is no choice {number}.")),
                    None => return Answer::Words(said.to_owned()),
                },
            };
            let choice = choice.trim().to_owned();
            if !chosen.contains(&choice) {
                chosen.push(choice);
            }
        }
        match chosen.len() {
            0 => Answer::Words(said.to_owned()),
            1 => Answer::Chosen(chosen),
            _ if self.several => Answer::Chosen(chosen),
            _ => Answer::Problem("Only one of them can be chosen.".to_owned()),
        }
    }
}

fn same(one: &str, other: Option<&String>) -> bool {
    other.is_some_and(|other| one.trim().to_lowercase() == other.trim().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(choices: &[&str], several: bool) -> QuestionArgs {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        QuestionArgs { question: "Which?".to_owned(), choices, several }
    }

    fn chosen(choices: &[&str]) -> Answer {
        Answer::Chosen(choices.iter().map(|choice| (*choice).to_owned()).collect())
    }

    #[test]
    fn a_choice_is_named_by_its_number_or_its_text() {
        let one = question(&["red", "dark, blue"], false);
        assert_eq!(one.read(" 1 "), chosen(&["red"]));
        assert_eq!(one.read("RED"), chosen(&["red"]));
        assert_eq!(one.read("dark, blue"), chosen(&["dark, blue"]));
        assert_eq!(one.read("green"), Answer::Words("green".to_owned()));
        assert_eq!(one.read("3"), Answer::Problem("There is no choice 3.".to_owned()));
        assert_eq!(one.read("0"), Answer::Problem("There is no choice 0.".to_owned()));
        assert_eq!(one.read("1, 2"), Answer::Problem("Only one of them can be chosen.".to_owned()));
        assert_eq!(one.read(" "), Answer::Problem("Nothing was answered.".to_owned()));
    }

    #[test]
    fn several_choices_keep_the_order_they_were_named_in_without_duplicates() {
        let some = question(&["red", "blue", "green"], true);
        assert_eq!(some.read("3, red,3"), chosen(&["green", "red"]));
        assert_eq!(some.read("1 and 2"), Answer::Words("1 and 2".to_owned()));
        assert_eq!(some.read("1, pink"), Answer::Words("1, pink".to_owned()));
        let numbers = question(&["10", "20", "1"], true);
        assert_eq!(numbers.read("20, 10"), chosen(&["20", "10"]));
        assert_eq!(numbers.read("2, 1"), chosen(&["20", "10"]));
        assert_eq!(numbers.read("10, 30"), Answer::Problem("There is no choice 30.".to_owned()));
    }

    #[test]
    fn an_unanswerable_question_is_rejected() {
        assert!(question(&["one"], false).check().is_err());
        assert!(question(&["a", " "], false).check().is_err());
        assert!(question(&["a", " A"], false).check().is_err());
        assert!(QuestionArgs { question: " ".to_owned(), choices: Vec::new(), several: false }.check().is_err());
        assert!(question(&[], false).check().is_ok() && question(&["a", "b"], true).check().is_ok());
    }
}
