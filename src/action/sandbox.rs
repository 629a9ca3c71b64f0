//! Where programs are confined (runtime.md 8): they read the system, the project and their working directory, write
//! the latter and temporary files, and have a network only when `internet` is allowed.
//!
//! A program is not started itself but by this very program under the hidden verb [`VERB`], which gives up what the
//! program may not have and then becomes it: `landlock` for files and connections, `seccomp` for sockets. Where the
//! kernel has no landlock, `bwrap` does it when it is installed; where there is neither, the run says so once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// The hidden verb under which this program confines itself and becomes another.
pub const VERB: &str = "__sandbox";

/// What every program may read and run, as far as it is there.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/var/lib/dpkg",
];
/// Devices that every program may use.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts", "/dev/fd"];
/// Where every program may keep temporary files.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];
/// The largest file that a confined program may write.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// What a program may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Directories and files that it may read and run, beside those of the system.
    pub read: Vec<PathBuf>,
    /// Directories that it may write as well, beside those for temporary files.
    pub write: Vec<PathBuf>,
    /// It may have a network.
    pub network: bool,
}

/// What confines programs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// The kernel, through the program at this path under [`VERB`].
    Landlock(PathBuf),
    /// `bwrap`, at this path.
    Bubblewrap(PathBuf),
    /// Nothing, and why.
    Nothing(&'static str),
}

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Says which program knows [`VERB`]; the command line says so of itself when it starts. Only the first word counts.
pub fn set_helper(path: impl Into<PathBuf>) {
    // A second word changes nothing.
    let _ = HELPER.set(path.into());
}

/// What confines programs here, found out once.
pub fn means() -> &'static Means {
    static MEANS: OnceLock<Means> = OnceLock::new();
    MEANS.get_or_init(|| match (landlock_works(), HELPER.get()) {
        (true, Some(helper)) => Means::Landlock(helper.clone()),
        (works, _) => match find("bwrap", SEARCHED) {
            Some(path) if cfg!(target_os = "linux") => Means::Bubblewrap(path),
            _ if works => Means::Nothing("agent-run is used as a library that named no helper program"),
            _ if cfg!(target_os = "linux") => {
                Means::Nothing("the kernel has no landlock, and `bwrap` is not installed")
            }
            _ => Means::Nothing("this system has neither landlock nor bubblewrap"),
        },
    })
}

/// Where programs are looked for.
pub(super) const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether a program of this name is found where programs of `exec` are looked for.
pub fn is_installed(program: &str) -> bool {
    find(program, SEARCHED).is_some()
}

/// The file of a program: a path as it is, a name in the directories of `path`.
pub(super) fn find(program: &str, path: &str) -> Option<PathBuf> {
    let is_program = |file: &Path| {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        }
        #[cfg(not(unix))]
        file.is_file()
    };
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| is_program(file))
}

/// A command that runs `program` (a file) with arguments as `means` and `rules` say.
pub(super) fn command(means: &Means, rules: &Rules, cwd: &Path, program: &Path, arguments: &[String]) -> Command {
    let mut rules = rules.clone();
    rules.read.extend(own_files(program));
    let mut command = match means {
        Means::Nothing(_) => Command::new(program),
        Means::Landlock(helper) => {
            let mut command = Command::new(helper);
            #[cfg(unix)]
            command.arg0("agent-run");
            // Paths of this machine are text or the program is run without them: JSON holds text alone.
            command.arg(VERB).arg(serde_json::to_string(&rules).unwrap_or_else(|_| "{}".to_owned())).arg(program);
            command
        }
        Means::Bubblewrap(bwrap) => {
            let mut command = Command::new(bwrap);
            command.args(bubblewrap(&rules, cwd)).arg("--").arg(program);
            command
        }
    };
    command.args(arguments);
    command
}

/// What a program itself must be able to read: its file, and where it is in a `bin`, what is installed with it.
fn own_files(program: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let mut own = vec![program.to_owned(), real.clone()];
    for file in [program, &real] {
        if let Some(dir) = file.parent().filter(|dir| dir.ends_with("bin"))
            && let Some(outer) = dir.parent()
        {
            own.extend(["bin", "lib", "lib64", "libexec", "share"].map(|name| outer.join(name)));
        }
    }
    own
}

/// The arguments of `bwrap` that say the same as the rules.
fn bubblewrap(rules: &Rules, cwd: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["--unshare-all", "--die-with-parent", "--new-session"].map(OsString::from).into();
    if rules.network {
        args.push("--share-net".into());
    }
    let mut bind =
        |how: &str, path: &Path| args.extend([how.into(), path.as_os_str().to_owned(), path.as_os_str().to_owned()]);
    for path in SYSTEM.iter().map(Path::new).filter(|path| !path.starts_with("/proc")) {
        bind("--ro-bind-try", path);
    }
    for path in &rules.read {
        bind("--ro-bind-try", path);
    }
    for path in TEMPORARY
        .iter()
        .map(Path::new)
        .filter(|path| !path.starts_with("/dev"))
        .chain(rules.write.iter().map(PathBuf::as_path))
    {
        bind("--bind-try", path);
    }
    args.extend(["--dev", "/dev", "--proc", "/proc", "--chdir"].map(OsString::from));
    args.push(cwd.as_os_str().to_owned());
    args
}

