//! A ring driven by a BPF program (`io_uring_bpf_ops`, Linux 7.1): io_uring_enter calls the program in a loop, and the
//! program submits, waits and reaps.

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};

use crate::raw::{CQ_OFF, RawRing, SQ_OFF, entry};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[Scenario {
    name: "bpf_loop",
    about: "a BPF program submits 7 no-ops and a timeout of 200 µs at a time, and reaps them, in one io_uring_enter call",
    finding: None,
    allowed: &[],
    count: 1_600,
    run: bpf_loop,
}];

const GROUP: u32 = 8;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;

fn bpf_loop(run: &mut Run) -> Result<()> {
    const NOP: u8 = 0;
    const TIMEOUT: u8 = 11;
    static TIME: [i64; 2] = [0, 200_000];
    run.pin_if_asked()?;
    let types = Types { bytes: fs::read("/sys/kernel/btf/vmlinux").context("the kernel's types")? };
    let operations = types.find(STRUCT, "io_uring_bpf_ops")?.id;
    let mut ring = RawRing::open(GROUP, SINGLE_ISSUER | DEFER_TASKRUN)?;
    let count = run.count / GROUP * GROUP;
    let program = Program::drive(&ring, count, &types, operations)?;
    run.start()?;
    // The program publishes the same entries for each group.
    for i in 0..GROUP - 1 {
        ring.place(i, &entry(NOP, -1, 0, 0, 0, 0, i.into()));
    }
    ring.place(GROUP - 1, &entry(TIMEOUT, -1, 0, (&raw const TIME) as u64, 1, 0, (GROUP - 1).into()));
    ring.enter(0, 0, 0).context("the loop")?;
    let posted = ring.word(CQ_OFF + 1, 0).load(Ordering::Acquire);
    ensure!(posted == count, "{posted} completions of {count}");
    drop(program);
    let timeouts = u64::from(count / GROUP);
    let nops = ring.ops.entry("nop").or_default();
    (nops.requests, nops.completions) = (u64::from(count) - timeouts, u64::from(count) - timeouts);
    let timed = ring.ops.entry("timeout").or_default();
    (timed.requests, timed.completions, timed.errors) = (timeouts, timeouts, timeouts);
    timed.errnos.insert(libc::ETIME, timeouts);
    run.report.rings.push(ring.report());
    run.report.exactly("inline", u64::from(count) - timeouts);
    run.report.exactly("enter", timeouts);
    // A timer may expire before the thread sleeps.
    run.report.between("enter:slept", timeouts / 2, timeouts);
    run.fact("loop_waits_most", timeouts);
    Ok(())
}

/// The kernel's types (/sys/kernel/btf/vmlinux), limited to names of structures and functions.
struct Types {
    bytes: Vec<u8>,
}

struct Type {
    id: u32,
    size: u32,
    members: usize,
}

const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;

impl Types {
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes"))
    }

    fn find(&self, kind: u32, name: &str) -> Result<Type> {
        let header = self.word(4) as usize;
        let (start, length) = (header + self.word(8) as usize, self.word(12) as usize);
        let strings = header + self.word(16) as usize;
        let (mut at, mut id) = (start, 0);
        while at < start + length {
            id += 1;
            let (info, members) = (self.word(at + 4), at + 12);
            let (of_kind, n) = (info >> 24 & 31, (info & 0xffff) as usize);
            let text = &self.bytes[strings + self.word(at) as usize..];
            if of_kind == kind && text.starts_with(name.as_bytes()) && text[name.len()] == 0 {
                return Ok(Type { id, size: self.word(at + 8), members });
            }
            at = members
                + match of_kind {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * n,
                    6 | 13 => 8 * n,
                    _ => 0,
                };
        }
        Err(Unsupported(format!("this kernel has no {name} (Linux 7.1)")).into())
    }
}

fn bpf(command: u32, attributes: &[u64]) -> std::io::Result<i32> {
    // SAFETY: `union bpf_attr`, whose pointers are the caller's.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(done as i32) }
}

/// Packs two 32-bit fields.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// `struct bpf_insn`.
fn insn(code: u8, to: u8, from: u8, offset: i16, value: u32) -> u64 {
    pair(u32::from(code) | u32::from(to | from << 4) << 8 | u32::from(offset as u16) << 16, value)
}

const LOAD_WORD: u8 = 0x61;
const LOAD_LONG: u8 = 0x79;
const STORE_WORD: u8 = 0x63;
const SET: u8 = 0xb7;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
const IF_AT_LEAST: u8 = 0x35;
const IF_NOT: u8 = 0x55;
const IF_DIFFERS: u8 = 0x5d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The program as a ring's operations. The kernel releases it with the map's only entry.
struct Program {
    map: i32,
}

