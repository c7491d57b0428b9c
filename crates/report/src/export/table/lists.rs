//! The lists of a measurement, one table each.

use super::{Column, INDEX, RowSubject, Table, flag, integer, number, text};

/// Latency histogram; bucket bounds are inclusive.
pub const BUCKET: &[Column] = &[integer("from_ns", ""), integer("to_ns", ""), integer("ios", "")];

const fn list(name: &'static str, at: &'static str, columns: &'static [Column]) -> Table {
    Table { name, columns, of: RowSubject::Item(at) }
}

/// `ServerCounts`, per thread or per second.
const SERVER: &[Column] = &[
    integer("place", INDEX),
    integer("wall_ns", "/wall_ns"),
    integer("user_ns", "/user_ns"),
    integer("system_ns", "/system_ns"),
    integer("idle_ns", "/idle_ns"),
    integer("requests", "/requests"),
    integer("in_bytes", "/bytes_in"),
    integer("out_bytes", "/bytes_out"),
    integer("loops", "/loops"),
    integer("completions", "/completions"),
    integer("receives", "/receives"),
    integer("sends", "/sends"),
    integer("short_sends", "/short_sends"),
    integer("zero_copy_sends", "/zero_copy_sends"),
    integer("zero_copy_copied", "/zero_copy_copied"),
    integer("accepted", "/accepted"),
    integer("closed", "/closed"),
    integer("reset", "/reset"),
    integer("garbage", "/garbage"),
    integer("cut_off", "/cut_off"),
    integer("accept_failures", "/accept_failures"),
    integer("cq_overflows", "/cq_overflows"),
    integer("buffers_exhausted", "/buffers_exhausted"),
    integer("syscalls", "/syscalls"),
];

const TARGET_INTERRUPT: &[Column] = &[integer("irq", "/irq"), text("name", "/name"), text("cpus", "/cpus")];

pub static LISTS: &[Table] = &[
    list(
        "vehicles",
        "/vehicles",
        &[
            text("vehicle", "/vehicle"),
            text("detail", "/detail"),
            integer("completions", "/completions"),
            integer("delay_count", "/delay_ns/count"),
            integer("delay_p50_ns", "/delay_ns/p50"),
            integer("delay_p90_ns", "/delay_ns/p90"),
            integer("delay_p99_ns", "/delay_ns/p99"),
            integer("delay_max_ns", "/delay_ns/max"),
            integer("delay_over_1ms_count", "/delay_ns/over_1ms"),
        ],
    ),
    list(
        "interrupts",
        "/interrupts",
        &[
            text("vector", "/vector"),
            text("name", "/name"),
            integer("cpu", "/cpu"),
            integer("count", "/count"),
            integer("on_watched_count", "/on_watched"),
            integer("credited_count", "/credited"),
            integer("proc_count", "/proc_count"),
            integer("spent_ns", "/spent_ns"),
        ],
    ),
    list(
        "figures",
        "/program/figures",
        &[text("figure", "/name"), number("value", "/value"), flag("less_is_better", "/less_is_better")],
    ),
    list(
        "program_rings",
        "/program/rings",
        &[
            integer("place", INDEX),
            integer("process", "/pid"),
            text("asked", "/asked"),
            text("granted", "/granted"),
            flag("proven", "/proven"),
            text("left_as_asked", "/left_as_asked"),
        ],
    ),
    list(
        "ipis",
        "/ipis",
        &[
            text("site", "/site"),
            integer("from_cpu", "/from_cpu"),
            integer("to_cpu", "/to_cpu"),
            integer("count", "/count"),
        ],
    ),
    list("mode_switches", "/mode_switches", &[text("cause", "/cause"), integer("count", "/count")]),
    list("task_work_batches", "/task_work_batches", &[integer("at_least", "/at_least"), integer("runs", "/runs")]),
    list("errors", "/errors_by", &[text("error", "/error"), integer("count", "/count")]),
    list(
        "cpu_shares",
        "/cpu_shares",
        &[
            text("place", "/place"),
            integer("samples", "/samples"),
            number("share", "/share"),
            number("share_lo", "/lo"),
            number("share_hi", "/hi"),
        ],
    ),
    list("unplaced", "/cpu_samples/unplaced", &[text("function", "/function"), integer("samples", "/samples")]),
    list("throughput", "/circumstances/throughput/ios", &[integer("interval", INDEX), integer("ios", "")]),
    list("missed", "/probe/missed", &[text("program", "/program"), integer("events", "/events")]),
    list("target_interrupts", "/host/target/interrupts", TARGET_INTERRUPT),
    list("target_interrupts_after", "/circumstances/interrupts_after", TARGET_INTERRUPT),
    list("server_threads", "/net/server/threads", SERVER),
    list("server_seconds", "/net/server/seconds", SERVER),
    list("warnings", "/warnings", &[text("code", "/code"), text("text", "/text"), text("remedy", "/remedy")]),
];