#[cfg(target_os = "linux")]
fn landlock_works() -> bool {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    strict.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn landlock_works() -> bool {
    false
}

/// The hidden verb: confines this process as its first argument says and becomes the program of the second. Returns
/// only when that cannot be done, with the reason.
pub fn enter(arguments: impl Iterator<Item = OsString>) -> String {
    let mut arguments = arguments;
    let rules = arguments.next().and_then(|text| serde_json::from_str::<Rules>(&text.to_string_lossy()).ok());
    match (rules, arguments.next()) {
        (Some(rules), Some(program)) => become_program(&rules, &program, arguments),
        _ => "it is for agent-run's own use".to_owned(),
    }
}

#[cfg(target_os = "linux")]
fn become_program(rules: &Rules, program: &OsString, arguments: impl Iterator<Item = OsString>) -> String {
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::os::unix::process::CommandExt;
    for (resource, most) in [(Resource::Core, 0), (Resource::Fsize, FILE_BYTES_MAX)] {
        if let Err(why) = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }) {
            return format!("a limit cannot be set: {why}");
        }
    }
    drop_capabilities();
    if let Err(why) = confine_files(rules) {
        return format!("landlock: {why}");
    }
    if !rules.network
        && let Err(why) = close_network()
    {
        return format!("seccomp: {why}");
    }
    let why = std::process::Command::new(program).args(arguments).exec();
    format!("`{}` cannot be run: {why}", program.to_string_lossy())
}

#[cfg(not(target_os = "linux"))]
fn become_program(_: &Rules, _: &OsString, _: impl Iterator<Item = OsString>) -> String {
    "this system has no landlock".to_owned()
}

/// Gives up what the superuser may do beyond files: it would get around the rest, for one by reading the memory and the
/// environment of other processes. For other users there is nothing to give up, and errors say only that.
#[cfg(target_os = "linux")]
fn drop_capabilities() {
    use rustix::thread::{CapabilitySet, clear_ambient_capability_set, remove_capability_from_bounding_set};
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID;
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().difference(kept).iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

/// Gives up every file but those of the rules, and every connection where there is to be no network.
#[cfg(target_os = "linux")]
fn confine_files(rules: &Rules) -> Result<(), String> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetStatus, Scope, path_beneath_rules,
    };
    // What a newer kernel knows is asked for as well; an older one confines what it can.
    let abi = ABI::V7;
    let wrong = |why: landlock::RulesetError| why.to_string();
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    ruleset = ruleset.handle_access(AccessFs::from_all(abi)).map_err(wrong)?;
    ruleset = ruleset.scope(Scope::from_all(abi)).map_err(wrong)?;
    if !rules.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(wrong)?;
    }
    let read = SYSTEM.iter().map(PathBuf::from).chain(rules.read.iter().cloned());
    let write = DEVICES.iter().chain(TEMPORARY).map(PathBuf::from).chain(rules.write.iter().cloned());
    let status = ruleset
        .create()
        .map_err(wrong)?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(abi)))
        .map_err(wrong)?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(abi)))
        .map_err(wrong)?
        .restrict_self()
        .map_err(wrong)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("it is not enforced".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Refuses every new socket; pairs of a program with itself stay.
#[cfg(target_os = "linux")]
fn close_network() -> Result<(), String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let arch = std::env::consts::ARCH.try_into().map_err(|why| format!("{why}"))?;
    // What goes through io_uring is seen by no filter, so there is none.
    let refused = [libc::SYS_socket, libc::SYS_io_uring_setup].map(|call| (call, Vec::new()));
    let errno = u32::try_from(libc::EACCES).unwrap_or(1);
    let filter = SeccompFilter::new(refused.into(), SeccompAction::Allow, SeccompAction::Errno(errno), arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(|why| why.to_string())?;
    seccompiler::apply_filter(&program).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        let sh = find("sh", SEARCHED).expect("sh");
        assert!(sh.is_absolute() && sh.ends_with("sh"));
        assert_eq!(find("no-such-program", SEARCHED), None);
        let own = own_files(Path::new("/no/such/tool/bin/program"));
        assert!(own.contains(&"/no/such/tool/lib".into()) && !own.contains(&"/no/such/tool".into()), "{own:?}");
        assert_eq!(own_files(Path::new("/no/such/program")), [Path::new("/no/such/program"); 2]);
    }

    #[test]
    fn bubblewrap_is_told_the_same_rules() {
        let rules = Rules { read: vec!["/project".into()], write: vec!["/project/out".into()], network: false };
        let text = |rules: &Rules| {
            let args = bubblewrap(rules, Path::new("/project/out"));
            args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let args = text(&rules);
        assert!(args.starts_with("--unshare-all --die-with-parent --new-session --ro-bind-try /bin /bin"), "{args}");
        assert!(
            args.contains("--ro-bind-try /project /project") && args.contains("--bind-try /project/out /project/out")
        );
        assert!(args.ends_with("--dev /dev --proc /proc --chdir /project/out"), "{args}");
        assert!(!args.contains("--share-net") && text(&Rules { network: true, ..rules }).contains("--share-net"));
    }
}
