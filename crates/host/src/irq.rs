//! Interrupt counts per CPU, from /proc/interrupts, and interrupt affinity.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cpu::parse_list;
use super::files::{self, ROOT};
use iotrail_base::error::{OrFail, Result};

/// /proc/interrupts at one moment, or the difference between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupts {
    /// CPUs of the columns, from the header. Offline CPUs have no column.
    pub cpus: Vec<u32>,
    pub rows: Vec<Row>,
}

/// One interrupt source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Line number such as `36`, or a mnemonic: `LOC`, `RES`, `CAL`, … Those of x86 are also used on arm64, including
    /// the timer.
    pub vector: String,
    /// Handler names (`virtio1-req.0`), or a mnemonic's description; empty without a handler.
    pub name: String,
    /// One count per CPU in [`Interrupts::cpus`]; empty for rows with only a total (`ERR`, `MIS`).
    pub counts: Vec<u64>,
}

impl Row {
    /// Interrupt number; `None` for a mnemonic.
    pub fn irq(&self) -> Option<u32> {
        self.vector.parse().ok()
    }
}

/// Reads /proc/interrupts.
pub fn snapshot() -> Result<Interrupts> {
    snapshot_in(Path::new(ROOT))
}

pub(super) fn snapshot_in(root: &Path) -> Result<Interrupts> {
    let text = fs::read_to_string(root.join("proc/interrupts"))
        .or_machine("cannot read /proc/interrupts", "run where /proc is mounted and readable")?;
    parse(&text).or_machine("/proc/interrupts has no header line with CPU columns", "report this with the file's text")
}

fn parse(text: &str) -> Option<Interrupts> {
    let mut lines = text.lines();
    let cpus: Vec<u32> =
        lines.next()?.split_whitespace().map(|w| w.strip_prefix("CPU")?.parse().ok()).collect::<Option<_>>()?;
    if cpus.is_empty() {
        return None;
    }
    let mut rows: Vec<Row> = lines.filter_map(|l| parse_row(l, cpus.len())).collect();
    // On arm64 the timer has a line.
    if rows.iter().all(|row| row.vector != "LOC") {
        rows.iter_mut().filter(|row| row.name == "arch_timer").for_each(|row| row.vector = "LOC".into());
    }
    Some(Interrupts { rows, cpus })
}

fn parse_row(line: &str, columns: usize) -> Option<Row> {
    let (vector, mut rest) = line.split_once(':')?;
    let vector = vector.trim().to_owned();
    let mut counts = Vec::with_capacity(columns);
    while counts.len() < columns {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let Ok(count) = trimmed[..end].parse() else { break };
        counts.push(count);
        rest = &trimmed[end..];
    }
    // ERR and MIS have only a total, which belongs to no CPU.
    if counts.len() < columns {
        counts.clear();
    }
    let is_line = vector.bytes().all(|b| b.is_ascii_digit());
    let name = if is_line { actions(rest) } else { rest.trim() };
    let vector = mnemonic(&vector, name).map_or(vector, str::to_owned);
    Some(Row { vector, name: name.to_owned(), counts })
}

/// x86's mnemonic for a row that is named otherwise: arm64 numbers its IPIs (`IPI0`, arch/arm64/kernel/smp.c).
fn mnemonic(vector: &str, name: &str) -> Option<&'static str> {
    Some(match name {
        _ if !vector.starts_with("IPI") => return None,
        "Rescheduling interrupts" => "RES",
        "Function call interrupts" => "CAL",
        "IRQ work interrupts" => "IWI",
        _ => return None,
    })
}

/// Handlers of a line: the text after the chip and its input, which are padded, following two spaces (`show_interrupts`
/// in kernel/irq/proc.c). Handlers are separated by a comma and a space.
fn actions(rest: &str) -> &str {
    let rest = rest.trim();
    let last = rest.rsplit("  ").next().map_or("", str::trim);
    // Without a handler, the last field is the chip's input (`7-edge`, `27`) or the trigger.
    let is_input = last.bytes().next().is_some_and(|b| b.is_ascii_digit())
        && last.split('-').next().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if is_input || matches!(last, "Level" | "Edge") || last.len() == rest.len() { "" } else { last }
}

