//! Kernel releases: ordering, and matching of prefixes.

use std::cmp::Ordering;

use crate::arch::Arch;

/// Newer is greater. Numbers are compared as numbers, so 6.12 comes after 6.9.
pub fn order(a: &str, b: &str) -> Ordering {
    parts(a).cmp(&parts(b))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Text(&'a str),
    Number(u64),
}

fn parts(release: &str) -> Vec<Part<'_>> {
    let bytes = release.as_bytes();
    let mut parts = Vec::new();
    let mut from = 0;
    for at in 1..=bytes.len() {
        if at < bytes.len() && bytes[at].is_ascii_digit() == bytes[from].is_ascii_digit() {
            continue;
        }
        let part = &release[from..at];
        parts.push(part.parse().map_or(Part::Text(part), Part::Number));
        from = at;
    }
    parts
}

/// Debian's additional flavours: real-time, virtual machines only, 16 KiB pages.
const FLAVOURS: [&str; 3] = ["rt", "cloud", "16k"];

/// Flavour of a release or release prefix; `None` for a plain kernel.
pub fn flavour(release: &str) -> Option<&str> {
    release.split('-').find(|part| FLAVOURS.contains(part))
}

/// Whether `asked` selects the release: its full name, or a prefix that ends at a number boundary (`6.1` does not
/// select `6.12`). A flavour follows the prefix (`6.12-rt`, or `rt` for the newest); without a flavour only plain
/// kernels are selected.
pub fn stands_for(asked: &str, release: &str) -> bool {
    if asked == release {
        return true;
    }
    if asked.is_empty() || flavour(asked) != flavour(release) {
        return false;
    }
    let beginning = match asked.rsplit_once('-') {
        _ if FLAVOURS.contains(&asked) => "",
        Some((beginning, last)) if FLAVOURS.contains(&last) => beginning,
        _ => asked,
    };
    let Some(rest) = release.strip_prefix(beginning) else { return false };
    !rest.starts_with(|c: char| c.is_ascii_digit()) || !beginning.ends_with(|c: char| c.is_ascii_digit())
}

/// Release of a Debian package, if it is a kernel image for this architecture.
pub fn of_package(name: &str, arch: Arch) -> Option<&str> {
    let release = name.strip_prefix("linux-image-")?;
    let parts: Vec<&str> = release.split('-').filter(|part| !FLAVOURS.contains(part)).collect();
    let (of, version) = parts.split_last()?;
    // `linux-image-6.12-amd64` and `linux-image-amd64` are metapackages.
    let number = version.first()?.split('+').next()?;
    let whole = number.split('.').count() == 3 && number.starts_with(|c: char| c.is_ascii_digit());
    (whole && *of == arch.debian()).then_some(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_numerically() {
        let mut releases =
            ["6.12.9+deb13-amd64", "7.3.4+deb13-amd64", "6.1.0-9-amd64", "6.12.117+deb13-amd64", "6.1.0-50-amd64"];
        releases.sort_by(|a, b| order(a, b));
        assert_eq!(
            releases,
            ["6.1.0-9-amd64", "6.1.0-50-amd64", "6.12.9+deb13-amd64", "6.12.117+deb13-amd64", "7.3.4+deb13-amd64"]
        );
    }

    #[test]
    fn a_prefix_matches_only_complete_release_numbers() {
        assert!(stands_for("6.1", "6.1.0-50-amd64") && stands_for("6.1.0-50-amd64", "6.1.0-50-amd64"));
        assert!(stands_for("6.12.117", "6.12.117+deb13-amd64") && stands_for("7", "7.3.4+deb13-amd64"));
        assert!(!stands_for("6.1", "6.12.117+deb13-amd64") && !stands_for("6.1.0-5", "6.1.0-50-amd64"));
        assert!(!stands_for("", "6.1.0-50-amd64"));
    }

    #[test]
    fn a_kernel_flavour_is_selected_by_name() {
        let (rt, pages) = ("6.12.118+deb13-rt-amd64", "7.3.4+deb13-arm64-16k");
        assert_eq!([rt, pages, "6.1.0-50-amd64"].map(flavour), [Some("rt"), Some("16k"), None]);
        assert!(stands_for("6.12-rt", rt) && stands_for("rt", rt) && stands_for(rt, rt) && stands_for("16k", pages));
        assert!(!stands_for("6.12", rt) && !stands_for("6.1-rt", rt) && !stands_for("6.12-cloud", rt));
        assert!(!stands_for("7.3-rt", pages) && !stands_for("6.12-rt", "6.12.118+deb13-amd64"));
    }

    #[test]
    fn kernel_releases_are_parsed_from_package_names() {
        let of_package = |name| super::of_package(name, Arch::Amd64);
        assert_eq!(of_package("linux-image-6.1.0-50-amd64"), Some("6.1.0-50-amd64"));
        assert_eq!(of_package("linux-image-7.3.4+deb13-amd64"), Some("7.3.4+deb13-amd64"));
        let arm64 = |name| super::of_package(name, Arch::Arm64);
        assert_eq!(arm64("linux-image-6.1.0-50-arm64"), Some("6.1.0-50-arm64"));
        assert_eq!(arm64("linux-image-6.19.6+deb13-arm64-16k"), Some("6.19.6+deb13-arm64-16k"));
        assert_eq!(arm64("linux-image-6.1.0-50-amd64"), None);
        assert_eq!(of_package("linux-image-6.12.117+deb13-rt-amd64"), Some("6.12.117+deb13-rt-amd64"));
        assert_eq!(of_package("linux-image-6.1.0-50-cloud-amd64"), Some("6.1.0-50-cloud-amd64"));
        for other in [
            "linux-image-amd64",
            "linux-image-6.12-amd64",
            "linux-image-rt-amd64",
            "linux-image-6.12-rt-amd64",
            "linux-image-6.12.117+deb13-rt-amd64-dbg",
            "linux-image-6.1.0-50-amd64-dbg",
            "linux-image-6.1.0-50-amd64-unsigned",
            "linux-headers-6.1.0-50-amd64",
        ] {
            assert_eq!(of_package(other), None, "{other}");
        }
    }
}
