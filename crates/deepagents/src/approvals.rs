//! What a person is asked about before it is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::interrupt::DecisionKind;
use deepagents_core::message::ToolCall;
use deepagents_core::run::Context;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use crate::shared::Shared;

type When = dyn Fn(&ToolCall, &Context) -> bool + Send + Sync;
type Describe = dyn Fn(&ToolCall, &Context) -> String + Send + Sync;
type NameRule = dyn Fn(&ToolCall, &Context) -> Option<String> + Send + Sync;

/// What a person is asked about before it is done, by tool.
///
/// As JSON a map from tool to `true`, `false`, or `{"allowed_decisions": [...], "description": ..., "rule": ...,
/// "expires_after": seconds, "required": true}`. Closures have no JSON form.
///
/// ```
/// use deepagents::{InterruptPolicy, InterruptOn, DecisionKind};
/// let approvals = InterruptPolicy::new()
///     .before("write_file", InterruptOn::any())
///     .before("execute", InterruptOn::only([DecisionKind::Approve, DecisionKind::Reject])
///         .when(|call, _cx| call.args["command"].as_str().is_some_and(|c| c.contains("rm "))));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterruptPolicy {
    pub(crate) tools: BTreeMap<String, ToolRules>,
}

/// When and how to ask about calls of one tool.
///
/// ```
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::{DeepAgent, DecisionKind, InterruptOn, InterruptPolicy, MemoryJournal};
/// let ask = InterruptOn::only([DecisionKind::Approve, DecisionKind::Reject]).text("May this file go?");
/// let agent = DeepAgent::builder()
///     .model(ScriptedModel::new([]))
///     .journal(MemoryJournal::new())
///     .interrupt_on(InterruptPolicy::new().before("delete", ask))
///     .build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterruptOn {
    #[serde(rename = "allowed_decisions")]
    pub(crate) allowed: Vec<DecisionKind>,
    #[serde(default, rename = "description", skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, with = "seconds", skip_serializing_if = "Option::is_none")]
    pub(crate) expires_after: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(skip)]
    name_rule: Option<Shared<NameRule>>,
    #[serde(skip)]
    describe: Option<Shared<Describe>>,
    #[serde(skip)]
    when: Option<Shared<When>>,
}

/// What is asked about calls of one tool: each rule by itself; without any, never.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolRules(pub(crate) Vec<InterruptOn>);

impl InterruptPolicy {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks before calls of a tool; of all tools whose names begin so, where it ends with `*`, as in `mcp__github__*`. Said
    /// twice for one tool, a call is asked about when either applies.
    #[must_use]
    pub fn before(mut self, tool: impl Into<String>, ask: InterruptOn) -> Self {
        self.tools.entry(tool.into()).or_default().0.push(ask);
        self
    }

    /// Does not ask before calls of a tool, where permission rules would. What is said with [`before`](Self::before)
    /// holds all the same.
    #[must_use]
    pub fn never(mut self, tool: impl Into<String>) -> Self {
        self.tools.entry(tool.into()).or_default();
        self
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (tool, asks) in other.tools {
            self.tools.entry(tool).or_default().0.extend(asks.0);
        }
        self
    }

    /// Whether nothing is asked about.
    pub fn is_empty(&self) -> bool {
        self.tools.values().all(|asks| asks.0.is_empty())
    }

    /// Both, less what the other asks about tools that are [never](Self::never) asked about here.
    pub(crate) fn over(self, mut other: Self) -> Self {
        other.tools.retain(|tool, _| self.tools.get(tool).is_none_or(|asks| !asks.0.is_empty()));
        self.and(other)
    }

    /// Without what is said to be never asked about.
    pub(crate) fn asking(mut self) -> Self {
        self.tools.retain(|_, asks| !asks.0.is_empty());
        self
    }

    /// A tool about whose calls nothing may be decided, so that they would wait for ever.
    pub(crate) fn undecidable(&self) -> Option<&str> {
        let none = |asks: &ToolRules| asks.0.iter().any(|ask| ask.allowed.is_empty());
        self.tools.iter().find(|(_, asks)| none(asks)).map(|(tool, _)| tool.as_str())
    }

