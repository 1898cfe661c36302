//! Reads give the same result whether or not the kernel has the file cached.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};

use deepagents_core::state::State;
use deepagents_fs::{Backend, ByteRange, FsError, LocalBackend, LocalOptions, VPath, Version, WriteMode};

type Read = Result<(Vec<u8>, u64, Version, Option<jiff::Timestamp>), String>;

async fn read(files: &LocalBackend, path: &str, range: ByteRange) -> Read {
    let read = files.read(&State::default(), &VPath::parse(path).unwrap(), range).await;
    let told = read.map_err(|error: FsError| error.to_string())?;
    Ok((told.bytes.to_vec(), told.stat.size, told.stat.version, told.stat.modified))
}

#[tokio::test]
async fn both_ways_of_reading_agree_on_every_range_of_every_kind_of_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    for (name, size) in [("empty", 0), ("one", 1), ("sub/page", 4096), ("most", 64 << 10), ("more", (64 << 10) + 1)] {
        fs::write(at(name), (0..size).map(|n| (n % 251) as u8).collect::<Vec<_>>()).unwrap();
    }
    symlink("sub/page", at("inside")).unwrap();
    symlink(at("one"), at("absolute")).unwrap();
    symlink("/etc/passwd", at("outside")).unwrap();
    symlink("../../../../etc/passwd", at("above")).unwrap();
    symlink("round", at("round")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let memory = LocalBackend::open(dir.path()).unwrap();
    let options = LocalOptions { kernel_resolution: false, ..LocalOptions::default() };
    let disk = LocalBackend::open_with(dir.path(), options).unwrap();
    let names = [
        "empty",
        "one",
        "sub/page",
        "most",
        "more",
        "inside",
        "absolute",
        "outside",
        "above",
        "round",
        "dangling",
        "socket",
        "fifo",
        "sub",
        "one/below",
        "absent",
    ];
    for name in names {
        let path = format!("/{name}");
        for range in [ByteRange::ALL, ByteRange::first(10), ByteRange::first(1 << 20)] {
            for offset in [0, 1, 4095, 4096, 5000, u64::MAX] {
                let range = ByteRange { offset, ..range };
                assert_eq!(read(&memory, &path, range).await, read(&disk, &path, range).await, "{name} {range:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_just_changed_file_is_read_afresh_and_its_version_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    let (state, path) = (State::default(), VPath::parse("/a.txt").unwrap());
    let host = dir.path().join("a.txt");
    for n in 0..200 {
        // Replaced as by an editor, and written in place as by other programs.
        let text = format!("{n} {}", "x".repeat(n));
        if n % 2 == 0 {
            fs::write(&host, &text).unwrap();
        } else {
            let file = fs::File::options().write(true).open(&host).unwrap();
            file.set_len(text.len() as u64).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
        let told = files.read(&state, &path, ByteRange::ALL).await.unwrap();
        assert_eq!(told.bytes, text.as_bytes());
        let replace = WriteMode::IfVersion(told.stat.version.clone());
        files.write(&state, &path, "mine".into(), replace.clone()).await.unwrap();
        assert_eq!(files.read(&state, &path, ByteRange::ALL).await.unwrap().bytes, "mine");
        assert!(files.write(&state, &path, "stale".into(), replace).await.is_err(), "a version is replaced once");
    }
}

/// Small cached reads run on the calling thread, so they need no other thread.
#[cfg(target_os = "linux")]
#[test]
fn a_cached_file_is_read_even_while_every_other_thread_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "here").unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let probe = fs::File::open(dir.path().join("a.txt")).unwrap();
        let (mut byte, nowait) = ([0], rustix::io::ReadWriteFlags::NOWAIT);
        if rustix::io::preadv2(&probe, &mut [std::io::IoSliceMut::new(&mut byte)], 0, nowait).is_err() {
            deepagents_testing::skip::skip("reads without waiting", "the file system of temporary files has none");
            return;
        }
        let (free, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let text = read(&files, "/a.txt", ByteRange::ALL).await.unwrap().0;
        assert_eq!(text, b"here");
        drop(free);
        assert!(busy.await.unwrap().is_err());
    });
}
