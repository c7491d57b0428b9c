//! Debian packages without the host's own package management. Lists, downloads and unpacked files are all in the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::arch::Arch;
use super::cache::{Cache, cannot_write};
use super::sources::Mirror;
use iotrail_base::error::{Error, OrFail, Result};

/// Suites of the archive and the security updates with kernels from 6.1 on.
const ARCHIVE: [&str; 4] = ["bookworm", "bookworm-backports", "trixie", "trixie-backports"];
const SECURITY: [&str; 2] = ["bookworm-security", "trixie-security"];

/// Debian's signing keys, as its keyring package installs them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Older lists are downloaded again if the newest kernel is requested.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// apt with its own directories, for packages of one architecture.
pub struct Packages<'a> {
    cache: &'a Cache,
    arch: Arch,
    folder: PathBuf,
}

impl<'a> Packages<'a> {
    pub fn of(cache: &'a Cache, arch: Arch) -> Self {
        let name = if arch == Arch::host() { "apt".to_owned() } else { format!("apt-{arch}") };
        Packages { cache, arch, folder: cache.root().join(name) }
    }

    /// Whether package lists have been downloaded.
    pub fn listed(&self) -> bool {
        self.stamp().exists()
    }

    /// Downloads the registry's lists, unless they are from today. `tell` receives a message before a slow step.
    pub fn refresh(&self, tell: &dyn Fn(&str)) -> Result<()> {
        if self.is_fresh() {
            return Ok(());
        }
        let _lock = self.cache.lock("apt")?;
        if self.is_fresh() {
            return Ok(());
        }
        if !Path::new(KEYS).exists() {
            return Err(Error::machine(
                format!("cannot check Debian's signatures: {KEYS} does not exist"),
                "install the package debian-archive-keyring, or specify a kernel with --kernel FILE --modules DIR",
            ));
        }
        tell("reading the package lists");
        self.configure().map_err(|e| cannot_write(&self.folder, e))?;
        // By default apt treats a list that it failed to download as unchanged.
        self.apt("apt-get", &["update", "-q", "-o", "APT::Update::Error-Mode=any"], &self.folder)?;
        std::fs::write(self.stamp(), "").map_err(|e| cannot_write(&self.folder, e))
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("updated")
    }

    fn is_fresh(&self) -> bool {
        let age = self
            .stamp()
            .metadata()
            .and_then(|m| m.modified())
            .ok()
            .and_then(|t| SystemTime::now().duration_since(t).ok());
        age.is_some_and(|age| age < FRESH)
    }

    fn configure(&self) -> std::io::Result<()> {
        for folder in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(self.folder.join(folder))?;
        }
        let mirror = Mirror::of_host(Path::new("/etc/apt"));
        let arch = self.arch;
        let line = |address: &str, suite: &&str| format!("deb [arch={arch} signed-by={KEYS}] {address} {suite} main\n");
        let sources: String = ARCHIVE
            .iter()
            .map(|suite| line(mirror.archive(), suite))
            .chain(SECURITY.iter().map(|suite| line(mirror.security(), suite)))
            .collect();
        std::fs::write(self.folder.join("sources.list"), sources)?;
        // No package is installed, so that all dependencies of a package are listed.
        std::fs::write(self.folder.join("status"), "")
    }

    /// All directories are in the cache at its current path.
    fn configuration(&self) -> String {
        let at = |name: &str| self.folder.join(name).display().to_string();
        // The host's proxies and credentials still apply. Its hooks after an update, which clean its own cache, must
        // not run.
        format!(
            "Dir::State::Lists \"{}\";\nDir::State::status \"{}\";\nDir::State::extended_states \"{}\";\nDir::Cache \"{}\";\n\
             Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"/dev/null\";\nAcquire::Languages \"none\";\n\
             APT::Architecture \"{arch}\";\nAPT::Architectures \"{arch}\";\nAPT::Sandbox::User \"root\";\n\
             #clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n\
             #clear Acquire::IndexTargets::deb::DEP-11;\n#clear Acquire::IndexTargets::deb::Contents-deb;\n",
            at("lists"),
            at("status"),
            at("extended_states"),
            self.folder.display(),
            at("sources.list"),
            arch = self.arch,
        )
    }

    /// Packages whose names begin with this prefix; empty without lists.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        if !self.listed() {
            return Ok(Vec::new());
        }
        let said = self.apt("apt-cache", &["pkgnames", prefix], &self.folder)?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// The packages and all their dependencies, as `NAME=VERSION`.
    pub fn with_needed(&self, names: &[&str]) -> Result<Vec<String>> {
        let words = [&["-s", "-q", "install", "--no-install-recommends"], names].concat();
        let said = self.apt("apt-get", &words, &self.folder)?;
        Ok(said.lines().filter_map(simulated).collect())
    }

    /// Downloads packages and unpacks them into `into`, without running their scripts.
    pub fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        let archives = tempfile::Builder::new()
            .prefix(".debs-")
            .tempdir_in(&self.folder)
            .map_err(|e| cannot_write(&self.folder, e))?;
        let mut words = vec!["download", "-q"];
        words.extend(packages.iter().map(String::as_str));
        self.apt("apt-get", &words, archives.path())?;
        let entries = std::fs::read_dir(archives.path()).map_err(|e| cannot_write(archives.path(), e))?;
        for file in entries.flatten().map(|e| e.path()) {
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(&file).arg(into);
            said_by(&mut command, "dpkg-deb")?;
        }
        Ok(())
    }

    fn apt(&self, program: &str, words: &[&str], folder: &Path) -> Result<String> {
        let (file, text) = (self.folder.join("conf"), self.configuration());
        if std::fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            std::fs::write(&file, text).map_err(|e| cannot_write(&self.folder, e))?;
        }
        let mut command = Command::new(program);
        command.arg("-c").arg(file).args(words).current_dir(folder);
        said_by(&mut command, program)
    }
}

/// Runs a command without input and returns its standard output. Its error message becomes the cause.
pub(super) fn said_by(command: &mut Command, name: &str) -> Result<String> {
    command.stdin(Stdio::null()).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    let output = command.output().or_machine(
        format_args!("cannot fetch packages: cannot run {name}"),
        "fetch them on a Debian-based machine, or specify a kernel with --kernel FILE --modules DIR",
    )?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let errors = || text.lines().filter_map(|l| l.strip_prefix("E: ").or_else(|| l.strip_prefix("Err:")));
    let told = errors().next().or_else(|| text.lines().last()).unwrap_or("it printed no reason").trim().to_owned();
    Err(Error::machine(format!("{name} failed"), "check the network and the mirror in /etc/apt").because(told))
}

/// Parses `Inst NAME (VERSION …)`.
fn simulated(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    Some(format!("{name}={}", rest.split(' ').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_versions_are_parsed_from_simulated_installs() {
        assert_eq!(simulated("Inst libc6 (2.41-12 Debian:13.0/stable [amd64]) []").as_deref(), Some("libc6=2.41-12"));
        assert_eq!(simulated("Conf libc6 (2.41-12 Debian:13.0/stable [amd64])"), None);
    }

    #[test]
    fn no_package_names_are_listed_without_package_lists() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path())).unwrap();
        assert_eq!(Packages::of(&cache, Arch::host()).names("linux-image-").unwrap(), Vec::<String>::new());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "asking makes nothing");
    }
}
