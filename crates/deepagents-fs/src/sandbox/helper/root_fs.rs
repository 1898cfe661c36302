//! The file system that the command sees.
//!
//! The root becomes a file system in memory; below `/new` grows what the command will see, from what is below `/old`,
//! the host's. Then `/old` is let go of and `/new` becomes the root. After that nothing of the host but what was shown
//! on purpose can be named, so what is done later inside the workspace cannot be led outside by links.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount};
use rustix::process::pivot_root;

use super::failure::{At, Failure};
use super::mounts::{Access, below, bind, memory, restrict};
use crate::sandbox::CacheAccess;
use crate::sandbox::launch::HOME;
use crate::sandbox::policy::SYSTEM;
use crate::sandbox::protocol::{Identity, InnerPlan, NetworkAccess};

const OLD: &str = "/old";
const NEW: &str = "/new";

/// Where the process's mounts are listed while the view is built, and afterwards.
const TABLE_NEW: &str = "/new/proc/self/mountinfo";
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// What of `/etc` programs need to run, to resolve names, to check certificates and to show times and text. Private keys
/// are there too, and a program that is root could read them, so nothing is shown for being convenient.
const ETC: &str = "alternatives ca-certificates crypto-policies debian_version fonts gai.conf group host.conf hosts \
    ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime magic mime.types nsswitch.conf \
    os-release passwd pki/ca-trust pki/tls/cert.pem pki/tls/certs protocols services ssl/certs \
    ssl/openssl.cnf terminfo timezone";

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Builds the view and moves into it.
pub(super) fn build(plan: &InnerPlan) -> Result<(), Failure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at("detach from the host's mounts")?;
    let shown = Shown::gather(plan)?;
    let base = ["/usr", "/tmp"].into_iter().map(Path::new).find(|path| path.is_dir());
    let base =
        base.ok_or_else(|| Failure::new("find a place to build the new root", "neither /usr nor /tmp is a directory"))?;
    memory(base, 1 << 20, "755")?;
    std::env::set_current_dir(base).at("enter the new root")?;
    fs::create_dir("old").and_then(|()| fs::create_dir("new")).at("make directories")?;
    pivot_root(".", "old").at("change the root")?;
    std::env::set_current_dir("/").at("enter the new root")?;

    memory(Path::new(NEW), 16 << 20, "755")?;
    for directory in ["proc", "dev", "tmp", "etc", "run", "var"] {
        fs::create_dir(below(NEW, &Path::new("/").join(directory))).on("make a directory", directory)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/new/proc", "proc", flags, None).at("mount /proc")?;
    devices()?;
    memory(Path::new("/new/tmp"), plan.limits.scratch, "1777")?;
    // Not a link: a workspace may lie in it.
    fs::create_dir("/new/var/tmp").at("make /var/tmp")?;
    bind(Path::new("/new/tmp"), Path::new("/new/var/tmp"))?;
    let home = below(NEW, Path::new(HOME));
    fs::create_dir(&home).at("make a home")?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).at("make a home")?;
    shown.mount()?;
    caches(plan)?;
    for identity in &plan.identities {
        let shown = Identity::look(&below(NEW, &identity.path)).on("look at a directory", identity.path.display())?;
        if (shown.device, shown.inode) != (identity.device, identity.inode) {
            let reason = format!("{} is not the same directory as when the shell was opened", identity.path.display());
            return Err(Failure::new("show the workspace", reason));
        }
    }

    unmount(OLD, UnmountFlags::DETACH).at("unmount the host's files")?;
    std::env::set_current_dir(NEW).at("enter the new root")?;
    // The root before the last is put on top of the new one, and taken off.
    pivot_root(".", ".").at("change the root")?;
    unmount(".", UnmountFlags::DETACH).at("unmount the old root")?;
    std::env::set_current_dir("/").at("enter the new root")
}

/// Takes away what was only needed while the sandbox was set up: writing to the root, `/dev` and `/proc`, by which a
/// process of root could change the host even without capabilities.
pub(super) fn seal() -> Result<(), Failure> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    for (path, flags) in [("/proc", flags | MountFlags::NOEXEC), ("/dev", flags), ("/", flags)] {
        mount_remount(path, flags, "").on("make read-only", path)?;
    }
    Ok(())
}

