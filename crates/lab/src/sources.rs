//! The host's Debian mirror, from its apt sources in either format.

use std::path::Path;

/// URLs of Debian's archive and of its security updates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror {
    archive: Option<String>,
    security: Option<String>,
}

impl Mirror {
    pub fn archive(&self) -> &str {
        self.archive.as_deref().unwrap_or("http://deb.debian.org/debian")
    }

    pub fn security(&self) -> &str {
        self.security.as_deref().unwrap_or("http://deb.debian.org/debian-security")
    }

    /// Mirrors in the sources below `etc` (`/etc/apt`).
    pub fn of_host(etc: &Path) -> Self {
        let mut files = vec![etc.join("sources.list")];
        if let Ok(folder) = std::fs::read_dir(etc.join("sources.list.d")) {
            files.extend(folder.flatten().map(|e| e.path()));
        }
        files.sort();
        let mut mirror = Mirror::default();
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let found = match file.extension().and_then(|e| e.to_str()) {
                Some("sources") => stanzas(&text),
                Some("list") => lines(&text),
                _ => continue,
            };
            mirror.take(found);
        }
        mirror
    }

    /// Takes the first mirror of each kind. A source without a Debian suite belongs to another archive.
    fn take(&mut self, sources: Vec<(String, String)>) {
        for (address, suite) in sources {
            let (name, part) = suite.split_once(['-', '/']).unwrap_or((&suite, ""));
            if !SUITES.contains(&name) {
                continue;
            }
            let place = match part {
                "" | "updates" if !address.contains("security") => &mut self.archive,
                "security" | "updates" => &mut self.security,
                _ => continue,
            };
            place.get_or_insert_with(|| address.trim_end_matches('/').to_owned());
        }
    }
}

const SUITES: [&str; 9] =
    ["bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"];

/// Parses `deb [options] ADDRESS SUITE COMPONENT…`: address and suite.
fn lines(text: &str) -> Vec<(String, String)> {
    let entry = |line: &str| {
        let rest = line.trim().strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    text.lines().filter_map(entry).collect()
}

/// Parses stanzas of `Field: values`. A line that begins with a space continues the previous one.
fn stanzas(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut addresses, mut suites, mut binary, mut enabled) = (Vec::new(), Vec::new(), false, true);
    let mut field = String::new();
    for line in text.lines().filter(|l| !l.starts_with('#')).chain([""]) {
        if line.trim().is_empty() {
            for suite in suites.drain(..).filter(|_| binary && enabled) {
                found.extend(addresses.iter().map(|a: &String| (a.clone(), suite)));
            }
            addresses.clear();
            (binary, enabled) = (false, true);
            continue;
        }
        let values = match line.split_once(':').filter(|_| !line.starts_with([' ', '\t'])) {
            Some((name, values)) => {
                field = name.trim().to_lowercase();
                values
            }
            None => line,
        };
        let words = || values.split_whitespace();
        match field.as_str() {
            "types" => binary |= words().any(|w| w == "deb"),
            "uris" => addresses.extend(words().map(str::to_owned)),
            "suites" => suites.extend(words()),
            "enabled" => enabled = !values.trim().eq_ignore_ascii_case("no"),
            _ => {}
        }
    }
    found.into_iter().map(|(address, suite)| (address, suite.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, text: &str) -> Mirror {
        let etc = tempfile::tempdir().unwrap();
        std::fs::create_dir(etc.path().join("sources.list.d")).unwrap();
        std::fs::write(etc.path().join(file), text).unwrap();
        Mirror::of_host(etc.path())
    }

    #[test]
    fn the_mirror_is_read_from_both_apt_source_formats() {
        let expected = Mirror {
            archive: Some("http://mirror.example/debian".into()),
            security: Some("http://mirror.example/debian-security".into()),
        };
        let one_line = "# deb http://old.example/debian trixie main\n\
            deb-src http://src.example/debian trixie main\n\
            deb https://other.example/apt cloud main\n\
            deb [arch=amd64 signed-by=/x.gpg] http://mirror.example/debian/ bookworm main contrib\n\
            deb http://mirror.example/debian-security bookworm-security main\n\
            deb http://second.example/debian trixie main\n";
        assert_eq!(of("sources.list", one_line), expected);
        let deb822 = "Types: deb\nURIs: https://other.example/node\nSuites: nodistro\n\n\
            Types: deb deb-src\n# a remark\nURIs: http://mirror.example/debian\nSuites: bookworm\n bookworm-updates\nComponents: main\n\n\
            Types: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\n\n\
            Enabled: no\nTypes: deb\nURIs: http://second.example/debian\nSuites: trixie\n";
        assert_eq!(of("sources.list.d/debian.sources", deb822), expected);
    }

    #[test]
    fn the_default_debian_mirror_is_used_on_other_hosts() {
        let ubuntu = of("sources.list", "deb http://archive.ubuntu.com/ubuntu noble main\n");
        assert_eq!(
            (ubuntu.archive(), ubuntu.security()),
            ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")
        );
        assert_eq!(Mirror::of_host(Path::new("/no/such")), Mirror::default());
    }
}
