//! What an answer in words has to be, as data.

use serde::{Deserialize, Serialize};

/// What an answer in words ([`Decision::Respond`](super::Decision::Respond)) has to be, so that a form can be shown for it.
/// A question without one is answered with a text.
///
/// ```
/// use deepagents_core::interrupt::AnswerForm;
/// let form = AnswerForm::Choices { choices: vec!["red".into(), "dark blue".into()], several: true };
/// let json = serde_json::json!({"type": "choices", "choices": ["red", "dark blue"], "several": true});
/// assert_eq!(serde_json::to_value(&form)?, json);
/// assert_eq!(form.choose(&[0]), "red");
/// assert_eq!(form.choose(&[1, 0]), "2, 1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerForm {
    /// One of these, or several; other words are taken as well.
    Choices {
        /// What can be chosen, in words.
        choices: Vec<String>,
        /// Whether several can be chosen.
        #[serde(default)]
        several: bool,
    },
    /// A JSON object of these fields.
    Fields {
        /// The fields, in the order in which they are asked for.
        fields: Vec<FormField>,
    },
}

impl AnswerForm {
    /// The text of an answer that takes these choices, counted from zero: the words of a single one, the numbers of more,
    /// counted from one. What is not there is left out.
    pub fn choose(&self, chosen: &[usize]) -> String {
        let Self::Choices { choices, .. } = self else { return String::new() };
        match chosen {
            [one] => choices.get(*one).cloned().unwrap_or_default(),
            several => {
                let there = several.iter().filter(|at| **at < choices.len());
                there.map(|at| (at + 1).to_string()).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// A field of a form.
///
/// ```
/// use deepagents_core::interrupt::FormField;
/// let json = serde_json::json!({"name": "day", "description": "of the week", "required": true, "type": "text"});
/// let field: FormField = serde_json::from_value(json)?;
/// assert_eq!((field.label().as_str(), field.required), ("day (of the week)", true));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormField {
    /// Its name in the answer.
    pub name: String,
    /// What people call it; its name where that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What belongs into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it cannot be left out.
    #[serde(default)]
    pub required: bool,
    /// What it takes.
    #[serde(flatten)]
    pub kind: FieldKind,
}

impl FormField {
    /// What people call it, with what belongs into it in brackets.
    pub fn label(&self) -> String {
        let title = self.title.as_deref().unwrap_or(&self.name);
        match &self.description {
            Some(about) => format!("{title} ({about})"),
            None => title.to_owned(),
        }
    }
}

/// What a field of a form takes.
///
/// ```
/// use deepagents_core::interrupt::FieldKind;
/// let kind = FieldKind::Number { integer: true, default: Some(3.into()) };
/// assert_eq!(serde_json::to_value(&kind)?, serde_json::json!({"type": "number", "integer": true, "default": 3}));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldKind {
    /// A text.
    Text {
        /// What it is where nothing else is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it is a whole one.
        #[serde(default)]
        integer: bool,
        /// What it is where nothing else is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<serde_json::Number>,
    },
    /// Yes or no, as `true` and `false`.
    Boolean {
        /// What it is where nothing else is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<bool>,
    },
    /// The value of one option.
    Choice {
        /// The options.
        options: Vec<FieldOption>,
        /// The value that it has where nothing else is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
    /// A list of the values of options.
    Several {
        /// The options.
        options: Vec<FieldOption>,
        /// The values that it has where nothing else is said.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        default: Vec<String>,
    },
}

/// An option of a field.
///
/// ```
/// use deepagents_core::interrupt::FieldOption;
/// let option = FieldOption { value: "eu-1".to_owned(), title: Some("Europe".to_owned()) };
/// assert_eq!(option.label(), "Europe");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldOption {
    /// Its value in the answer.
    pub value: String,
    /// What people call it; its value where that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl FieldOption {
    /// What people call it.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.value)
    }
}
