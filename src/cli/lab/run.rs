//! `iotrail lab run`: runs a command in a virtual machine of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::ValueEnum;

use super::{ArchArgs, CacheArgs, tell};
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Existing;
use iotrail_base::units::{Bytes, Span};
use iotrail_base::words::{bytes, list};
use iotrail_base::{interrupt, ourselves};
use iotrail_lab::acceleration::Acceleration;
use iotrail_lab::arch::Arch;
use iotrail_lab::drive::Drive;
use iotrail_lab::kernel::{self, KernelChoice};
use iotrail_lab::root;
use iotrail_lab::session::{self, Options};
use iotrail_lab::{Cache, MachineOptions, Prepared, prepare, takes_artifacts};
use iotrail_report::terminal;
use iotrail_store::{Store, default_path};

#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// Boot this kernel: a release or release prefix (6.1, 6.12-rt), newest, or a vmlinux or vmlinuz file (default: the newest local kernel)
    #[arg(long, value_name = "VERSION|FILE")]
    kernel: Option<String>,

    /// Use the modules in this directory (lib/modules/RELEASE), for a kernel specified as a file
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,

    #[command(flatten)]
    arch: ArchArgs,

    /// Use this directory as the guest's root file system instead of this machine's
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Use this iotrail binary in the guest, built for its processor (required with another --arch)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Give the machine N CPUs
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=255))]
    cpus: u32,

    /// Spread the CPUs over N sockets; CPUs on different sockets share no cache
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=255))]
    sockets: u32,

    /// Give the machine this much memory
    #[arg(long, value_name = "SIZE", default_value = "2g")]
    memory: Bytes,

    /// Add an NVMe drive (nvme0n1 and so on, in this order) with these comma-separated properties: queues=N, poll=N, size=1g,
    /// data=discard|keep, latency=100us, errors=read@OFFSET (or write@)
    #[arg(long, value_name = "OPTIONS")]
    nvme: Vec<Drive>,

    /// Append these kernel parameters
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    append: String,

    /// Use this accelerator
    #[arg(long, value_name = "HOW", default_value = "auto")]
    accel: Accel,

    /// Stop the machine after this time
    #[arg(long, value_name = "TIME", default_value = "10m")]
    timeout: Span,

    /// Store the command's runs here (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// Copy files that the command writes to $IOTRAIL_LAB_OUT to this new or empty directory
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,

    /// Copy the files even to a non-empty directory, and overwrite files with the same names
    #[arg(long, requires = "artifacts")]
    force: bool,

    #[command(flatten)]
    cache: CacheArgs,

    /// Command to run in the guest; there, "iotrail" is this binary, or that of --program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Accel {
    /// KVM if it can run the kernel, otherwise emulation
    Auto,
    /// The processor
    Kvm,
    /// Emulation
    Tcg,
}

