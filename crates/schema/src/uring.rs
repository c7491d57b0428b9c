//! Names of io_uring's user interface, except operations ([`crate::opcode`]) and setup flags ([`crate::setup_flag`]).
//!
//! Each table has the order of include/uapi/linux/io_uring.h of Linux 7.3: a position is a number, or a bit of a flags word.

/// A name, and the first kernel that has it: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    pub name: &'static str,
    pub since: (u32, u32),
}

const fn name(name: &'static str, major: u32, minor: u32) -> Name {
    Name { name, since: (major, minor) }
}

/// `enum io_uring_register_op`: IORING_REGISTER_… in lower case, and `unregister_…`.
#[rustfmt::skip]
pub const REGISTER_OPS: &[Name] = &[
    name("buffers", 5, 1),
    name("unregister_buffers", 5, 1),
    name("files", 5, 1),
    name("unregister_files", 5, 1),
    name("eventfd", 5, 2),
    name("unregister_eventfd", 5, 2),
    name("files_update", 5, 5),
    name("eventfd_async", 5, 6),
    name("probe", 5, 6),
    name("personality", 5, 6),
    name("unregister_personality", 5, 6),
    name("restrictions", 5, 10),
    name("enable_rings", 5, 10),
    name("files2", 5, 13),
    name("files_update2", 5, 13),
    name("buffers2", 5, 13),
    name("buffers_update", 5, 13),
    name("iowq_aff", 5, 14),
    name("unregister_iowq_aff", 5, 14),
    name("iowq_max_workers", 5, 15),
    name("ring_fds", 5, 18),
    name("unregister_ring_fds", 5, 18),
    name("pbuf_ring", 5, 19),
    name("unregister_pbuf_ring", 5, 19),
    name("sync_cancel", 6, 0),
    name("file_alloc_range", 6, 0),
    name("pbuf_status", 6, 8),
    name("napi", 6, 9),
    name("unregister_napi", 6, 9),
    name("clock", 6, 12),
    name("clone_buffers", 6, 12),
    name("send_msg_ring", 6, 13),
    name("zcrx_ifq", 6, 15),
    name("resize_rings", 6, 13),
    name("mem_region", 6, 13),
    name("query", 6, 18),
    name("zcrx_ctrl", 6, 19),
    name("bpf_filter", 7, 0),
];

/// Flags of io_uring_enter(2): IORING_ENTER_….
#[rustfmt::skip]
pub const ENTER_FLAGS: &[Name] = &[
    name("getevents", 5, 1),
    name("sq_wakeup", 5, 1),
    name("sq_wait", 5, 10),
    name("ext_arg", 5, 11),
    name("registered_ring", 5, 18),
    name("abs_timer", 6, 12),
    name("ext_arg_reg", 6, 13),
    name("no_iowait", 6, 15),
];

/// Flags of a submission queue entry: IOSQE_….
#[rustfmt::skip]
pub const SQE_FLAGS: &[Name] = &[
    name("fixed_file", 5, 1),
    name("io_drain", 5, 2),
    name("io_link", 5, 3),
    name("io_hardlink", 5, 5),
    name("async", 5, 6),
    name("buffer_select", 5, 7),
    name("cqe_skip_success", 5, 17),
];

/// Bits of `io_uring_params.features`: IORING_FEAT_….
#[rustfmt::skip]
pub const FEATURES: &[Name] = &[
    name("single_mmap", 5, 4),
    name("nodrop", 5, 5),
    name("submit_stable", 5, 5),
    name("rw_cur_pos", 5, 6),
    name("cur_personality", 5, 6),
    name("fast_poll", 5, 7),
    name("poll_32bits", 5, 9),
    name("sqpoll_nonfixed", 5, 11),
    name("ext_arg", 5, 11),
    name("native_workers", 5, 12),
    name("rsrc_tags", 5, 13),
    name("cqe_skip", 5, 17),
    name("linked_file", 5, 17),
    name("reg_reg_ring", 6, 3),
    name("recvsend_bundle", 6, 10),
    name("min_timeout", 6, 12),
    name("rw_attr", 6, 14),
    name("no_iowait", 6, 15),
];

/// The name of a number; a number without a row is printed as `op_38`.
pub fn register_op(number: u32) -> String {
    REGISTER_OPS.get(number as usize).map_or_else(|| format!("op_{number}"), |n| n.name.to_owned())
}

/// The names of the bits that are set. Bits without a row are one number at the end.
pub fn flags(table: &[Name], bits: u64) -> Vec<String> {
    let set = table.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, n)| n.name.to_owned());
    let rest = unnamed(table, bits);
    set.chain((rest != 0).then(|| format!("{rest:#x}"))).collect()
}

/// The bits without a row.
pub fn unnamed(table: &[Name], bits: u64) -> u64 {
    bits & !((1 << table.len()) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_and_register_names_are_indexed_by_number() {
        for (number, name) in [(12, "enable_rings"), (22, "pbuf_ring"), (33, "resize_rings"), (37, "bpf_filter")] {
            assert_eq!(register_op(number), name);
        }
        assert_eq!(register_op(38), "op_38");
        assert_eq!(flags(ENTER_FLAGS, 1 << 0 | 1 << 7 | 1 << 9), ["getevents", "no_iowait", "0x200"]);
        assert_eq!((unnamed(FEATURES, 1 << 17), unnamed(FEATURES, 1 << 18)), (0, 1 << 18));
    }
}