    /// The rules that want a call to be asked about; of a call that hooks allow, those that are
    /// [required](InterruptOn::required). What may be decided, and in which words it is asked, the first says.
    fn asking_about<'a>(
        &'a self,
        call: &'a ToolCall,
        allowed: bool,
        cx: &'a Context,
    ) -> impl Iterator<Item = &'a InterruptOn> {
        let begins = |name: &str| name.strip_suffix('*').is_some_and(|beginning| call.name.starts_with(beginning));
        let rules = self.tools.iter().filter(move |(name, _)| **name == call.name || begins(name));
        let asks = rules.flat_map(|(_, rules)| &rules.0);
        let asks = asks.filter(move |ask| ask.required || !allowed);
        asks.filter(|ask| ask.when.as_ref().is_none_or(|when| when(call, cx)))
    }

    /// The first rule that wants a call to be asked about, which hooks may have allowed.
    pub(crate) fn about<'a>(&'a self, call: &'a ToolCall, allowed: bool, cx: &'a Context) -> Option<&'a InterruptOn> {
        self.asking_about(call, allowed, cx).next()
    }

    /// All of them in words.
    pub(crate) fn rules_about(&self, call: &ToolCall, allowed: bool, cx: &Context) -> String {
        let mut names: Vec<String> = self.asking_about(call, allowed, cx).map(|ask| ask.rule_about(call, cx)).collect();
        names.dedup();
        names.join("; ")
    }
}

impl InterruptOn {
    /// Anything may be decided.
    pub fn any() -> Self {
        Self::only(DecisionKind::ALL)
    }

    /// Only these may be decided; at least one, or the agent is not built.
    pub fn only(allowed: impl Into<Vec<DecisionKind>>) -> Self {
        Self {
            allowed: allowed.into(),
            text: None,
            expires_after: None,
            rule: None,
            required: false,
            name_rule: None,
            describe: None,
            when: None,
        }
    }

    /// Asks about some calls only.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&ToolCall, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Shared(Arc::new(when)));
        self
    }

    /// Asks in these words.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        (self.text, self.describe) = (Some(text.into()), None);
        self
    }

    /// Names the rule that asks, for the question, the log and whoever shows them. Without a name it is the tool that
    /// calls are asked about.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        (self.rule, self.name_rule) = (Some(rule.into()), None);
        self
    }

    /// Asks also about calls that a [hook](crate::middleware::hooks) allows, which otherwise settles the question. Permission
    /// rules always do.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Names the rule from the call.
    #[must_use]
    pub fn name_rule(mut self, name: impl Fn(&ToolCall, &Context) -> Option<String> + Send + Sync + 'static) -> Self {
        self.name_rule = Some(Shared(Arc::new(name)));
        self
    }

    crate::shared::setters! {
        /// Asks in words made from the call.
        describe(describe: impl Fn(&ToolCall, &Context) -> String + Send + Sync + 'static) => describe = Some(Shared(Arc::new(describe)));

        /// Counts as rejected after this time.
        expires_after(time: Duration) => expires_after = Some(time);
    }

    /// The rule that asks about a call, in words.
    fn rule_about(&self, call: &ToolCall, cx: &Context) -> String {
        let named = self.name_rule.as_ref().and_then(|name| name(call, cx)).or_else(|| self.rule.clone());
        named.unwrap_or_else(|| format!("calls of {} require approval", call.name))
    }

    /// What a person is asked about a call.
    pub(crate) fn question(&self, call: &ToolCall, cx: &Context) -> String {
        match (&self.describe, &self.text) {
            (Some(describe), _) => describe(call, cx),
            (None, Some(text)) => text.clone(),
            (None, None) => format!("{} wants to call {} with {}", cx.agent_name(), call.name, call.args),
        }
    }
}

impl Serialize for ToolRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [] => serializer.serialize_bool(false),
            [one] if *one == InterruptOn::any() => serializer.serialize_bool(true),
            [one] if one.describe.is_none() && one.when.is_none() && one.name_rule.is_none() => {
                one.serialize(serializer)
            }
            _ => Err(ser::Error::custom("closures, and two rules for one tool, have no JSON form")),
        }
    }
}

impl<'de> Deserialize<'de> for ToolRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(asked) => Ok(Self(asked.then(InterruptOn::any).into_iter().collect())),
            given @ Value::Object(_) => {
                serde_json::from_value(given).map(|ask| Self(vec![ask])).map_err(de::Error::custom)
            }
            _ => Err(de::Error::custom("write true, false or {\"allowed_decisions\": [...]}")),
        }
    }
}

/// A time as whole seconds.
mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde hands over a reference")]
    pub(super) fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(Duration::from_secs))
    }
}
