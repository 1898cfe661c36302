//! System calls that are denied to commands.
//!
//! Namespaces and missing capabilities deny most of these as well. The filter additionally keeps the kernel code behind
//! them, where most vulnerabilities were found, out of reach.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::failure::{At, Failure};

/// Denied with any arguments.
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
    // Kernel facilities that commands do not need.
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

/// Flags of `clone` that create namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// `fchmodat2` has this number on all architectures; not every version of `libc` defines it for each of them.
const FCHMODAT2: c_long = 452;

/// System calls that create or change a file, with the index of the mode argument and of the flags that say whether the
/// mode applies.
const MODES: &[(c_long, u8, Option<u8>)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, Some(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, None),
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (FCHMODAT2, 2, None),
    (libc::SYS_openat, 3, Some(2)),
    (libc::SYS_mknodat, 2, None),
];

/// Flags of `open` that create a file, including an unnamed one.
const CREATING_FLAGS: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// `ioctl` requests equivalent to `fallocate` on every file system: FS_IOC_RESVSP, FS_IOC_RESVSP64 and
/// FS_IOC_ZERO_RANGE.
const PREALLOCATE: [u64; 3] = [0x4030_5828, 0x4030_582A, 0x4030_5839];

/// Allowed socket families: local, IP, and queries for addresses and routes. The others reach past network namespaces
/// (the host of a virtual machine) or into rarely used kernel code.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Denied types of IP sockets: raw ones, and those whose protocol modules the kernel would load on demand.
const OTHER_KINDS: [libc::c_int; 5] =
    [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP, OLD_PACKET];

/// Type of packet sockets from before they had a family.
const OLD_PACKET: libc::c_int = 10;

/// Allowed IP protocols: the default of the type, TCP and Multipath TCP, UDP, and ping.
const PROTOCOLS: [libc::c_int; 6] = [
    libc::IPPROTO_IP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_MPTCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_ICMPV6,
];

/// Applies the filters to this process and all its children.
pub(super) fn apply() -> Result<(), Failure> {
    let step = "apply seccomp";
    let arch = TargetArch::try_from(std::env::consts::ARCH).at(step)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend(conditional().at(step)?);
    // Their flags are in memory, where a filter cannot see them; without them, programs fall back to the older calls.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
    let errno = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    // Programs that get this error write the data instead, which can be watched.
    let allocating = (allocating().at(step)?, errno(libc::EOPNOTSUPP));
    for (rules, action) in [(rules, errno(libc::EPERM)), (unknown, errno(libc::ENOSYS)), allocating] {
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
    let mut sockets = vec![
        SeccompRule::new(other_families)?,
        SeccompRule::new(vec![test(0, Eq, libc::AF_NETLINK)?, test(2, Ne, libc::NETLINK_ROUTE)?])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in OTHER_KINDS {
            sockets.push(SeccompRule::new(vec![test(0, Eq, family)?, test(1, MaskedEq(0xF), kind)?])?);
        }
        let of_family = std::iter::once(test(0, Eq, family));
        let others = of_family.chain(PROTOCOLS.into_iter().map(|protocol| test(2, Ne, protocol)));
        sockets.push(SeccompRule::new(others.collect::<Result<_, _>>()?)?);
    }
    // Injecting terminal input. There is no terminal unless a caller passes one in.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].into_iter().map(|request| {
        let request = u64::from(u32::try_from(request).unwrap_or_default());
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, Eq, request)?])
    });
    // Set-user-ID and set-group-ID files would run with their owner's rights, outside the sandbox too.
    let lending = |mode, flags: Option<u8>| {
        let on = |index, mask: u32| {
            SeccompCondition::new(index, SeccompCmpArgLen::Dword, MaskedEq(u64::from(mask)), u64::from(mask))
        };
        let mut rules = Vec::new();
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            match flags {
                None => rules.push(SeccompRule::new(vec![on(mode, bit)?])?),
                Some(flags) => {
                    for made in CREATING_FLAGS {
                        rules.push(SeccompRule::new(vec![on(mode, bit)?, on(flags, made.unsigned_abs())?])?);
                    }
                }
            }
        }
        Ok::<_, seccompiler::BackendError>(rules)
    };
    let modes = MODES.iter().map(|(call, mode, flags)| Ok((*call, lending(*mode, *flags)?)));
    let mut rules = modes.collect::<Result<BTreeMap<_, _>, seccompiler::BackendError>>()?;
    rules.extend([
        (libc::SYS_clone, namespaces.collect::<Result<_, _>>()?),
        (libc::SYS_socketpair, vec![SeccompRule::new(vec![test(0, Ne, libc::AF_UNIX)?])?]),
        (libc::SYS_socket, sockets),
        (libc::SYS_ioctl, typing.collect::<Result<_, _>>()?),
    ]);
    Ok(rules)
}

/// Returns calls that allocate disk space at once, before it can be checked: all except those that free space.
fn allocating() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let request = |request| SeccompCondition::new(1, SeccompCmpArgLen::Dword, Eq, request);
    let requests = PREALLOCATE.into_iter().map(|number| SeccompRule::new(vec![request(number)?]));
    let punch = u64::from(libc::FALLOC_FL_PUNCH_HOLE.unsigned_abs());
    let taking = SeccompCondition::new(1, SeccompCmpArgLen::Dword, MaskedEq(punch), 0)?;
    Ok(BTreeMap::from([
        (libc::SYS_fallocate, vec![SeccompRule::new(vec![taking])?]),
        (libc::SYS_ioctl, requests.collect::<Result<_, _>>()?),
    ]))
}

/// Denies the x32 ABI, whose system call numbers the filters do not recognise.
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
