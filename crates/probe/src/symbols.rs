//! Names of kernel addresses, from /proc/kallsyms.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Per-CPU pointer to the saved registers of the current interrupt.
pub const IRQ_REGS: &str = "__irq_regs";
/// Offsets of each CPU's per-CPU data.
pub const PER_CPU_OFFSETS: &str = "__per_cpu_offset";

/// Kernel function symbols, sorted by address: 100,000 to 300,000, about 10 MiB, 30 ms to read.
#[derive(Debug)]
pub struct Symbols {
    addresses: Vec<u64>,
    names: Vec<Box<str>>,
    /// The data symbols named above.
    data: Vec<(&'static str, u64)>,
}

impl Symbols {
    /// Read once per process; `None` as for [`read`](Self::read).
    pub fn of_this_kernel() -> Option<&'static Self> {
        static SYMBOLS: OnceLock<Option<Symbols>> = OnceLock::new();
        SYMBOLS.get_or_init(Self::read).as_ref()
    }

    /// `None` if the file is unreadable or shows zeros instead of addresses (no CAP_SYSLOG, kptr_restrict).
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string(Path::new("/proc/kallsyms")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut data = Vec::new();
        let mut all: Vec<(u64, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let kind = words.next()?;
                let name = words.next()?;
                if let Some(known) = [IRQ_REGS, PER_CPU_OFFSETS].into_iter().find(|known| *known == name) {
                    data.push((known, address));
                }
                (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then_some((address, name))
            })
            .collect();
        if all.is_empty() {
            return None;
        }
        all.sort_by_key(|(address, _)| *address);
        Some(Self {
            addresses: all.iter().map(|(a, _)| *a).collect(),
            names: all.into_iter().map(|(_, n)| n.into()).collect(),
            data,
        })
    }

    /// The function that contains a code address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.addresses.partition_point(|a| *a <= address);
        Some(&self.names[after.checked_sub(1)?])
    }

    /// The function of a return address. If the call is a function's last instruction, its return address is one past
    /// the function's end.
    pub fn caller(&self, return_address: u64) -> Option<&str> {
        self.function(return_address.checked_sub(1)?)
    }

    pub fn address(&self, name: &str) -> Option<u64> {
        self.position(name).map(|i| self.addresses[i])
    }

    /// Address of a data symbol named above; `None` if the kernel has only function symbols.
    pub fn data(&self, name: &str) -> Option<u64> {
        self.data.iter().find(|(known, _)| *known == name).map(|(_, address)| *address)
    }

    /// Start of the function, and its length up to the next symbol. Falls back to a compiler-made copy if only the copy
    /// exists.
    pub fn extent(&self, name: &str) -> Option<(u64, u64)> {
        let at = self.position(name).or_else(|| self.only_copy(name))?;
        let start = self.addresses[at];
        let next = self.addresses[at..].iter().find(|a| **a > start)?;
        Some((start, next - start))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| **n == *name)
    }

    /// Compilers name a copy `name.isra.0` or `name.constprop.0`. `name.part.0` and `name.cold` are fragments that the
    /// function itself calls.
    fn only_copy(&self, name: &str) -> Option<usize> {
        let is_copy = |n: &str| {
            let after = n.strip_prefix(name).filter(|after| after.starts_with('.'));
            after.is_some_and(|after| ![".cold", ".part"].iter().any(|piece| after.contains(piece)))
        };
        let mut copies = self.names.iter().enumerate().filter(|(_, n)| is_copy(n)).map(|(at, _)| at);
        copies.next().filter(|_| copies.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000e30 T asm_sysvec_reschedule_ipi\nffffffff81000df0 T asm_sysvec_apic_timer_interrupt\n\
                        ffffffff82000000 D some_data\nffffffff82000008 D __irq_regs\nffffffff81389990 T task_work_add\t[mod]\n";

    #[test]
    fn a_symbol_is_found_by_address_and_by_name() {
        let s = Symbols::parse(TEXT).unwrap();
        assert_eq!(s.function(0xffffffff81000e35), Some("asm_sysvec_reschedule_ipi"));
        // A return address at the next function's start still belongs to the caller.
        assert_eq!(s.caller(0xffffffff81000e30), Some("asm_sysvec_apic_timer_interrupt"));
        assert_eq!(s.address("task_work_add"), Some(0xffffffff81389990));
        assert_eq!([IRQ_REGS, PER_CPU_OFFSETS].map(|name| s.data(name)), [Some(0xffffffff82000008), None]);
        assert_eq!(s.function(0x1000), None);
        assert_eq!(s.extent("asm_sysvec_apic_timer_interrupt"), Some((0xffffffff81000df0, 0x40)));
        assert_eq!(s.extent("task_work_add"), None, "nothing says where the last one ends");
        assert_eq!(s.address("some_data"), None);
    }

    #[test]
    fn a_compiler_clone_replaces_a_function_without_a_symbol() {
        let text = |names: &[&str]| {
            let lines: Vec<_> =
                names.iter().enumerate().map(|(i, n)| format!("{:x} t {n}\n", 0xffff_0000 + 16 * i)).collect();
            Symbols::parse(&lines.concat()).unwrap()
        };
        let copied = text(&["el0_svc.cold", "el0_svc.isra.0", "el0_svc.part.0", "el0_svc_compat", "end"]);
        assert_eq!(copied.extent("el0_svc"), Some((0xffff_0010, 16)));
        assert_eq!(copied.address("el0_svc"), None, "not what is compared with a pointer to it");
        assert_eq!(text(&["a.isra.0", "a.constprop.0", "end"]).extent("a"), None, "which of them is not known");
        assert_eq!(text(&["a.isra.0", "a", "end"]).extent("a"), Some((0xffff_0010, 16)));
    }

    #[test]
    fn hidden_kernel_addresses_yield_no_symbols() {
        assert!(Symbols::parse("0000000000000000 T asm_sysvec_reschedule_ipi\n").is_none());
    }
}
