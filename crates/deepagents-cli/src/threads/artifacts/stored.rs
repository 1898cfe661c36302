//! The files of threads in a store.

use deepagents::Store;
use deepagents::core::store::{KeyQuery, StoreError, Write};

use super::names::{is_name, name_of};

/// The first label of all their namespaces. Clients of a server cannot name it.
const OWN: &str = "deepagents-artifacts";

/// Returns the namespace of one of the directories of a thread.
pub(super) fn namespace(thread: &str, directory: &str) -> Vec<String> {
    [OWN, &name_of(thread), directory].map(str::to_owned).to_vec()
}

/// Returns the namespaces under the name of a thread.
async fn all(store: &dyn Store, name: &str) -> Result<Vec<Vec<String>>, StoreError> {
    store.namespaces(&[OWN.to_owned(), name.to_owned()]).await
}

/// Removes what is kept under the name of a thread.
pub(super) async fn remove(store: &dyn Store, name: &str) -> Result<(), StoreError> {
    for namespace in all(store, name).await? {
        for info in store.list_keys(&namespace, &KeyQuery::default()).await? {
            store.delete(&namespace, &info.key).await?;
        }
    }
    Ok(())
}

pub(super) async fn copy(store: &dyn Store, from: &str, to: &str) -> Result<(), StoreError> {
    for namespace in all(store, &name_of(from)).await? {
        let [_, _, directory] = namespace.as_slice() else { continue };
        let target = self::namespace(to, directory);
        for info in store.list_keys(&namespace, &KeyQuery::default()).await? {
            if let Some(item) = store.get(&namespace, &info.key).await? {
                let write = Write { size: Some(item.size), ..Write::default() };
                store.write(&target, &info.key, item.value, write).await?;
            }
        }
    }
    Ok(())
}

/// Returns the names of the threads that have files.
pub(super) async fn names(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let found = store.namespaces(&[OWN.to_owned()]).await?;
    let mut names: Vec<String> = found.iter().filter_map(|namespace| namespace.get(1).cloned()).collect();
    names.retain(|name| is_name(name));
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deepagents::State;
    use deepagents::core::store::MemoryStore;
    use deepagents::fs::{Backend, ByteRange, StoreBackend, VPath, WriteMode};

    use super::*;

    #[tokio::test]
    async fn the_files_of_a_thread_are_copied_and_removed_without_those_of_others() {
        let store = Arc::new(MemoryStore::default());
        let files = |thread| StoreBackend::new(store.clone(), namespace(thread, "large_tool_results"));
        let (state, path) = (State::default(), VPath::parse("/c1").unwrap());
        for thread in ["One", "two"] {
            files(thread).write(&state, &path, thread.to_owned().into(), WriteMode::Create).await.unwrap();
        }
        copy(&*store, "One", "three").await.unwrap();
        remove(&*store, &name_of("One")).await.unwrap();
        let read = async |thread| files(thread).read(&state, &path, ByteRange::ALL).await.ok();
        assert!(read("One").await.is_none());
        assert_eq!(&read("two").await.unwrap().bytes[..], b"two");
        let copied = read("three").await.unwrap();
        assert_eq!((&copied.bytes[..], copied.stat.size), (&b"One"[..], 3));
        let mut left = names(&*store).await.unwrap();
        left.sort();
        assert_eq!(left, ["three", "two"]);
    }
}
