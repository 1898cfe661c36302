//! What keeps everything in memory passes the suites too.

mod journal {
    use std::sync::Arc;

    use deepagents_core::journal::{Journal, MemoryJournal};

    deepagents_testing::journal_suite!(async |clock| Some(
        Arc::new(MemoryJournal::with_clock(clock)) as Arc<dyn Journal>
    ));
}

mod store {
    use std::sync::Arc;

    use deepagents_core::store::{MemoryStore, Store};

    deepagents_testing::store_suite!(async |clock| Some(Arc::new(MemoryStore::new(clock)) as Arc<dyn Store>));
}
