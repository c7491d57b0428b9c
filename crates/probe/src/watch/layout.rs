//! Sizes of the structures in `record.h` and of the maps.

use crate::skel::types;

// Sizes in `record.h` as compiled into the programs.
const _: () = assert!(size_of::<types::cpu_slot>() == 3648);
const _: () = assert!(size_of::<types::delivery_key>() == 32);
const _: () = assert!(size_of::<types::return_key>() == 16);
const _: () = assert!(size_of::<types::ipi_key>() == 24);
const _: () = assert!(size_of::<types::irq_count>() == 40);
const _: () = assert!(size_of::<types::thread_state>() == 120);
const _: () = assert!(size_of::<types::op_count>() == 144);
const _: () = assert!(size_of::<types::ring_count>() == 88);
const _: () = assert!(size_of::<types::ring_thread>() == 24);
const _: () = assert!(size_of::<types::ring_info>() == 64);
const _: () = assert!(size_of::<types::process_info>() == 64);
const _: () = assert!(size_of::<types::ended>() == 40);
const _: () = assert!(size_of::<types::sq_ended>() == 48);
const _: () = assert!(size_of::<types::reaped>() == 80);
const _: () = assert!(size_of::<types::stay>() == 64);
const _: () = assert!(size_of::<types::cq_backlog>() == 104 + 64 * 32);
const _: () = assert!(size_of::<types::trail>() == 336);
const _: () = assert!(size_of::<types::file_name>() == 96);
const _: () = assert!(size_of::<types::user_stack>() == 320);
const _: () = assert!(size_of::<types::site_key>() == 16);
const _: () = assert!(size_of::<types::site_sum>() == 32);
const _: () = assert!(size_of::<types::sleep_key>() == 24);
const _: () = assert!(size_of::<types::sleep_sum>() == 24);
const _: () = assert!(size_of::<types::thread_total>() == 200);
const _: () = assert!(size_of::<types::call_count>() == 56);

/// `IOTRAIL_MAX_CPUS`.
pub(super) const MAX_CPUS: usize = 1024;

/// Maximum number of rings and contexts numbered at a time; others are counted by process.
pub(super) const RINGS_MAX: u32 = 16384;

/// Maximum entries of the hashes by ring. Unused entries take no memory, except 16 bytes each for buckets.
pub(super) const COUNTS_MAX: u32 = 65536;

/// `AIO_REQUESTS_MAX`.
pub(super) const AIO_REQUESTS_MAX: u32 = 65536;

/// `CQ_BACKLOGS`.
pub(super) const CQ_BACKLOGS: u32 = 256;

/// `BUCKETS * WAYS`: maximum number of requests traced at a time.
pub(super) const TRAILS_MAX: u32 = 4096 * 8;

/// Maximum number of multishot requests in flight. The map is preallocated: 0.9 MiB.
pub(super) const MANY: u32 = 8192;

/// `CLASS_REQUESTS + OPCODES_MAX`: event classes whose user stacks are sampled.
pub(super) const SITE_CLASSES: u32 = 2 * 512 + 128;
/// Maximum number of distinct stacks, and of their sums by action.
pub(super) const STACKS_KNOWN: u32 = 4096;
pub(super) const SITES: u32 = 8192;

/// Number of files whose names are remembered as sent.
pub(super) const FILES_NAMED: u32 = 4096;
