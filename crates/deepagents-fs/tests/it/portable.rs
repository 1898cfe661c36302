//! The backend for any system, on file systems that lack what others have.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deepagents_fs::{Backend, FsError, LocalBackend, PortableBackend, WriteMode};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_based_on_a_version_never_brings_back_what_another_backend_deleted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    // One of them is open on a directory inside the other's.
    let outer = Files::new(Arc::new(PortableBackend::open(dir.path()).unwrap()));
    let inner = Files::new(Arc::new(PortableBackend::open(dir.path().join("sub")).unwrap()));
    for round in 0..3000 {
        std::fs::write(dir.path().join("sub/f"), "old").unwrap();
        let version = outer.backend.stat(&outer.state, &p("/sub/f")).await.unwrap().version;
        let (backend, state) = (outer.backend.clone(), outer.state.clone());
        let write = tokio::spawn(async move {
            backend.write(&state, &p("/sub/f"), "new".into(), WriteMode::IfVersion(version)).await
        });
        let (backend, state) = (inner.backend.clone(), inner.state.clone());
        let delete = tokio::spawn(async move { backend.delete(&state, &p("/f")).await });
        let (written, deleted) = (write.await.unwrap(), delete.await.unwrap());
        deleted.unwrap();
        assert!(!dir.path().join("sub/f").exists(), "round {round}: deleted, and written: {written:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_swapped_for_a_link_never_leads_into_a_repository() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["d/hooks", ".git/hooks"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at(".git/config"), "mine").unwrap();
    symlink(".git", at("t")).unwrap();
    let backends: [Arc<dyn Backend>; 2] =
        [Arc::new(PortableBackend::open(dir.path()).unwrap()), Arc::new(LocalBackend::open(dir.path()).unwrap())];
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, one, other) = (stop.clone(), at("d"), at("t"));
    let swapper = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let mut both = backends.map(Files::new);
    let mut made = 0;
    for round in 0..1500 {
        for files in &mut both {
            let _ = files.write("/d/hooks/pre-commit", "evil").await;
            let _ = files.write("/d/new/deep/file", "evil").await;
            made += usize::from(files.write("/d/config", "evil").await.is_ok());
            let _ = files.delete("/d/config").await;
            let _ = files.delete("/d/new").await;
        }
        assert_eq!(names(&at(".git")), ["config", "hooks"], "round {round}");
        assert_eq!(names(&at(".git/hooks")), [""; 0], "round {round}");
        assert_eq!(std::fs::read_to_string(at(".git/config")).unwrap(), "mine", "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(made > 0, "no write was made");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_directory_of_more_directories_than_a_process_may_open_is_deleted() {
    // This test runs itself where few files may be open.
    const ROLE: &str = "a_directory_of_many_directories";
    let Some(place) = std::env::var_os(ROLE) else {
        let dir = tempfile::tempdir().unwrap();
        let name = "portable::a_directory_of_more_directories_than_a_process_may_open_is_deleted";
        let mut program = std::process::Command::new("sh");
        program.args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
        let told = program.args([name, "--exact", "--nocapture"]).env(ROLE, dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let place = Path::new(&place);
    for number in 0..300 {
        std::fs::create_dir_all(place.join(format!("wide/{number}/below"))).unwrap();
    }
    std::fs::create_dir_all(place.join("repositories/a/b/.git")).unwrap();
    let mut files = Files::new(Arc::new(PortableBackend::open(place).unwrap()));
    files.delete("/wide").await.unwrap();
    assert_eq!(files.delete("/repositories").await.unwrap_err(), FsError::Protected(p("/repositories")));
    assert_eq!(files.list("/").await.unwrap(), ["/repositories/"]);
}