/// Returns the command's exit status.
pub fn run(args: &RunArgs) -> Result<u8> {
    let kernel = asked_kernel(args)?;
    if !args.cpus.is_multiple_of(args.sockets) {
        return Err(Error::input(
            format!("{} CPUs cannot be divided among {} sockets", args.cpus, args.sockets),
            "use a --sockets value that divides --cpus",
        ));
    }
    if args.memory.0 < LEAST_MEMORY {
        return Err(Error::input(
            format!("{} of memory is not enough to boot", bytes(args.memory.0)),
            format!("use --memory {} or more", bytes(LEAST_MEMORY)),
        ));
    }
    let polls: Vec<String> = args.nvme.iter().map(|d| d.poll.to_string()).collect();
    if polls.iter().any(|p| *p != polls[0]) {
        return Err(Error::input(
            format!("the drives request different numbers of poll queues ({})", list(&polls)),
            "use the same poll=N for all drives: the driver has a single setting (nvme.poll_queues)",
        ));
    }
    if args.append.contains(['\n', '\0']) {
        return Err(Error::input("--append contains a newline", "put the parameters on one line, separated by spaces"));
    }
    if args.command.first().is_none_or(|name| name.is_empty()) {
        return Err(Error::input("the command name is empty", "specify a program after --"));
    }
    if let Some(to) = &args.artifacts {
        takes_artifacts(to, Existing::forced(args.force))?;
    }
    let arch = args.arch.arch();
    let acceleration = match args.accel {
        Accel::Kvm if arch != Arch::host() => {
            return Err(Error::input(
                format!("KVM cannot run {arch} on this machine's processor"),
                "omit --accel; the lab then emulates it",
            ));
        }
        Accel::Auto if arch != Arch::host() => Acceleration::Emulation,
        Accel::Auto => Acceleration::found(),
        Accel::Kvm => Acceleration::kvm()?,
        Accel::Tcg => Acceleration::Emulation,
    };
    let cache = Cache::at(args.cache.cache.as_deref())?;
    let stop = interrupt::raise_flag()?;
    let root = root::root(arch, args.root.as_deref(), args.program.as_deref(), &cache, &tell)?;
    let kernel = kernel::ready(&kernel, arch, &cache, &tell)?;
    let asked = MachineOptions {
        cache: &cache,
        arch,
        root: root.as_ref(),
        kernel: &kernel,
        acceleration,
        may_emulate: args.accel == Accel::Auto,
        cpus: args.cpus,
        sockets: args.sockets,
        memory_bytes: args.memory.0,
        drives: &args.nvme,
        append: &args.append,
        command: &args.command,
    };
    let mut prepared = prepare(&asked, &tell)?;
    let name = kernel.release.as_deref().unwrap_or("a custom kernel");
    tell(&match prepared.acceleration() {
        Acceleration::Kvm => format!("booting {name} with KVM"),
        Acceleration::Emulation => format!("booting {name}; {}", session::EMULATED),
    });
    let stop = || stop.load(Ordering::Relaxed).then(|| interrupt::sent_to_us_alone().unwrap_or(libc::SIGINT));
    // From here on, a second signal kills nothing: stored data must be copied, and the machine stops within 20 s.
    interrupt::hold()?;
    let ended = session::run(&mut prepared, &Options { limit: args.timeout.0, stop: &stop, tell: &tell });
    if ended.as_ref().is_err_and(|e| e.kind == iotrail_base::error::Kind::Machine) {
        for line in session::console(&prepared) {
            terminal::say(&format!("| {line}"));
        }
    }
    // Regardless of the command's result.
    let kept = keep(&prepared, args);
    let status = ended?;
    kept?;
    Ok(status)
}

/// Minimum memory for a distribution kernel and its files.
const LEAST_MEMORY: u64 = 256 << 20;

fn asked_kernel(args: &RunArgs) -> Result<KernelChoice> {
    let Some(name) = &args.kernel else { return Ok(KernelChoice::AtHand) };
    if let Some(modules) = &args.modules {
        return Ok(KernelChoice::File(name.into(), modules.clone()));
    }
    if name.contains('/') || name.starts_with("vmlinu") {
        return Err(Error::input(
            format!("the kernel {name} is a file, so the location of its modules is unknown"),
            "specify lib/modules/RELEASE with --modules",
        ));
    }
    Ok(if name == "newest" { KernelChoice::Newest } else { KernelChoice::Release(name.clone()) })
}

/// Copies the command's stored runs and output files.
fn keep(prepared: &Prepared, args: &RunArgs) -> Result<()> {
    if let Some(from) = prepared.store() {
        let path = args.store.clone().map_or_else(default_path, Ok)?;
        let mut store = Store::create_or_open(&path)?;
        match store.take_in(&from) {
            Ok(runs) if runs.is_empty() => store.abandon(),
            Ok(runs) => {
                let numbers: Vec<String> = runs.iter().map(i64::to_string).collect();
                // The copied run has a different number in this store.
                if !ourselves::is_asked() {
                    tell(&format!("stored here as run {}", list(&numbers)));
                }
            }
            Err(e) => {
                store.abandon();
                return Err(e);
            }
        }
    }
    if let Some(to) = &args.artifacts {
        let files = prepared.bring(to, Existing::forced(args.force))?;
        tell(&format!("{} copied to {}", iotrail_base::words::plural(files, "file"), to.display()));
    }
    Ok(())
}
