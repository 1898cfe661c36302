//! Plans made in code before the first model call.

use std::future::Future;
use std::sync::Arc;

use deepagents_core::error::{BoxError, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Message};
use deepagents_core::middleware::HookOutput;
use deepagents_core::run::Context;
use deepagents_core::state::Update;
use futures_util::future::BoxFuture;

use crate::channels::{Todo, TodoStatus, TodoUpdate, Todos};
use crate::text;

/// Fills the todo list of a task in code.
///
/// It is called when a run starts with a person's message and the thread has no list yet. The returned items become the
/// list, all pending, and the model is told in a stored message. If it fails, the run continues without a list, and the
/// event `planning_failed` informs the application. Use [`planner_fn`] for closures.
///
/// ```
/// use deepagents::middleware::todo::Planner;
/// use deepagents::{BoxError, Context};
///
/// /// Every release has the same steps.
/// struct Release;
/// impl Planner for Release {
///     async fn plan(&self, task: &str, _cx: &Context) -> Result<Vec<String>, BoxError> {
///         let steps = ["Run the tests", "Write the changelog", "Tag the version"];
///         Ok(if task.starts_with("Release") { steps.map(String::from).to_vec() } else { Vec::new() })
///     }
/// }
/// ```
pub trait Planner: Send + Sync + 'static {
    /// Returns the items for a task, in order; none if there is nothing to plan. An error or an empty item leaves the
    /// list unchanged.
    fn plan(&self, task: &str, cx: &Context) -> impl Future<Output = Result<Vec<String>, BoxError>> + Send;
}

/// The object-safe form of a [`Planner`], implemented for every one.
pub trait DynPlanner: Send + Sync + 'static {
    /// See [`Planner::plan`].
    fn plan<'a>(&'a self, task: &'a str, cx: &'a Context) -> BoxFuture<'a, Result<Vec<String>, BoxError>>;
}

impl<P: Planner> DynPlanner for P {
    fn plan<'a>(&'a self, task: &'a str, cx: &'a Context) -> BoxFuture<'a, Result<Vec<String>, BoxError>> {
        Box::pin(Planner::plan(self, task, cx))
    }
}

/// Allows shared planners as well.
impl<P: DynPlanner + ?Sized> DynPlanner for Arc<P> {
    fn plan<'a>(&'a self, task: &'a str, cx: &'a Context) -> BoxFuture<'a, Result<Vec<String>, BoxError>> {
        (**self).plan(task, cx)
    }
}

struct PlannerFn<F>(F);

/// Creates a planner from a closure, which receives the task and the context of the run.
///
/// ```
/// use deepagents::middleware::todo::planner_fn;
/// let lines = planner_fn(|task, _cx| async move { Ok(task.lines().map(str::to_owned).collect()) });
/// ```
pub fn planner_fn<F, Fut>(plan: F) -> impl Planner
where
    F: Fn(String, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<String>, BoxError>> + Send + 'static,
{
    PlannerFn(plan)
}

impl<F, Fut> Planner for PlannerFn<F>
where
    F: Fn(String, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<String>, BoxError>> + Send + 'static,
{
    async fn plan(&self, task: &str, cx: &Context) -> Result<Vec<String>, BoxError> {
        (self.0)(task.to_owned(), cx.clone()).await
    }
}

/// Runs the planner on the task with which a run starts.
pub(super) async fn lay_out(planner: &dyn DynPlanner, cx: &Context) -> HookOutput {
    // The history of a resumed run ends in an answer or a result; it was planned already.
    let Some(Message::User(task)) = cx.messages().last().map(|message| &**message) else { return HookOutput::next() };
    if task.author != Author::Human || cx.state().get::<Todos>().is_some_and(|todos| !todos.is_empty()) {
        return HookOutput::next();
    }
    let task = text::of_blocks(&task.content);
    let error = match planner.plan(&task, cx).await {
        Ok(items) if items.is_empty() => return HookOutput::next(),
        Ok(items) => match items.iter().position(|item| item.trim().is_empty()) {
            None => return planned(&items, cx),
            Some(at) => format!("item {} of the plan has no text", at + 1),
        },
        Err(error) => error.to_string(),
    };
    cx.report(MiddlewareEvent::PlanningFailed { error });
    HookOutput::next()
}

fn planned(items: &[String], cx: &Context) -> HookOutput {
    let now = cx.clock().now().to_string();
    let todo = |(at, item): (usize, &String)| Todo {
        id: (at + 1).to_string(),
        content: item.trim().to_owned(),
        status: TodoStatus::Pending,
        created_at: now.clone(),
    };
    let list: Vec<Todo> = items.iter().enumerate().map(todo).collect();
    let lines: Vec<String> = list.iter().map(|todo| format!("{}. {}", todo.id, todo.content)).collect();
    let note = Message::harness(format!(
        "The todo list has been laid out from the task, all items pending:\n{}\nKeep it up to date while you work; change it where it does not fit.",
        lines.join("\n")
    ));
    HookOutput::update(Update::message(note).with::<Todos>(TodoUpdate::between(&[], &list)))
}
