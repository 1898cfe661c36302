//! The system calls that commands do not get.
//!
//! Most of what is refused here is refused by namespaces and missing capabilities as well; the filter keeps the code of
//! the kernel that serves them, where most of its holes were found, out of reach.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::failure::{At, Failure};

/// Refused whatever their arguments.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Parts of the kernel that commands have no use for.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Kinds of sockets that are allowed: local, IP, and asking for addresses and routes. The rest reaches past network
/// namespaces (the host of a virtual machine) or into rarely trodden code.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Puts the filters on this process and all it will start.
pub(super) fn apply() -> Result<(), Failure> {
    let step = "apply seccomp";
    let arch = TargetArch::try_from(std::env::consts::ARCH).at(step)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend(conditional().at(step)?);
    // Its flags are in memory, where a filter cannot look; without it programs fall back to `clone`.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let errno = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    for (rules, action) in [(rules, errno(libc::EPERM)), (unknown, errno(libc::ENOSYS))] {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).at(step)?;
        let program: BpfProgram = filter.try_into().at(step)?;
        seccompiler::apply_filter(&program).at(step)?;
    }
    seccompiler::apply_filter(&one_numbering()).at(step)
}

fn conditional() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let test = |index, op, value: libc::c_int| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, u64::from(value.unsigned_abs()))
    };
    let bit = |flag: libc::c_int| MaskedEq(u64::from(flag.unsigned_abs()));
    let namespaces = NAMESPACES.into_iter().map(|flag| SeccompRule::new(vec![test(0, bit(flag), flag)?]));
    let other_families = FAMILIES.into_iter().map(|family| test(0, Ne, family)).collect::<Result<Vec<_>, _>>()?;
    let raw = |family| SeccompRule::new(vec![test(0, Eq, family)?, test(1, MaskedEq(0xF), libc::SOCK_RAW)?]);
    let sockets = vec![SeccompRule::new(other_families)?, raw(libc::AF_INET)?, raw(libc::AF_INET6)?];
    // Typing into a terminal as if someone had: there is none, unless a caller hands one in.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].into_iter().map(|request| {
        let request = u64::from(u32::try_from(request).unwrap_or_default());
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, Eq, request)?])
    });
    Ok(BTreeMap::from([
        (libc::SYS_clone, namespaces.collect::<Result<_, _>>()?),
        (libc::SYS_socketpair, vec![SeccompRule::new(vec![test(0, Ne, libc::AF_UNIX)?])?]),
        (libc::SYS_socket, sockets),
        (libc::SYS_ioctl, typing.collect::<Result<_, _>>()?),
    ]))
}

/// Refuses a second numbering of system calls (x32), under which the filters would not know them.
fn one_numbering() -> [sock_filter; 4] {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7FFF_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    [
        step(LOAD, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, 0x4000_0000),
        step(RETURN, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, ALLOW),
    ]
}
