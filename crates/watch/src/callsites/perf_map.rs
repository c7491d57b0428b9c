//! Functions of generated code. Node, Java and Python list them in /tmp/perf-PID.map as `start size name`, in
//! hexadecimal.

use std::collections::HashMap;
use std::rc::Rc;

use crate::namespace::Numbers;
use iotrail_host::procfs::Status;

#[derive(Default)]
pub(super) struct PerfMaps {
    numbers: Option<Rc<Numbers>>,
    maps: HashMap<u32, Vec<(u64, u64, String)>>,
}

impl PerfMaps {
    pub fn new(numbers: Rc<Numbers>) -> Self {
        PerfMaps { numbers: Some(numbers), maps: HashMap::new() }
    }

    /// `None` if no file names the address.
    pub fn function(&mut self, tgid: u32, address: u64) -> Option<String> {
        let pid = self.numbers.as_ref().and_then(|numbers| numbers.in_proc(tgid)).unwrap_or(tgid);
        let map = self.maps.entry(tgid).or_insert_with(|| read(pid));
        // If code at an address was replaced, the later line applies.
        let of = map[..map.partition_point(|(start, ..)| *start <= address)].last()?;
        (address < of.0 + of.1).then(|| of.2.clone())
    }
}

/// Reads the file in the process's own mount and PID namespace, which works only while the process lives.
fn read(pid: u32) -> Vec<(u64, u64, String)> {
    let own = Status::of(pid).and_then(|status| status.numbers.last().copied());
    let inside = format!("/proc/{pid}/root/tmp/perf-{}.map", own.unwrap_or(pid));
    let text = std::fs::read(inside).or_else(|_| std::fs::read(format!("/tmp/perf-{pid}.map"))).unwrap_or_default();
    parsed(&String::from_utf8_lossy(&text))
}

fn parsed(text: &str) -> Vec<(u64, u64, String)> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        Some((hex(words.next()?)?, hex(words.next()?)?, words.next()?.trim().to_owned()))
    };
    let mut map: Vec<_> = text.lines().filter_map(line).collect();
    map.sort_by_key(|(start, ..)| *start);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_resolved_to_the_latest_function_in_the_perf_map() {
        let map = parsed(
            "7f20 10 LazyCompile:~read /srv/a.js:3\nbroken\n7f00 20 Builtin:X\n7f20 10 LazyCompile:*read /srv/a.js:3\n",
        );
        let mut maps = PerfMaps { numbers: None, maps: HashMap::from([(7, map)]) };
        assert_eq!(maps.function(7, 0x7f10).as_deref(), Some("Builtin:X"));
        assert_eq!(maps.function(7, 0x7f2f).as_deref(), Some("LazyCompile:*read /srv/a.js:3"));
        assert_eq!(maps.function(7, 0x7f30), None);
        assert_eq!(maps.function(7, 0x10), None);
    }
}
