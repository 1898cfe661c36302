//! Drops capabilities and privileges, and restricts file access with Landlock.

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::failure::{At, Failure};
use crate::sandbox::Part;
use crate::sandbox::protocol::InnerPlan;

/// Drops all capabilities, including those that a program running as root would regain, and closes this process to
/// inspection by others.
pub(super) fn drop_capabilities() -> Result<(), Failure> {
    let step = "drop capabilities";
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).at(step)?;
    for bit in 0..u64::BITS {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // `EINVAL`: this kernel has no capability with that number.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error).at(step),
        }
    }
    rustix::thread::clear_ambient_capability_set().at(step)?;
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, nothing).at(step)?;
    if rustix::thread::capabilities(None).at(step)? != nothing {
        return Err(Failure::new(step, "some are left"));
    }
    rustix::thread::set_no_new_privs(true).at("forbid new privileges")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at("protect the process from others")
}

/// Allows reading everything visible and writing where intended. Confines signals and abstract sockets to the sandbox.
pub(super) fn landlock(plan: &InnerPlan) -> Result<Part, Failure> {
    let name = "landlock";
    let abi = ABI::V6;
    let writable = ["/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
    let set_up = || -> Result<_, Box<dyn std::error::Error>> {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(abi))?
            .scope(Scope::AbstractUnixSocket)?
            .scope(Scope::Signal)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::from_read(abi)))?;
        for path in
            writable.iter().map(std::path::Path::new).chain(plan.writable.iter().chain(&plan.root).map(|p| &**p))
        {
            let access = if path.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
        }
        Ok(rules.restrict_self()?)
    };
    let status = set_up().at("apply Landlock")?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Part::off(name, "the kernel does not have it, or has it disabled"),
        (_, LandlockStatus::Available { effective_abi, .. }) => Part::on(name, format!("ABI {}", effective_abi as i32)),
        (RulesetStatus::FullyEnforced, _) => Part::on(name, ""),
        _ => Part::on(name, "in part"),
    })
}
