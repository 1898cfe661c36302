//! Policies for tool calls that need a person's approval.

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

/// Defines, per tool, which calls need a person's approval.
///
/// Serialized as JSON, it is a map from tool to `true`, `false`, or `{"allowed_decisions": [...], "description": ...,
/// "rule": ..., "expires_after": seconds, "required": true}`; `args_schema` is ignored. Closures have no JSON form.
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

/// Defines when and how to ask about calls of one tool.
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

/// The rules for one tool, each evaluated on its own. An empty list means that calls of the tool are never asked about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolRules(pub(crate) Vec<InterruptOn>);

impl InterruptPolicy {
    /// Creates an empty policy, which asks about nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks before calls of a tool. A name that ends with `*`, as in `mcp__github__*`, stands for all tools with that
    /// prefix. If a tool has several rules, a call is asked about when any of them applies.
    #[must_use]
    pub fn before(mut self, tool: impl Into<String>, ask: InterruptOn) -> Self {
        self.tools.entry(tool.into()).or_default().0.push(ask);
        self
    }

    /// Does not ask before calls of a tool, even where permission rules would. Rules added with
    /// [`before`](Self::before) still apply.
    #[must_use]
    pub fn never(mut self, tool: impl Into<String>) -> Self {
        self.tools.entry(tool.into()).or_default();
        self
    }

    /// Combines the rules of both policies.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (tool, asks) in other.tools {
            self.tools.entry(tool).or_default().0.extend(asks.0);
        }
        self
    }

    /// Returns `true` if the policy asks about nothing.
    pub fn is_empty(&self) -> bool {
        self.tools.values().all(|asks| asks.0.is_empty())
    }

    /// Combines both policies, without the other's rules for tools that this one marks as [`never`](Self::never).
    pub(crate) fn over(self, mut other: Self) -> Self {
        other.tools.retain(|tool, _| self.tools.get(tool).is_none_or(|asks| !asks.0.is_empty()));
        self.and(other)
    }

    /// Drops the tools that are marked as never asked about.
    pub(crate) fn asking(mut self) -> Self {
        self.tools.retain(|_, asks| !asks.0.is_empty());
        self
    }

    /// Returns a tool with a rule that allows no decision; its calls would wait forever.
    pub(crate) fn undecidable(&self) -> Option<&str> {
        let none = |asks: &ToolRules| asks.0.iter().any(|ask| ask.allowed.is_empty());
        self.tools.iter().find(|(_, asks)| none(asks)).map(|(tool, _)| tool.as_str())
    }

    /// Returns the rules that apply to a call; if a hook has allowed the call, only the
    /// [required](InterruptOn::required) ones. The first rule determines the allowed decisions and the text of the
    /// question.
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

    /// Returns the first rule that applies to a call. `allowed` says whether a hook has allowed it.
    pub(crate) fn about<'a>(&'a self, call: &'a ToolCall, allowed: bool, cx: &'a Context) -> Option<&'a InterruptOn> {
        self.asking_about(call, allowed, cx).next()
    }

    /// Returns the names of all rules that apply to a call, joined into one string.
    pub(crate) fn rules_about(&self, call: &ToolCall, allowed: bool, cx: &Context) -> String {
        let mut names: Vec<String> = self.asking_about(call, allowed, cx).map(|ask| ask.rule_about(call, cx)).collect();
        names.dedup();
        names.join("; ")
    }
}

impl InterruptOn {
    /// Allows every kind of decision.
    pub fn any() -> Self {
        Self::only(DecisionKind::ALL)
    }

    /// Allows only these kinds of decision. The build of the agent fails if there are none.
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

    /// Sets the text of the question.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        (self.text, self.describe) = (Some(text.into()), None);
        self
    }

    /// Names the rule that asks, for the question, the log and any UI. By default, the name says that calls of the tool
    /// are asked about.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        (self.rule, self.name_rule) = (Some(rule.into()), None);
        self
    }

    /// Also asks about calls that a [hook](crate::middleware::hooks) allows; by default a hook's approval is enough.
    /// Permission rules always ask.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    crate::shared::setters! {
        /// Asks only about calls for which the predicate returns `true`.
        when(when: impl Fn(&ToolCall, &Context) -> bool + Send + Sync + 'static) => when = Some(Shared(Arc::new(when)));

        /// Derives the name of the rule from the call.
        name_rule(name: impl Fn(&ToolCall, &Context) -> Option<String> + Send + Sync + 'static)
            => name_rule = Some(Shared(Arc::new(name)));

        /// Derives the text of the question from the call.
        describe(describe: impl Fn(&ToolCall, &Context) -> String + Send + Sync + 'static)
            => describe = Some(Shared(Arc::new(describe)));

        /// Treats the call as rejected if nobody decides within this time.
        expires_after(time: Duration) => expires_after = Some(time);
    }

    /// Returns the name of the rule that asks about a call.
    fn rule_about(&self, call: &ToolCall, cx: &Context) -> String {
        let named = self.name_rule.as_ref().and_then(|name| name(call, cx)).or_else(|| self.rule.clone());
        named.unwrap_or_else(|| format!("calls of {} require approval", call.name))
    }

    /// Returns the text of the question about a call.
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
            Value::Object(mut fields) => {
                // Files of other harnesses have it; edited arguments are checked by the schema of the tool.
                fields.remove("args_schema");
                serde_json::from_value(Value::Object(fields)).map(|ask| Self(vec![ask])).map_err(de::Error::custom)
            }
            _ => Err(de::Error::custom("write true, false or {\"allowed_decisions\": [...]}")),
        }
    }
}

/// Serializes a duration as whole seconds.
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