impl Interrupts {
    pub fn row(&self, vector: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.vector == vector)
    }

    /// Number of `vector` interrupts on `cpu`; `None` if the kernel has no such row or column.
    pub fn count(&self, vector: &str, cpu: u32) -> Option<u64> {
        let column = self.cpus.iter().position(|&c| c == cpu)?;
        self.row(vector)?.counts.get(column).copied()
    }

    /// Adds the interrupts of another span. Rows that exist in only one of the two stay unchanged.
    pub fn add(&mut self, other: &Interrupts) {
        if self.cpus != other.cpus {
            return;
        }
        for row in &other.rows {
            match self.rows.iter_mut().find(|r| r.vector == row.vector && r.name == row.name) {
                Some(sum) => sum.counts.iter_mut().zip(&row.counts).for_each(|(sum, n)| *sum += n),
                None => self.rows.push(row.clone()),
            }
        }
    }

    /// Interrupts since `earlier`, on CPUs in both. A row that is new, or whose number now has another handler, counts
    /// from zero, as in the kernel.
    pub fn since(&self, earlier: &Interrupts) -> Interrupts {
        let kept: Vec<usize> = (0..self.cpus.len()).filter(|&i| earlier.cpus.contains(&self.cpus[i])).collect();
        let rows = self.rows.iter().map(|now| {
            let before = earlier.row(&now.vector).filter(|b| b.name == now.name);
            let count = |&i: &usize| -> Option<u64> {
                let now = *now.counts.get(i)?;
                match before {
                    None => Some(now),
                    // The kernel's counters are unsigned ints, which wrap at 2³².
                    Some(b) => {
                        let column = earlier.cpus.iter().position(|&c| c == self.cpus[i])?;
                        let then = *b.counts.get(column)?;
                        Some(if now >= then { now - then } else { u64::from((now as u32).wrapping_sub(then as u32)) })
                    }
                }
            };
            Row {
                vector: now.vector.clone(),
                name: now.name.clone(),
                counts: kept.iter().map(count).collect::<Option<_>>().unwrap_or_default(),
            }
        });
        Interrupts { rows: rows.collect(), cpus: kept.iter().map(|&i| self.cpus[i]).collect() }
    }
}

/// Allowed and effective CPUs of an interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Affinity {
    /// CPUs that may receive it (smp_affinity_list).
    pub allowed: Option<Vec<u32>>,
    /// CPUs that currently receive it (effective_affinity_list).
    pub effective: Option<Vec<u32>>,
    /// Whether root can change it. `Some(false)`: the kernel manages the affinity, which drivers request with one queue
    /// per CPU; `None`: unknown with these privileges.
    pub movable: Option<bool>,
}

pub fn affinity(irq: u32) -> Affinity {
    affinity_in(Path::new(ROOT), irq)
}

pub fn affinity_in(root: &Path, irq: u32) -> Affinity {
    let list = |name: &str| parse_list(&files::text(root, format!("proc/irq/{irq}/{name}"))?).ok();
    let allowed = list("smp_affinity_list");
    // An interrupt that was never started has no effective CPU. Kernels without the file deliver to the allowed CPUs.
    let effective = list("effective_affinity_list").filter(|cpus| !cpus.is_empty()).or_else(|| allowed.clone());
    Affinity { allowed, effective, movable: movable(&root.join(format!("proc/irq/{irq}/smp_affinity_list"))) }
}

