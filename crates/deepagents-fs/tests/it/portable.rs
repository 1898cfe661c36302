//! The backend for any system, on file systems that lack what others have.

use std::sync::Arc;

use deepagents_fs::{FsError, PortableBackend, WriteMode};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::suite::{Files, p};

/// Runs work in a thread where hard links cannot be made, as on exFAT.
fn without_hard_links(work: impl Future<Output = ()> + Send + 'static) {
    let in_thread = move || {
        let (links, refused) = ([(libc::SYS_linkat, Vec::new())], SeccompAction::Errno(libc::EPERM.unsigned_abs()));
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(links.into(), SeccompAction::Allow, refused, arch).unwrap();
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        // The threads of the runtime inherit the filter.
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    };
    std::thread::spawn(in_thread).join().unwrap();
}

#[test]
fn files_are_made_on_a_file_system_without_hard_links() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let mut files = Files::new(Arc::new(PortableBackend::open(&root).unwrap()));
    without_hard_links(async move {
        std::fs::write(root.join("there"), "").unwrap();
        assert!(std::fs::hard_link(root.join("there"), root.join("link")).is_err());
        files.write_mode("/new.txt", "one", WriteMode::Create).await.unwrap();
        assert_eq!(files.read("/new.txt").await.unwrap(), b"one");
        assert_eq!(
            files.write_mode("/there", "two", WriteMode::Create).await.unwrap_err(),
            FsError::AlreadyExists(p("/there"))
        );
        assert_eq!(files.list("/").await.unwrap(), ["/new.txt", "/there"]);
    });
}