impl Program {
    fn drive(ring: &RawRing, count: u32, types: &Types, operations: u32) -> Result<Program> {
        const MAP_CREATE: u32 = 0;
        const MAP_UPDATE: u32 = 2;
        const PROG_LOAD: u32 = 5;
        const BTF_LOAD: u32 = 18;
        const STRUCT_OPS_MAP: u32 = 26;
        const STRUCT_OPS_PROGRAM: u32 = 27;
        const SLEEPABLE: u32 = 1 << 4;
        const KERNEL_FUNCTION: u8 = 2;
        let value = types.find(STRUCT, "bpf_struct_ops_io_uring_bpf_ops")?;
        let region = types.find(FUNCTION, "bpf_io_uring_get_region")?.id;
        let submit = types.find(FUNCTION, "bpf_io_uring_submit_sqes")?.id;
        let [sq_tail, cq_head, cq_tail] = [SQ_OFF + 1, CQ_OFF, CQ_OFF + 1].map(|field| ring.offset(field) as i16);
        // r6: the ring; r7: what to wait for; r8: heads and tails of both queues.
        let code = [
            insn(LOAD_LONG, 6, 1, 0, 0),
            insn(LOAD_LONG, 7, 1, 8, 0),
            insn(COPY, 1, 6, 0, 0),
            insn(SET, 2, 0, 0, 1),
            insn(SET, 3, 0, 0, 64),
            insn(CALL, 0, KERNEL_FUNCTION, 0, region),
            insn(IF_NOT, 0, 0, 2, 0),
            insn(SET, 0, 0, 0, 1),
            insn(EXIT, 0, 0, 0, 0),
            insn(COPY, 8, 0, 0, 0),
            // Reap all completions, and stop after the last one.
            insn(LOAD_WORD, 2, 8, cq_tail, 0),
            insn(STORE_WORD, 8, 2, cq_head, 0),
            insn(IF_AT_LEAST, 2, 0, 11, count),
            // Once the last group is complete, submit the next one.
            insn(LOAD_WORD, 3, 8, sq_tail, 0),
            insn(IF_DIFFERS, 2, 3, 5, 0),
            insn(ADD, 3, 0, 0, GROUP),
            insn(STORE_WORD, 8, 3, sq_tail, 0),
            insn(COPY, 1, 6, 0, 0),
            insn(SET, 2, 0, 0, GROUP),
            insn(CALL, 0, KERNEL_FUNCTION, 0, submit),
            // Wait for the whole group.
            insn(LOAD_WORD, 3, 8, sq_tail, 0),
            insn(STORE_WORD, 7, 3, 0, 0),
            insn(SET, 0, 0, 0, 0),
            insn(EXIT, 0, 0, 0, 0),
            insn(SET, 0, 0, 0, 1),
            insn(EXIT, 0, 0, 0, 0),
        ];
        let mut log = vec![0u8; 1 << 16];
        let mut load = [0u64; 15];
        load[0] = pair(STRUCT_OPS_PROGRAM, code.len() as u32);
        load[1] = code.as_ptr() as u64;
        load[2] = c"GPL".as_ptr() as u64;
        load[3] = pair(1, log.len() as u32);
        load[4] = log.as_mut_ptr() as u64;
        load[5] = pair(0, SLEEPABLE);
        // attach_btf_id, at byte 108; the operation is the first member (expected_attach_type 0).
        load[13] = pair(0, operations);
        let program = bpf(PROG_LOAD, &load).map_err(|error| {
            anyhow::anyhow!("loading the program: {error}: {}", String::from_utf8_lossy(&log).trim_end_matches('\0'))
        })?;
        // The map requires BTF of its own although the kernel's types are used: an integer `i`.
        let own: [u32; 11] = [0x1_eb9f, 24, 0, 16, 16, 3, 1, 1 << 24, 4, 32, u32::from(b'i') << 8];
        let own = bpf(BTF_LOAD, &[own.as_ptr() as u64, 0, pair(43, 0), 0]).context("loading types")?;
        // btf_fd at byte 48, btf_vmlinux_value_type_id at byte 60.
        let mut create = [0u64; 8];
        create[0] = pair(STRUCT_OPS_MAP, 4);
        create[1] = pair(value.size, 1);
        create[6] = pair(own as u32, 0);
        create[7] = pair(0, value.id);
        let map = bpf(MAP_CREATE, &create).context("creating the map of operations")?;
        // The second member is `struct io_uring_bpf_ops`: the program, and the ring.
        let data = types.word(value.members + 12 + 8) as usize / 64;
        let mut words = vec![0u64; value.size as usize / 8];
        words[data] = program as u64;
        words[data + 1] = ring.as_raw_fd() as u64;
        bpf(MAP_UPDATE, &[map as u64, (&raw const KEY) as u64, words.as_ptr() as u64, 0])
            .context("driving the ring")?;
        Ok(Program { map })
    }
}

static KEY: u32 = 0;

impl Drop for Program {
    fn drop(&mut self) {
        const MAP_DELETE: u32 = 3;
        let _ = bpf(MAP_DELETE, &[self.map as u64, (&raw const KEY) as u64]);
    }
}
