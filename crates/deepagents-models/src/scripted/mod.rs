//! A model that plays a script, for tests of agents.
//!
//! A [`ScriptedModel`] answers each request with the next [`Turn`] of its script, in small deltas as a provider would,
//! remembers every request, and refuses a history that a provider would refuse. With [`ScriptedModel::rules`], answers
//! depend on the request, so that agents that run at the same time can each have their own script.

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

/// Characters in a delta unless told otherwise.
const CHUNK: usize = 8;

/// A model that plays a script.
///
/// Clones share the script and the record of requests, so a clone kept by a test shows what an agent asked. Calls without an id get
/// `call_1`, `call_2`, …, counted for each script apart: ids may repeat between the rules of one model.
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

/// What clones have in common.
struct Shared {
    scripts: Vec<Script>,
    requests: Vec<ModelRequest>,
}

impl ScriptedModel {
    /// A model that plays these turns, one a request, whatever is asked.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::playing(vec![Script::for_all(turns.into_iter().collect())])
    }

    /// A model whose answers depend on the request; see [`ScriptedRules`].
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

    /// Sets what [`ChatModel::name`] says; `scripted:script` otherwise.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets what [`ChatModel::profile`] says; unknown otherwise.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets how many characters a delta holds; 8 otherwise, and never less than one.
    #[must_use]
    pub fn with_chunk_size(mut self, characters: usize) -> Self {
        self.chunk = characters.max(1);
        self
    }

    /// Sets what [`ChatModel::count_tokens`] says of every request; nothing otherwise.
    #[must_use]
    pub fn with_token_count(mut self, tokens: u64) -> Self {
        self.token_count = Some(tokens);
        self
    }

    /// Every request so far, in the order they came, refused ones included.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().requests.clone()
    }

    /// How many turns have not been played; turns that repeat for ever are not counted.
    pub fn remaining(&self) -> usize {
        self.lock().scripts.iter().map(Script::remaining).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic in a `Turn::with` closure cannot leave this half changed: closures run outside the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn for a request, computed ones not yet computed, and the script it is from.
    fn next(&self, request: &ModelRequest) -> Result<(usize, Turn), ModelError> {
        let tests: Vec<_> = {
            let mut shared = self.lock();
            shared.requests.push(request.clone());
            shared.scripts.iter().map(Script::test).collect()
        };
        check_history(&request.messages)?;
        let at = tests.iter().position(|test| test(request)).unwrap_or(usize::MAX);
        match self.lock().scripts.get_mut(at) {
            Some(script) => Ok((at, script.take()?)),
            None => Err(ModelError::invalid("no rule of the script matches the request")),
        }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let (at, mut turn) = self.next(request)?;
        // A closure may answer with another closure; each is used up, so this ends when they do.
        let mut answer = loop {
            match turn.resolve(request) {
                Ok(answer) => break answer,
                Err(next) => turn = next,
            }
        };
        if let Some(script) = self.lock().scripts.get_mut(at) {
            script.number_calls(&mut answer);
        }
        Ok(answer)
    }
}

impl ScriptedModel {
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
