//! Values that the application passes to hooks and tools.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// Values by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Adds the values of types that are missing here.
    pub(crate) fn over(mut self, others: &Self) -> Self {
        for (key, value) in &others.values {
            self.values.entry(*key).or_insert_with(|| value.clone());
        }
        self
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref()
    }
}
