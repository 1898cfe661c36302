//! The command's root file system.
//!
//! The root becomes a file system in memory. The command's view is built below `/new` from the host's files below
//! `/old`. Then `/old` is unmounted and `/new` becomes the root. From then on, only host files that were made visible
//! on purpose have a name, so links cannot lead later operations in the workspace outside.

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

/// Mount table of the process, while the view is built and afterwards.
const TABLE_NEW: &str = "/new/proc/self/mountinfo";
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// The parts of `/etc` that programs need to run, resolve names, check certificates, and display times and text.
/// Private keys are in `/etc` too, and a program running as root could read them, so nothing is visible merely for
/// convenience.
const ETC: &str = "alternatives ca-certificates crypto-policies debian_version fonts gai.conf group host.conf hosts \
    ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime magic mime.types nsswitch.conf \
    os-release passwd pki/ca-trust pki/tls/cert.pem pki/tls/certs protocols services ssl/certs \
    ssl/openssl.cnf terminfo timezone";

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Builds the view and makes it the root.
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
    // A directory rather than a link, since a workspace may be in it.
    fs::create_dir("/new/var/tmp").at("make /var/tmp")?;
    bind(Path::new("/new/tmp"), Path::new("/new/var/tmp"))?;
    let home = below(NEW, Path::new(HOME));
    fs::create_dir(&home).at("make a home")?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).at("make a home")?;
    shown.mount()?;
    caches(plan)?;
    for identity in &plan.identities {
        let shown = Identity::of(&below(NEW, &identity.path)).on("look at a directory", identity.path.display())?;
        if (shown.device, shown.inode) != (identity.device, identity.inode) {
            let reason = format!("{} is not the same directory as when the shell was opened", identity.path.display());
            return Err(Failure::new("show the workspace", reason));
        }
    }

    unmount(OLD, UnmountFlags::DETACH).at("unmount the host's files")?;
    std::env::set_current_dir(NEW).at("enter the new root")?;
    // This stacks the old root on top of the new one, from where it is unmounted.
    pivot_root(".", ".").at("change the root")?;
    unmount(".", UnmountFlags::DETACH).at("unmount the old root")?;
    std::env::set_current_dir("/").at("enter the new root")
}

/// Makes the root, `/dev` and `/proc` read-only after setup. A process running as root could change the host through
/// them even without capabilities.
pub(super) fn seal() -> Result<(), Failure> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    for (path, flags) in [("/proc", flags | MountFlags::NOEXEC), ("/dev", flags), ("/", flags)] {
        mount_remount(path, flags, "").on("make read-only", path)?;
    }
    Ok(())
}

/// Mounts the caches in the command's home: shared ones directly, others below a layer in memory that takes writes.
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
        // If the kernel refuses, the command starts with an empty directory.
        let _ = mount("overlay", &at, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str());
    }
    if layers.exists() {
        // The overlay mounts keep it alive; commands must not see it.
        unmount(layers, UnmountFlags::DETACH).at("hide the layers")?;
    }
    Ok(())
}

/// Escapes a path for overlay mount options.
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
        // This is the host's own device; a process running as root could change its mode for everyone.
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

/// Host files to make visible, collected while host paths still resolve. Ordered by path, so that parents come before
/// their contents.
#[derive(Default)]
struct Shown {
    /// Maps each path in the sandbox to the resolved host path.
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
        // Java does not start without its settings, which are in directories named after its versions.
        for entry in fs::read_dir(etc).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"java-") {
                shown.optional(&entry.path());
            }
        }
        if plan.network == NetworkAccess::Host {
            shown.optional(&etc.join("resolv.conf"));
        }
        // The policy has already resolved these.
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

/// Creates the file or directory to mount on, if missing.
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
