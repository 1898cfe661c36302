//! A model that plays a script, for testing agents.
//!
//! A [`ScriptedModel`] responds to each request with the next [`Turn`] of its script, in small deltas as a provider
//! would. It records every request, and rejects histories that a provider would reject. With [`ScriptedModel::rules`],
//! responses depend on the request, so that concurrent agents can have separate scripts.

mod history;
mod rules;
mod turn;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, stream};

pub use history::check_history;
pub use rules::ScriptedRules;
pub use turn::{IntoCall, Turn};

use crate::events::events_of;
use rules::Script;
use turn::{Answer, Body};

/// Default number of characters in a delta.
const CHUNK: usize = 8;

/// A model that plays a script.
///
/// Clones share the script and the recorded requests, so a test can keep a clone to see what an agent requested. Calls
/// without an ID get `call_1`, `call_2`, …, counted separately for each script, so IDs may repeat between the rules of
/// a model.
///
/// ```
/// use deepagents_core::model::{ChatModel, ModelRequest};
/// use deepagents_models::scripted::{ScriptedModel, Turn};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let model = ScriptedModel::new([
///     Turn::call("read_file", json!({"file_path": "/notes.md"})).and_text("I shall look."),
///     Turn::text("There is nothing in it."),
/// ]);
/// let output = model.invoke(ModelRequest::new("What is in my notes?")).await?;
/// assert_eq!(output.message.tool_calls().next().map(|call| call.id.as_str()), Some("call_1"));
/// assert_eq!(model.requests().len(), 1);
/// assert_eq!(model.remaining(), 1);
/// # Ok::<(), deepagents_core::model::ModelError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    name: Arc<str>,
    profile: ModelProfile,
    chunk: usize,
    token_count: Option<u64>,
    shared: Arc<Mutex<Shared>>,
}

/// State shared by clones.
struct Shared {
    scripts: Vec<Script>,
    requests: Vec<ModelRequest>,
}

impl ScriptedModel {
    /// Creates a model that plays these turns, one per request, whatever the request.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::playing(vec![Script::for_all(turns.into_iter().collect())])
    }

    /// Creates a model whose responses depend on the request; see [`ScriptedRules`].
    #[must_use]
    pub fn rules() -> ScriptedRules {
        ScriptedRules::default()
    }

    fn playing(scripts: Vec<Script>) -> Self {
        Self {
            name: Arc::from("scripted:script"),
            profile: ModelProfile::default(),
            chunk: CHUNK,
            token_count: None,
            shared: Arc::new(Mutex::new(Shared { scripts, requests: Vec::new() })),
        }
    }

    /// Sets the value of [`ChatModel::name`]; `scripted:script` by default.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the value of [`ChatModel::profile`]; unknown by default.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the number of characters in a delta, at least one; 8 by default.
    #[must_use]
    pub fn with_chunk_size(mut self, characters: usize) -> Self {
        self.chunk = characters.max(1);
        self
    }

    /// Sets the value of [`ChatModel::count_tokens`] for all requests; `None` by default.
    #[must_use]
    pub fn with_token_count(mut self, tokens: u64) -> Self {
        self.token_count = Some(tokens);
        self
    }

    /// Returns all requests so far, in order, including rejected ones.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().requests.clone()
    }

    /// Returns the number of turns not played yet; turns that repeat forever do not count.
    pub fn remaining(&self) -> usize {
        self.lock().scripts.iter().map(|script| script.turns.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic in a `Turn::with` closure cannot leave this inconsistent, as closures run outside the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn for a request, with closures unresolved, and the index of its script.
    fn next(&self, request: &ModelRequest) -> Result<(usize, Turn), ModelError> {
        let tests: Vec<_> = {
            let mut shared = self.lock();
            shared.requests.push(request.clone());
            shared.scripts.iter().map(|script| script.test.clone()).collect()
        };
        check_history(&request.messages)?;
        let at = tests.iter().position(|test| test(request)).unwrap_or(usize::MAX);
        let rule = (tests.len() > 1).then(|| at.saturating_add(1));
        match self.lock().scripts.get_mut(at) {
            Some(script) => Ok((at, script.take(rule)?)),
            None => Err(ModelError::invalid("no rule of the script matches the request")),
        }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let (at, turn) = self.next(request)?;
        let mut answer = turn.resolve(request);
        if let Some(script) = self.lock().scripts.get_mut(at) {
            answer.number_calls(&mut script.calls);
        }
        Ok(answer)
    }

    fn play(&self, answer: Answer) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let events = stream::iter(match answer.body {
            Body::Events(events) => events,
            Body::Output(output) => {
                let events = events_of(&output.message, self.chunk).into_iter();
                events.chain([ModelEvent::Finished(output)]).map(Ok).collect()
            }
        });
        if answer.delay.is_zero() {
            return Box::pin(events);
        }
        Box::pin(tokio::time::sleep(answer.delay).map(|()| events).flatten_stream())
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("name", &self.name).field("remaining", &self.remaining()).finish()
    }
}

impl ChatModel for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn count_tokens(&self, _request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        Box::pin(std::future::ready(Ok(self.token_count)))
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        match self.answer(&request) {
            Ok(answer) => self.play(answer),
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }
}
