//! What a model sees of a tool.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::panics::lock;

/// What a model sees of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// A description of what the tool does and when to use it.
    pub description: String,
    /// A JSON schema of type `object` for the arguments.
    pub schema: Arc<Value>,
}

/// Minimum number of specs in the cache before it is swept for unused ones.
const FIRST_SWEEP: usize = 256;

/// A cache of the specs that are in use in this process.
#[derive(Default)]
struct Shared {
    by_hash: HashMap<u64, Vec<Weak<ToolSpec>>>,
    count: usize,
    next_sweep: usize,
}

static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

impl ToolSpec {
    /// Returns the spec shared by all equal ones in this process. A service may hold thousands of agents with the same
    /// tools.
    pub(crate) fn shared(self) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.description).hash(&mut hasher);
        let hash = hasher.finish();
        let shared = &mut *lock(&SHARED);
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
    /// Removes unused specs. The next sweep is due at twice the remaining size, so sweeping is cheap when amortised.
    fn sweep(&mut self) {
        self.by_hash.retain(|_, same| {
            same.retain(|spec| spec.strong_count() > 0);
            !same.is_empty()
        });
        self.count = self.by_hash.values().map(Vec::len).sum();
        self.next_sweep = FIRST_SWEEP.max(self.count * 2);
    }
}