/// Puts the caches into the home of the command: shared ones as they are, others below a layer in memory that takes what is
/// written.
fn caches(plan: &InnerPlan) -> Result<(), Failure> {
    let layers = Path::new("/new/run/layers");
    for (number, cache) in plan.caches.iter().enumerate() {
        let (from, at) = (below(OLD, &cache.from), below(NEW, &cache.at));
        if !from.is_dir() {
            continue;
        }
        fs::create_dir_all(&at).on("make a place for a cache", cache.at.display())?;
        if cache.access == CacheAccess::Shared {
            bind(&from, &at)?;
            restrict(&at, Access::Write, Path::new(TABLE_NEW))?;
            continue;
        }
        if !layers.exists() {
            fs::create_dir(layers).at("make layers")?;
            memory(layers, plan.limits.scratch, "700")?;
        }
        let (upper, work) = (layers.join(format!("upper{number}")), layers.join(format!("work{number}")));
        fs::create_dir(&upper).and_then(|()| fs::create_dir(&work)).at("make layers")?;
        let options =
            format!("lowerdir={},upperdir={},workdir={},userxattr", escaped(&from), escaped(&upper), escaped(&work));
        let options = CString::new(options).at("make layers")?;
        // Where the kernel refuses, the command begins with an empty directory.
        let _ = mount("overlay", &at, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str());
    }
    if layers.exists() {
        // The caches hold on to it; nobody else is to see it.
        unmount(layers, UnmountFlags::DETACH).at("hide the layers")?;
    }
    Ok(())
}

/// A path in the options of an overlay.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,")
}

fn devices() -> Result<(), Failure> {
    let dev = Path::new("/new/dev");
    memory(dev, 64 << 10, "755")?;
    for device in DEVICES {
        let path = dev.join(device);
        File::create(&path).on("make a device", device)?;
        bind(&Path::new("/old/dev").join(device), &path)?;
        // It is the host's own: a process of root could change its mode for all.
        restrict(&path, Access::Device, Path::new(TABLE_NEW))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name)).on("make a device", name)?;
    }
    let shared = dev.join("shm");
    fs::create_dir(&shared).at("make /dev/shm")?;
    memory(&shared, 64 << 20, "1777")
}

/// What is shown of the host, gathered while the host's paths still mean what they say. Ordered by path, so that what
/// lies within something else comes after it.
#[derive(Default)]
struct Shown {
    /// By the path in the sandbox, the host's path with all links followed.
    trees: BTreeMap<PathBuf, (PathBuf, Access)>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl Shown {
    fn gather(plan: &InnerPlan) -> Result<Self, Failure> {
        let mut shown = Self::default();
        for path in SYSTEM.map(Path::new) {
            match fs::read_link(path) {
                Ok(link) => shown.links.push((path.to_owned(), link)),
                Err(_) => shown.optional(path),
            }
        }
        let etc = Path::new("/etc");
        ETC.split(' ').for_each(|name| shown.optional(&etc.join(name)));
        // The settings of Java lie in directories named after its versions, and it does not start without them.
        for entry in fs::read_dir(etc).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"java-") {
                shown.optional(&entry.path());
            }
        }
        if plan.network == NetworkAccess::Host {
            shown.optional(&etc.join("resolv.conf"));
        }
        // These were resolved when the policy was made.
        for path in &plan.read_only {
            shown.trees.insert(path.clone(), (path.clone(), Access::Read));
        }
        for (path, source) in plan.tools.iter().filter(|(_, source)| source.exists()) {
            shown.trees.insert(path.clone(), (source.clone(), Access::Read));
        }
        for path in plan.writable.iter().chain(&plan.root) {
            shown.trees.insert(path.clone(), (path.clone(), Access::Write));
        }
        Ok(shown)
    }

    fn optional(&mut self, path: &Path) {
        if let Ok(source) = path.canonicalize() {
            self.trees.insert(path.to_owned(), (source, Access::Read));
        }
    }

    fn mount(&self) -> Result<(), Failure> {
        for (path, link) in &self.links {
            symlink(link, below(NEW, path)).on("make a link", path.display())?;
        }
        for (path, (source, access)) in &self.trees {
            let (source, target) = (below(OLD, source), below(NEW, path));
            place(&source, &target).on("make a place for a mount", path.display())?;
            bind(&source, &target)?;
            restrict(&target, *access, Path::new(TABLE_NEW))?;
        }
        Ok(())
    }
}

/// Makes the file or directory that something is mounted on, unless there is one.
fn place(source: &Path, target: &Path) -> std::io::Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    if fs::metadata(source)?.is_dir() {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(target).map(drop)
}
