//! The order of the middlewares.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::{DynMiddleware, Middleware};

/// The middlewares of an agent, in order.
pub(super) type Middlewares = Vec<Arc<dyn DynMiddleware>>;

/// The standard middlewares, in order.
#[derive(Default)]
pub(super) struct Stack {
    standard: Middlewares,
    /// Those that come after the user's middlewares.
    last: Middlewares,
}

impl Stack {
    pub(super) fn push(&mut self, middleware: impl Middleware) {
        self.standard.push(Arc::new(middleware));
    }

    /// Adds one that comes after the user's middlewares.
    pub(super) fn push_last(&mut self, middleware: impl Middleware) {
        self.last.push(Arc::new(middleware));
    }

    /// Returns `true` if a standard middleware has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.standard.iter().chain(&self.last).any(|m| m.name() == name)
    }

    /// Returns the final order: standard middlewares, with those of the same name replaced by the user's, then the
    /// user's others, then the last ones.
    pub(super) fn finish(mut self, own: Middlewares, without: &[String]) -> Result<Middlewares, BuildError> {
        for name in without {
            if !self.has(name) {
                let known: Vec<&str> = self.standard.iter().chain(&self.last).map(|m| m.name()).collect();
                return Err(BuildError::Option(format!(
                    "`without(\"{name}\")` matches no standard middleware; they are {}",
                    known.join(", ")
                )));
            }
            self.standard.retain(|m| m.name() != name);
            self.last.retain(|m| m.name() != name);
        }
        let mut replaced = Vec::new();
        let mut others = Vec::new();
        for middleware in own {
            let mut standard = self.standard.iter_mut().chain(&mut self.last);
            match standard.find(|m| m.name() == middleware.name()) {
                Some(slot) if !replaced.iter().any(|name| name == middleware.name()) => {
                    replaced.push(middleware.name().to_owned());
                    *slot = middleware;
                }
                // A duplicate name is rejected when the agent is built.
                _ => others.push(middleware),
            }
        }
        Ok([self.standard, others, self.last].concat())
    }
}
