//! What a model is told of a tool.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// A JSON schema of type `object` for the arguments.
    pub schema: Arc<Value>,
}

/// How many specifications are kept before those that nobody holds are looked for.
const FIRST_SWEEP: usize = 256;

/// The specifications of this process that somebody holds.
#[derive(Default)]
struct Shared {
    by_hash: HashMap<u64, Vec<Weak<ToolSpec>>>,
    count: usize,
    next_sweep: usize,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

impl ToolSpec {
    /// Returns the specification that all equal ones of this process share: a service holds thousands of agents whose
    /// tools are the same.
    pub(crate) fn shared(self) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.description).hash(&mut hasher);
        let hash = hasher.finish();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = shared.get_or_insert_with(|| Shared { next_sweep: FIRST_SWEEP, ..Shared::default() });
        if shared.count >= shared.next_sweep {
            shared.sweep();
        }
        let same = shared.by_hash.entry(hash).or_default();
        if let Some(known) = same.iter().filter_map(Weak::upgrade).find(|known| **known == self) {
            return known;
        }
        let spec = Arc::new(self);
        same.push(Arc::downgrade(&spec));
        shared.count += 1;
        spec
    }
}

impl Shared {
    /// Forgets what nobody holds. The next time comes when there is twice as much as was left, so it costs little.
    fn sweep(&mut self) {
        self.by_hash.retain(|_, same| {
            same.retain(|spec| spec.strong_count() > 0);
            !same.is_empty()
        });
        self.count = self.by_hash.values().map(Vec::len).sum();
        self.next_sweep = FIRST_SWEEP.max(self.count * 2);
    }
}
