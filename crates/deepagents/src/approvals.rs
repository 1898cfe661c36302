//! What a person is asked about before it is done.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::ask::DecisionKind;
use deepagents_core::message::ToolCall;
use deepagents_core::run::Context;

type When = Arc<dyn Fn(&ToolCall, &Context) -> bool + Send + Sync>;
type Describe = Arc<dyn Fn(&ToolCall, &Context) -> String + Send + Sync>;

/// What a person is asked about before it is done, by tool.
///
/// ```
/// use deepagents::{Approvals, AskBefore, DecisionKind};
/// let approvals = Approvals::new()
///     .before("write_file", AskBefore::any())
///     .before("execute", AskBefore::only([DecisionKind::Approve, DecisionKind::Reject])
///         .when(|call, _cx| call.args["command"].as_str().is_some_and(|c| c.contains("rm "))));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    pub(crate) tools: BTreeMap<String, Vec<AskBefore>>,
}

/// When and how to ask about calls of one tool.
#[derive(Clone)]
pub struct AskBefore {
    pub(crate) allowed: Vec<DecisionKind>,
    pub(crate) describe: Option<Describe>,
    pub(crate) when: Option<When>,
    pub(crate) expires_after: Option<Duration>,
}

impl Approvals {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks before calls of a tool. Said twice for one tool, a call is asked about when either applies.
    #[must_use]
    pub fn before(mut self, tool: impl Into<String>, ask: AskBefore) -> Self {
        self.tools.entry(tool.into()).or_default().push(ask);
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
            self.tools.entry(tool).or_default().extend(asks);
        }
        self
    }

    /// Whether nothing is asked about.
    pub fn is_empty(&self) -> bool {
        self.tools.values().all(Vec::is_empty)
    }

    /// Both, less what the other asks about tools that are [never](Self::never) asked about here.
    pub(crate) fn over(self, mut other: Self) -> Self {
        other.tools.retain(|tool, _| self.tools.get(tool).is_none_or(|asks| !asks.is_empty()));
        self.and(other)
    }

    /// Without what is said to be never asked about.
    pub(crate) fn asking(mut self) -> Self {
        self.tools.retain(|_, asks| !asks.is_empty());
        self
    }

    /// A tool about whose calls nothing may be decided, so that they would wait for ever.
    pub(crate) fn undecidable(&self) -> Option<&str> {
        let none = |asks: &Vec<AskBefore>| asks.iter().any(|ask| ask.allowed.is_empty());
        self.tools.iter().find(|(_, asks)| none(asks)).map(|(tool, _)| tool.as_str())
    }

    /// The first rule that wants a call to be asked about.
    pub(crate) fn about(&self, call: &ToolCall, cx: &Context) -> Option<&AskBefore> {
        let asks = self.tools.get(&call.name)?;
        asks.iter().find(|ask| ask.when.as_ref().is_none_or(|when| when(call, cx)))
    }
}

impl AskBefore {
    /// Anything may be decided.
    pub fn any() -> Self {
        Self::only(DecisionKind::ALL)
    }

    /// Only these may be decided; at least one, or the agent is not built.
    pub fn only(allowed: impl Into<Vec<DecisionKind>>) -> Self {
        Self { allowed: allowed.into(), describe: None, when: None, expires_after: None }
    }

    /// Asks about some calls only.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&ToolCall, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    /// Asks in these words.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.describe(move |_, _| text.clone())
    }

    /// Asks in words made from the call.
    #[must_use]
    pub fn describe(mut self, describe: impl Fn(&ToolCall, &Context) -> String + Send + Sync + 'static) -> Self {
        self.describe = Some(Arc::new(describe));
        self
    }

    /// Counts as rejected after this time.
    #[must_use]
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.expires_after = Some(time);
        self
    }
}

impl fmt::Debug for AskBefore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskBefore")
            .field("allowed", &self.allowed)
            .field("conditional", &self.when.is_some())
            .field("expires_after", &self.expires_after)
            .finish_non_exhaustive()
    }
}