/// Recent kernels make a managed interrupt's file read-only. Older ones show it as writable and reject writes. To
/// distinguish them, an invalid list is written, which the kernel parses only after that check: EINVAL means that it
/// could be set; EPERM (EIO before 6.11) that it could not. Neither changes anything.
fn movable(file: &Path) -> Option<bool> {
    if fs::metadata(file).ok()?.permissions().mode() & 0o200 == 0 {
        return Some(false);
    }
    let refused = fs::OpenOptions::new().write(true).open(file).ok()?.write(b"?").err()?;
    match refused.raw_os_error() {
        Some(libc::EINVAL) => Some(true),
        Some(libc::EPERM | libc::EIO) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    const BEFORE: &str = "\
           CPU0       CPU2       CPU3
  1:          9          0          0   IO-APIC   1-edge      i8042
 16:          3          0          1  IO-APIC  16-fasteoi   uhci_hcd:usb1, i801_smbus
 19:          5          0          0  IO-APIC  19-edge
 36:          0 4294967290          7  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 50:          2          2          2     GICv3  27 Level     arch_timer
LOC:         10         20         30   Local timer interrupts
ERR:          4
MIS:          0
";

    #[test]
    fn rows_of_proc_interrupts_are_parsed_by_kind() {
        let i = parse(BEFORE).unwrap();
        assert_eq!(i.cpus, [0, 2, 3]);
        assert_eq!(i.count("36", 3), Some(7));
        assert_eq!(i.count("36", 1), None);
        assert_eq!(i.count("LOC", 2), Some(20));
        assert_eq!(i.count("ERR", 0), None);
        let name = |v| i.row(v).unwrap().name.as_str();
        assert_eq!(name("1"), "i8042");
        assert_eq!(name("16"), "uhci_hcd:usb1, i801_smbus");
        assert_eq!(name("19"), "");
        assert_eq!(name("36"), "virtio1-req.0");
        assert_eq!(name("50"), "arch_timer");
        assert_eq!(name("LOC"), "Local timer interrupts");
        assert_eq!((i.row("36").unwrap().irq(), i.row("LOC").unwrap().irq()), (Some(36), None));
        assert_eq!(i.rows.len(), 8);
    }

    #[test]
    fn differences_handle_wraparound_new_rows_and_removed_cpus() {
        let after = "\
           CPU0       CPU2
  1:         11          4   IO-APIC   1-edge      i8042
 36:          1          4  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 50:          2          3     GICv3  27 Level     other
 51:          8          1  PCI-MSIX-0000:00:03.0   0-edge      nvme0q1
LOC:         15         20   Local timer interrupts
";
        let d = parse(after).unwrap().since(&parse(BEFORE).unwrap());
        assert_eq!(d.cpus, [0, 2]);
        assert_eq!(d.row("1").unwrap().counts, [2, 4]);
        assert_eq!(d.row("36").unwrap().counts, [1, 10]);
        assert_eq!(d.row("50").unwrap().counts, [2, 3]);
        assert_eq!(d.row("51").unwrap().counts, [8, 1]);
        assert_eq!(d.row("LOC").unwrap().counts, [5, 0]);
    }

    #[test]
    fn text_without_an_interrupt_table_is_an_error() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("LOC: 1 2\n"), None);
        assert_eq!(snapshot_in(Tree::new().root()).unwrap_err().exit_status(), 3);
    }

    #[test]
    fn effective_affinity_is_used_if_present_and_nonempty() {
        let t = Tree::new()
            .file("proc/irq/36/smp_affinity_list", "0-3\n")
            .file("proc/irq/36/effective_affinity_list", "2\n")
            .file("proc/irq/37/smp_affinity_list", "0-1\n")
            .file("proc/irq/37/effective_affinity_list", "\n");
        let a = affinity_in(t.root(), 36);
        assert_eq!((a.allowed, a.effective), (Some(vec![0, 1, 2, 3]), Some(vec![2])));
        assert_eq!(affinity_in(t.root(), 37).effective, Some(vec![0, 1]));
        assert_eq!(affinity_in(t.root(), 38), Affinity::default());
    }

    #[test]
    fn a_file_without_write_permission_is_a_managed_interrupt() {
        let t = Tree::new().file("proc/irq/36/smp_affinity_list", "0\n");
        let file = t.root().join("proc/irq/36/smp_affinity_list");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(movable(&file), Some(false));
        assert_eq!(movable(&t.root().join("proc/irq/99/smp_affinity_list")), None);
    }

    #[test]
    fn arm64_rows_are_mapped_to_the_same_mnemonics() {
        // Linux 6.12 in QEMU.
        let text = "           CPU0       CPU1       \n\
             11:       1790       1834    GICv3  27 Level     arch_timer\n\
             18:         12          0   ITS-MSI 1081344 Edge      nvme0q0\n\
            IPI0:       145        208       Rescheduling interrupts\n\
            IPI1:       741        634       Function call interrupts\n\
            IPI5:         3          2       IRQ work interrupts\n\
             Err:          0\n";
        let i = parse(text).unwrap();
        assert_eq!((i.count("LOC", 1), i.count("RES", 0), i.count("CAL", 1)), (Some(1834), Some(145), Some(634)));
        assert_eq!((i.count("IWI", 0), i.count("18", 0), i.row("IPI0")), (Some(3), Some(12), None));
    }
}
