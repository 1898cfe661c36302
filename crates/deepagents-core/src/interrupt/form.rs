//! Forms for answers.

use serde::{Deserialize, Serialize};

/// A form that describes the expected answer ([`Decision::Respond`](super::Decision::Respond)), so that a user
/// interface can show it. A question without a form is answered with free text.
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
    /// One or several of these choices; other text is accepted as well.
    Choices {
        /// The choices as text.
        choices: Vec<String>,
        /// Whether several can be chosen.
        #[serde(default)]
        several: bool,
    },
    /// A JSON object with these fields.
    Fields {
        /// The fields, in display order.
        fields: Vec<FormField>,
    },
}

impl AnswerForm {
    /// Returns the answer text for these choices, given as indexes from zero: the text of a single choice, or the
    /// numbers of several, counted from one. Indexes out of range are ignored.
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
    /// Display name; the field's name if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of the expected value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the field is required.
    #[serde(default)]
    pub required: bool,
    /// The type of value.
    #[serde(flatten)]
    pub kind: FieldKind,
}

impl FormField {
    /// Returns the display name, with the description in brackets.
    pub fn label(&self) -> String {
        let title = self.title.as_deref().unwrap_or(&self.name);
        match &self.description {
            Some(about) => format!("{title} ({about})"),
            None => title.to_owned(),
        }
    }
}

/// The type of a form field's value.
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
        /// The default value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether the number must be an integer.
        #[serde(default)]
        integer: bool,
        /// The default value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<serde_json::Number>,
    },
    /// Yes or no, as `true` and `false`.
    Boolean {
        /// The default value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<bool>,
    },
    /// The value of one option.
    Choice {
        /// The options.
        options: Vec<FieldOption>,
        /// The default value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
    /// A list of values of options.
    Several {
        /// The options.
        options: Vec<FieldOption>,
        /// The default values.
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
    /// Display name; the value if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl FieldOption {
    /// Returns the display name.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.value)
    }
}
