//! Findings from thread accounting and system calls.

use super::*;
use iotrail_schema::account::Start;
use iotrail_schema::account::{
    Account, CallRecord, End, Mode, Reason, RequestAccount, RequestRow, RequestStage, Role, ThreadAccount, ThreadRow,
    ThreadState, WaitEnds, WokenBy,
};
use iotrail_schema::runnable::HadCpu;
use iotrail_schema::state::{NamedProcess, StateRecord, StuckWait};
use iotrail_schema::trace_record::{ContextRecord, EndedRequest, FileRequests, RegisterCalls};
use iotrail_testing::state;

fn row(state: ThreadState, syscall: Option<&str>, reason: Option<Reason>, ns: u64) -> ThreadRow {
    let mode = (state == ThreadState::Running).then_some(Mode::Kernel);
    let syscall = syscall.map(Into::into);
    ThreadRow { mode, syscall, reason, ..ThreadRow::new(state, ns) }
}

fn blocked(syscall: &str, reason: Reason, ns: u64) -> ThreadRow {
    row(ThreadState::Blocked, Some(syscall), Some(reason), ns)
}

fn thread(tid: u32, role: Role, rows: Vec<ThreadRow>) -> ThreadAccount {
    let wall_ns = rows.iter().map(|row| row.ns).sum();
    ThreadAccount { tid, tgid: 1234, comm: "db".into(), role, wall_ns, rows, ..ThreadAccount::default() }
}

fn with_threads(threads: Vec<ThreadAccount>) -> TraceRecord {
    TraceRecord { account: Some(Account { threads, more_threads: 0, requests: None, iowait: None }), ..clean() }
}

fn with_rows(rows: Vec<ThreadRow>) -> TraceRecord {
    with_threads(vec![thread(1234, Role::Thread, rows)])
}

pub(super) fn call(syscall: &str, count: u64, errors: &[(&str, u64)]) -> CallRecord {
    let errors = errors.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    CallRecord { syscall: syscall.into(), count, errors, ..CallRecord::default() }
}

pub(super) fn with_calls(calls: Vec<CallRecord>) -> TraceRecord {
    TraceRecord { calls: Some(calls), ..clean() }
}

pub(super) fn blocked_in_submission() -> TraceRecord {
    with_rows(vec![
        blocked("io_uring_enter", Reason::RequestTag, 620_000_000),
        blocked("io_uring_enter", Reason::RwSemaphore, 60_000_000),
        blocked("io_uring_enter", Reason::UringCompletions, 200_000_000),
        row(ThreadState::Running, Some("io_uring_enter"), None, 120_000_000),
    ])
}

pub(super) fn synchronous_calls() -> TraceRecord {
    let mut t = with_rows(vec![
        blocked("fdatasync", Reason::DeviceFlush, 400_000_000),
        blocked("read", Reason::SocketData, 500_000_000),
        row(ThreadState::Running, None, None, 100_000_000),
    ]);
    let sync = CallRecord { blocked_ns: 400_000_000, ..call("fdatasync", 200, &[]) };
    t.calls = Some(vec![sync]);
    t
}

pub(super) fn slow_connects() -> TraceRecord {
    let connect = ThreadRow { longest_ns: Some(1_020_000_000), ..blocked("connect", Reason::Connect, 3_000_000_000) };
    with_rows(vec![connect, row(ThreadState::Running, None, None, 1_000_000_000)])
}

pub(super) fn idle_poller() -> TraceRecord {
    let mut t = with_rows(vec![
        row(ThreadState::Running, None, None, 900_000_000),
        row(ThreadState::Runnable, None, None, 2_000_000_000),
    ]);
    t.account.as_mut().unwrap().threads[0].rows[0].mode = Some(Mode::User);
    let r = &mut t.rings[0];
    (r.requests, r.completions, r.opcodes) = (49, 49, vec![opcode("read", 49, 100_000)]);
    r.vehicles = vec![carried(DeliveryPath::ReschedIpi, 49, None, None)];
    t
}

#[test]
fn a_connect_is_slow_only_if_it_lasts_as_long_as_a_syn_retry() {
    let f = only(&slow_connects(), "slow_connects");
    assert!(f.text.starts_with("connect took up to 1.02 s") && f.remedy.contains("net.core.somaxconn"), "{f:?}");
    assert_eq!(f.bound, Some(Bound { of: BoundOf::ThreadTime, share: 0.75 }));
    let mut t = slow_connects();
    t.account.as_mut().unwrap().threads[0].rows[0].longest_ns = Some(300_000_000);
    assert_eq!(codes(&t), Vec::<String>::new());
}

#[test]
fn a_polling_thread_is_idle_only_with_no_request_in_flight() {
    let f = only(&idle_poller(), "idle_poller");
    assert!(f.text.starts_with("thread 1234 (db) ran in user mode for 100 % of its time"), "{}", f.text);
    assert!(f.text.contains("no request was in flight for 99.") && !f.warns(), "{}", f.text);
    let (mut waits, mut busy) = (idle_poller(), idle_poller());
    waits.rings[0].opcodes = vec![opcode("read", 49, 20_000_000)];
    busy.rings[0].completions = 80_000;
    for t in [waits, busy] {
        assert!(findings(&t).iter().all(|f| f.code != "idle_poller"));
    }
}

pub(super) fn lock_contended() -> TraceRecord {
    let lock = ThreadRow { count: Some(1_500), ..blocked("futex", Reason::Lock, 620_000_000) };
    with_rows(vec![lock, blocked("io_uring_enter", Reason::UringCompletions, 380_000_000)])
}

pub(super) fn iowq_queue() -> TraceRecord {
    let mut t = with_rows(vec![]);
    t.total.opcodes[0].opcode = "write".into();
    t.total.opcodes[0].punted_would_block = 3_000;
    let part = t.total.elapsed_ns / 10;
    let row = |stage, ns| RequestRow { stage, reason: None, ns, exact: true, ns_ci95: None };
    let rows = vec![row(RequestStage::IowqQueue, 93 * part), row(RequestStage::Iowq, 7 * part)];
    let requests =
        RequestAccount { count: 3_000, latency_sum_ns: 100 * part, from: Start::Intended, to: End::Posted, rows };
    t.account.as_mut().unwrap().requests = Some(requests);
    t
}

#[test]
fn writes_to_many_files_do_not_wait_for_each_other() {
    let mut t = iowq_queue();
    let few = |n| FileRecord {
        writes: Some(FileRequests {
            followed: n,
            requests: Estimate { total: n as f64, ci95: [n as f64; 2] },
            bytes: None,
        }),
        ..on("ext4")
    };
    t.total.files = vec![few(1_500)];
    assert_eq!(codes(&t), ["iowq_queue"]);
    t.total.files = vec![few(50)];
    assert!(findings(&t).iter().all(|f| f.code != "iowq_queue"), "of 3,000: 0.2 of 10 in flight");
}

#[test]
fn a_lock_is_contended_only_if_io_threads_often_sleep_on_it() {
    let f = only(&lock_contended(), "lock_contended");
    assert_eq!(f.bound, Some(Bound { of: BoundOf::ThreadTime, share: 0.62 }));
    let rows = |count, other: &str| {
        let lock = ThreadRow { count: Some(count), ..blocked("futex", Reason::Lock, 620_000_000) };
        with_rows(vec![lock, blocked(other, Reason::Sleep, 380_000_000)])
    };
    for t in [rows(20, "io_uring_enter"), rows(1_500, "clock_nanosleep")] {
        assert!(findings(&t).iter().all(|f| f.code != "lock_contended"));
    }
}

#[test]
fn writes_serialize_only_if_several_are_in_flight() {
    let f = only(&iowq_queue(), "iowq_queue");
    assert!(f.text.contains("93 % of their latency") && f.text.contains("the writes of a file one at a time"));
    assert_eq!(f.bound, Some(Bound { of: BoundOf::Latency, share: 0.93 }));
    let (mut reads, mut one) = (iowq_queue(), iowq_queue());
    reads.total.opcodes[0].opcode = "read".into();
    one.total.elapsed_ns *= 10;
    for t in [reads, one] {
        assert!(findings(&t).iter().all(|f| f.code != "iowq_queue"));
    }
}

pub(super) fn cpu_quota() -> TraceRecord {
    with_rows(vec![
        row(ThreadState::Throttled, None, None, 300_000_000),
        row(ThreadState::Running, None, None, 700_000_000),
    ])
}

pub(super) fn sqpoll_shares_cpu() -> TraceRecord {
    let mut t = sqpoll(|_| {});
    let sqpoll_tid = t.rings[0].sqpoll.as_ref().unwrap().tid;
    let part = |running, runnable| {
        vec![row(ThreadState::Running, None, None, running), row(ThreadState::Runnable, None, None, runnable)]
    };
    let tgid = t.rings[0].tgid;
    let had = |tid| vec![HadCpu { tid: Some(tid), comm: Some("db".into()), share: 0.9 }];
    let sqpoll = thread(sqpoll_tid, Role::Sqpoll, part(600_000_000, 400_000_000));
    let sqpoll = ThreadAccount { tgid, cpu_had: had(tgid), ..sqpoll };
    let own = thread(tgid, Role::Thread, part(400_000_000, 600_000_000));
    let threads = vec![sqpoll, ThreadAccount { tgid, cpu_had: had(sqpoll_tid), ..own }];
    t.account = Some(Account { threads, more_threads: 0, requests: None, iowait: None });
    t
}

pub(super) fn setup_failed() -> TraceRecord {
    with_calls(vec![call("io_uring_setup", 65, &[("ENOMEM", 1)])])
}

pub(super) fn submission_failed() -> TraceRecord {
    with_calls(vec![call("io_submit", 1000, &[("EAGAIN", 100)])])
}

pub(super) fn empty_enters() -> TraceRecord {
    let ended = Some(WaitEnds { nothing: 900_000, ..WaitEnds::default() });
    with_calls(vec![CallRecord { ended, ..call("io_uring_enter", 1_000_000, &[]) }])
}

pub(super) fn waits_time_out() -> TraceRecord {
    let mut t = with_rows(vec![
        blocked("io_uring_enter", Reason::UringCompletions, 900_000_000),
        row(ThreadState::Running, None, None, 100_000_000),
    ]);
    let ended = Some(WaitEnds { completions: 10, time_limit: 90, partial: 80, ..WaitEnds::default() });
    t.calls = Some(vec![CallRecord { ended, blocked_ns: 900_000_000, ..call("io_uring_enter", 100, &[]) }]);
    t
}

pub(super) fn setup_per_operation() -> TraceRecord {
    let t = clean();
    let n = t.total.ios;
    TraceRecord { calls: Some(vec![call("io_uring_setup", n, &[])]), ..t }
}

pub(super) fn linked_timeouts_expire() -> TraceRecord {
    with_ring(|r| {
        let mut timeouts = opcode("link_timeout", 300, 900);
        (timeouts.errors, timeouts.short) = (200, None);
        timeouts.errnos = vec![ErrnoCount { errno: "ETIME".into(), count: 200, user_data: None }];
        r.opcodes.push(timeouts);
    })
}

pub(super) fn timeouts_end_early() -> TraceRecord {
    with_ring(|r| r.opcodes.push(OpcodeRecord { short: None, ..opcode("timeout", 300, 900) }))
}

pub(super) fn multishot_ended() -> TraceRecord {
    let ended = |errno: Option<&str>, for_ns| EndedRequest {
        opcode: "accept".into(),
        descriptor: "fd 3".into(),
        errno: errno.map(str::to_owned),
        for_ns,
    };
    with_ring(|r| r.ended = vec![ended(Some("EMFILE"), 1_500_000_000), ended(Some("EINVAL"), 1_900_000_000)])
}

#[test]
fn a_multishot_request_that_is_not_submitted_again_has_its_cause() {
    let with = |change: fn(&mut RingRecord)| {
        let mut t = multishot_ended();
        change(&mut t.rings[0]);
        t
    };
    let f = only(&multishot_ended(), "multishot_ended");
    assert!(f.text.starts_with("the multishot accept on fd 3 ended with EMFILE, and the program"), "{}", f.text);
    assert!(f.remedy.contains("close descriptors"), "{}", f.remedy);
    let full = with(|r| {
        r.overflows = 1;
        r.ended.iter_mut().for_each(|e| e.errno = None);
    });
    let f = only(&full, "multishot_ended");
    assert!(f.text.contains("because the completion queue of 128 entries was full"), "{}", f.text);
    assert_eq!(codes(&with(|r| r.ended[0].for_ns = 900_000_000)), Vec::<String>::new(), "or too soon to tell");
}

pub(super) fn epoll_ctl_per_operation() -> TraceRecord {
    with_calls(vec![call("epoll_ctl", 20_000, &[]), call("epoll_wait", 10_000, &[]), call("read", 10_000, &[])])
}

pub(super) fn epoll_spins() -> TraceRecord {
    let n = 2_000_000;
    let ended = Some(WaitEnds { completions: n, ..WaitEnds::default() });
    with_calls(vec![CallRecord { ended, ..call("epoll_pwait", n, &[]) }, call("read", 100, &[])])
}

pub(super) fn calls_fail() -> TraceRecord {
    with_calls(vec![call("accept4", 434_350, &[("EMFILE", 434_330)])])
}

pub(super) fn small_calls() -> TraceRecord {
    let mut t = with_rows(vec![
        row(ThreadState::Running, Some("read"), None, 800_000_000),
        row(ThreadState::Running, None, None, 200_000_000),
    ]);
    t.calls = Some(vec![CallRecord { bytes: Some(3_000_000), ..call("read", 3_000_000, &[]) }]);
    (t.rings, t.total.opcodes) = (vec![], vec![]);
    t
}

pub(super) fn reads_fault() -> TraceRecord {
    let mut t = with_rows(vec![
        row(ThreadState::Running, Some("pread64"), None, 800_000_000),
        row(ThreadState::Running, Some("munmap"), None, 150_000_000),
        row(ThreadState::Running, None, None, 50_000_000),
    ]);
    t.calls = Some(vec![CallRecord { bytes: Some(3_000 << 20), ..call("pread64", 3_000, &[]) }]);
    t.state = Some(StateRecord { faults: 700_000, ..state::calm() });
    t
}

#[test]
fn reads_fault_only_in_their_calls() {
    let f = only(&reads_fault(), "reads_fault");
    assert!(
        f.text.starts_with(
            "698 k page faults inside system calls, 233 per pread(2), which read 1 MiB each and took 80 %"
        ),
        "{}",
        f.text
    );
    assert_eq!(f.bound, Some(Bound { of: BoundOf::Cpu, share: 0.95 }));
    let mut by_user = reads_fault();
    by_user.total.mode_switches.iter_mut().for_each(|m| m.count = 600_000);
    assert_eq!(codes(&by_user), Vec::<String>::new(), "the program touches its memory itself");
    let mut reused = reads_fault();
    reused.state.as_mut().unwrap().faults = 20_000;
    assert_eq!(codes(&reused), Vec::<String>::new(), "one page in forty");
}

#[test]
fn a_lock_of_another_process_is_named_by_its_errno() {
    let mut t = with_rows(vec![blocked("clock_nanosleep", Reason::Sleep, 3_000_000_000)]);
    t.calls = Some(vec![call("fcntl", 400, &[("EAGAIN", 90)])]);
    let f = only(&t, "calls_fail");
    assert!(
        f.text.starts_with("90 of 400 fcntl(2) calls failed with EAGAIN: another process holds a lock"),
        "{}",
        f.text
    );
    assert!(f.bound.is_some_and(|bound| bound.share > 0.5), "{f:?}");
}

pub(super) fn requests_fail() -> TraceRecord {
    with_ring(|r| {
        let mut accept = opcode("accept", 200_000, 900);
        (accept.errors, accept.short) = (199_980, None);
        accept.errnos = vec![ErrnoCount { errno: "ENOTSOCK".into(), count: 199_980, user_data: None }];
        r.opcodes.push(accept);
    })
}

pub(super) fn submitter_exited() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.opcodes[0].errnos = vec![ErrnoCount { errno: "ECANCELED".into(), count: 400, user_data: None }];
        r.opcodes[0].errors = 400;
        let submitter = |tid| ThreadRecord { tid, submitted: 16, ..ThreadRecord::default() };
        let waiter = ThreadRecord { tid: 1234, waits: 400, ..ThreadRecord::default() };
        r.threads = Some(RingThreads { threads: vec![submitter(7), submitter(8), waiter], ..RingThreads::default() });
    });
    let short = |tid| thread(tid, Role::Thread, vec![row(ThreadState::Running, None, None, 1_000_000)]);
    let main = thread(1234, Role::Thread, vec![row(ThreadState::Running, None, None, 900_000_000)]);
    t.account =
        Some(Account { threads: vec![main, short(7), short(8)], more_threads: 0, requests: None, iowait: None });
    t
}

#[test]
fn a_blocked_submission_lists_its_reasons_and_is_bounded_by_their_time() {
    let f = only(&blocked_in_submission(), "blocked_in_submission");
    assert!(
        f.text.starts_with("thread 1234 (db) was blocked in io_uring_enter(2) while submitting for 68 % of its time"),
        "{}",
        f.text
    );
    assert!(f.text.contains("62 % waiting for a free request tag") && f.remedy.contains("nr_requests"), "{f:?}");
    assert_eq!(f.bound.unwrap().share, 0.68);
    let waits = with_rows(vec![blocked("io_uring_enter", Reason::UringCompletions, 900_000_000)]);
    assert_eq!(codes(&waits), Vec::<String>::new(), "waiting for completions is no blocked submission");
    let ends = with_rows(vec![blocked("io_uring_enter", Reason::UringTeardown, 900_000_000)]);
    assert_eq!(codes(&ends), Vec::<String>::new());
}

/// The thread is blocked in submission for 68 % of the time, waits for completions for 10 %, and runs for 22 %.
#[test]
fn latency_and_cpu_shares_are_ranked_by_thread_time() {
    let t = with_rows(vec![
        blocked("io_uring_enter", Reason::RequestTag, 680_000_000),
        blocked("epoll_wait", Reason::Epoll, 100_000_000),
        row(ThreadState::Running, Some("io_uring_enter"), None, 220_000_000),
    ]);
    let most = [BoundOf::ThreadTime, BoundOf::Latency, BoundOf::Cpu].map(|of| most_of_threads(&t, of));
    assert_eq!(most, [1.0, 0.78, 0.22]);
    let bound = |of, share| Some(Bound { of, share });
    let of = |rule: &Rule| {
        let bound = match rule.code {
            "wrong_core" => bound(BoundOf::Latency, 0.6),
            "sqpoll_spinning" => bound(BoundOf::Cpu, 0.9),
            "blocked_in_submission" => bound(BoundOf::ThreadTime, 0.5),
            _ => return vec![],
        };
        vec![Finding { bound, ..rule.finding(Severity::Warning, String::new(), &[]) }]
    };
    let found = ranked(of, |of| most_of_threads(&t, of));
    let order: Vec<&str> = found.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(order, ["blocked_in_submission", "wrong_core", "sqpoll_spinning"]);
    assert_eq!(found[1].bound, bound(BoundOf::Latency, 0.6), "printed as a share of the latency");
}

#[test]
fn the_advice_for_a_blocked_direct_write_names_the_file_system() {
    let mut t = with_rows(vec![blocked("io_submit", Reason::DirectIo, 900_000_000)]);
    t.total.files = vec![on("ext4")];
    let f = only(&t, "blocked_in_submission");
    assert!(f.remedy.starts_with("on ext4, a direct write") && f.remedy.contains("fallocate(2)"), "{}", f.remedy);
}

#[test]
fn reads_that_wait_for_a_peer_are_not_synchronous_file_io() {
    let f = only(&synchronous_calls(), "synchronous_calls");
    assert!(
        f.text.starts_with("synchronous calls blocked thread 1234 (db) for 40 % of its time: fdatasync(2) 40 %"),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("IORING_OP_FSYNC") && f.remedy.contains("RWF_DSYNC"), "{}", f.remedy);
}

#[test]
fn a_setup_error_from_feature_probing_is_a_note() {
    assert!(only(&setup_failed(), "setup_failed").text.contains("RLIMIT_MEMLOCK"));
    let probing = with_calls(vec![call("io_uring_setup", 2, &[("EINVAL", 1)])]);
    assert!(!only(&probing, "setup_failed").warns());
    let in_vain = with_calls(vec![call("io_uring_setup", 1, &[("EPERM", 1)])]);
    let f = only(&in_vain, "setup_failed");
    assert!(f.text.contains("seccomp") && f.text.contains("kernel.io_uring_disabled") && f.warns(), "{f:?}");
}

#[test]
fn a_timed_out_wait_is_bounded_only_if_completions_were_pending() {
    let mut t = waits_time_out();
    let f = only(&t, "waits_time_out");
    assert!(f.warns() && f.text.starts_with("90 % of the waits in io_uring_enter(2) (90) timed out"), "{}", f.text);
    assert!((f.bound.unwrap().share - 0.81).abs() < 1e-9 && f.remedy.contains("min_complete 1"), "{f:?}");
    t.calls.as_mut().unwrap()[0].ended.as_mut().unwrap().partial = 0;
    let idle = only(&t, "waits_time_out");
    assert!(!idle.warns() && idle.bound.is_none(), "{idle:?}");
}

#[test]
fn an_sqpoll_thread_pinned_to_its_programs_only_cpu_shares_that_cpu() {
    let mut t = sqpoll_shares_cpu();
    let of_others = |thread: &mut ThreadAccount| thread.cpu_had.iter_mut().for_each(|by| by.share = 0.2);
    t.account.as_mut().unwrap().threads.iter_mut().for_each(of_others);
    assert_eq!(codes(&t), Vec::<String>::new(), "they meet as all threads of a busy machine do");
    t.account.as_mut().unwrap().threads.iter_mut().for_each(|thread| thread.only_cpu = Some(3));
    assert!(only(&t, "sqpoll_shares_cpu").text.contains("shares a CPU with its program"));
}

#[test]
fn run_queue_time_does_not_dilute_the_share_of_synchronous_calls() {
    let rows = |runnable| {
        vec![
            blocked("unlink", Reason::JournalSpace, 30_000_000),
            row(ThreadState::Running, None, None, 170_000_000),
            row(ThreadState::Runnable, None, None, runnable),
        ]
    };
    let f = only(&with_rows(rows(1_800_000_000)), "synchronous_calls");
    assert!(
        f.text.starts_with("synchronous calls blocked thread 1234 (db) for 2 % of") && f.text.contains("unlink(2)"),
        "{}",
        f.text
    );
}

#[test]
fn a_hung_up_descriptor_is_reported_with_its_file() {
    let mut t = epoll_spins();
    let of = |events: &str| WokenBy {
        tgid: 1234,
        fd: Some(7),
        file: Some("UNIX-STREAM socket".into()),
        events: vec![events.into()],
        share: 1.0,
        is_closed: false,
    };
    let with = |t: &mut TraceRecord, events| t.calls.as_mut().unwrap()[0].woken_by = vec![of(events)];
    with(&mut t, "EPOLLHUP");
    let f = only(&t, "epoll_spins");
    assert!(
        f.text.contains("descriptor 7 of process 1234, UNIX-STREAM socket, ended 100 % of them with EPOLLHUP"),
        "{}",
        f.text
    );
    t.calls.as_mut().unwrap()[1].count = 2_000_000;
    assert!(only(&t, "epoll_spins").remedy.contains("EPOLL_CTL_DEL"), "reads do not consume it");
    with(&mut t, "EPOLLIN");
    assert_eq!(codes(&t), Vec::<String>::new(), "but data they do");
    t.calls.as_mut().unwrap()[0].woken_by[0].is_closed = true;
    let f = only(&t, "epoll_spins");
    assert!(f.text.contains("although the process has closed it") && f.remedy.contains("before close(2)"), "{f:?}");
    t.calls.as_mut().unwrap()[1].count = 100;
    with(&mut t, "EPOLLOUT");
    assert!(only(&t, "epoll_spins").remedy.contains("data to send"));
}

#[test]
fn bounds_on_the_same_time_add_up_to_at_most_that_time() {
    let finding = |of, share| Finding {
        bound: Some(Bound { of, share }),
        ..Finding::new("x", Severity::Warning, String::new(), "", &[])
    };
    let mut all = vec![finding(BoundOf::Latency, 0.8), finding(BoundOf::Cpu, 0.7), finding(BoundOf::Latency, 0.5)];
    crate::diagnose::together_at_most_whole(&mut all);
    let shares: Vec<f64> = all.iter().map(|f| (f.bound.unwrap().share * 10.0).round()).collect();
    assert_eq!(shares, [8.0, 7.0, 2.0]);
}

#[test]
fn a_zero_timeout_wait_is_distinguished_from_a_level_triggered_one() {
    assert!(only(&epoll_spins(), "epoll_spins").remedy.contains("EPOLL_CTL_DEL"));
    let mut t = epoll_spins();
    t.calls.as_mut().unwrap()[0].ended = Some(WaitEnds { nothing: 2_000_000, ..WaitEnds::default() });
    assert!(only(&t, "epoll_spins").remedy.contains("set the timeout to -1"));
    t.calls.as_mut().unwrap()[1].count = 2_000_000;
    assert_eq!(codes(&t), Vec::<String>::new(), "events that are read are consumed");
}

fn on(filesystem: &str) -> FileRecord {
    let json = serde_json::json!({
        "kind": "file", "path": "/srv/wal", "path_is_whole": true, "deleted": false, "device": "254:0", "inode": 12, "tgid": 1234,
        "processes": 1, "descriptors": ["fd 9"], "more_descriptors": 0, "followed": 100, "reads": null, "others": null,
        "writes": {"followed": 100, "requests": {"total": 100.0, "ci95": [100.0, 100.0]}, "bytes": null},
        "latency_ns": Latency::default(), "filesystem": filesystem, "queue_device": "vda", "logical_block_bytes": 4096
    });
    serde_json::from_value(json).unwrap()
}

pub(super) fn offset_ignored() -> TraceRecord {
    let mut t = clean();
    t.total.files = vec![FileRecord { appended: 90, ..on("ext4") }];
    t
}

pub(super) fn sqpoll_shared() -> TraceRecord {
    let mut t = sqpoll(|s| s.shared_with = vec![1]);
    let mut state = state::calm();
    (state.rings[0].tgid, state.rings[0].fd, state.rings[0].unsubmitted) = (1234, Some(5), 20);
    state.rings[0].flags = vec!["sqpoll".into()];
    t.state = Some(state);
    t
}

#[test]
fn a_shared_sqpoll_thread_is_reported_if_the_rings_descriptor_is_unknown() {
    let mut t = sqpoll_shared();
    t.rings[0].fds.clear();
    only(&t, "sqpoll_shared");
}

/// 32 concurrent reads on one descriptor.
pub fn posix_aio_serial() -> TraceRecord {
    let mut reads = opcode("aio_read", 25_000, 3_200_000);
    reads.latency_ns.mean = Some(3_200_000.0);
    let json = serde_json::json!({
        "context": 0, "interface": "posix_aio", "tgid": 1234, "comm": "db", "entries": null, "found": false, "requests": 25_000,
        "completions": 25_000, "reaped": 25_000, "bytes": reads.bytes, "errors": 0, "active_ns": 2_500_000_000u64, "vehicles": [],
        "latency_ns": reads.latency_ns, "opcodes": [reads]
    });
    let mut t = clean();
    t.rings.clear();
    t.contexts = vec![serde_json::from_value(json).unwrap()];
    t.total.files = vec![on("ext4")];
    t
}

#[test]
fn posix_aio_is_serial_per_descriptor() {
    let f = only(&posix_aio_serial(), "posix_aio_serial");
    assert!(f.text.starts_with("32.0 POSIX AIO requests were in flight on average, on 1 descriptor."), "{}", f.text);
    assert_eq!(f.bound, Some(Bound { of: BoundOf::Latency, share: 1.0 - 1.0 / 32.0 }));
    let mut t = posix_aio_serial();
    t.total.files[0].more_descriptors = 19;
    assert_eq!(codes(&t), Vec::<String>::new(), "1.6 per descriptor");
}

fn failing(name: &str, requests: u64, errno: &str, n: u64) -> TraceRecord {
    let mut t = with_ring(|r| {
        r.opcodes = vec![opcode(name, requests, 1_000)];
        r.opcodes[0].errors = n;
        r.opcodes[0].errnos = vec![ErrnoCount { errno: errno.into(), count: n, user_data: None }];
    });
    t.total.files = vec![on("ext4")];
    t
}

#[test]
fn a_single_failed_write_is_a_warning_and_a_failed_read_a_note() {
    let f = only(&failing("write", 17_000, "ENOSPC", 1), "errors");
    assert!(f.text.contains("1 of write with ENOSPC") && f.text.contains("full") && f.warns(), "{}", f.text);
    assert!(only(&failing("fsync", 500, "ECANCELED", 1), "errors").remedy.contains("in a chain"));
    assert!(!only(&failing("read", 17_000, "EIO", 1), "errors").warns());
}

#[test]
fn a_misaligned_read_is_reported_with_the_required_alignment() {
    let f = only(&failing("read", 400, "EINVAL", 200), "errors");
    assert!(f.text.contains("aligned to 4096 bytes (4 KiB), the logical block size of vda"), "{}", f.text);
}

#[test]
fn a_dominant_failure_rate_is_reported_for_any_unexpected_errno() {
    assert!(only(&requests_fail(), "requests_fail").text.contains("accept requests (200 k) failed with ENOTSOCK"));
    assert!(only(&failing("write", 400, "EAGAIN", 400), "requests_fail").text.contains("RWF_NOWAIT"));
    let mut receives = failing("recvmsg", 400, "EAGAIN", 300);
    assert!(only(&receives, "requests_fail").text.contains("MSG_DONTWAIT"));
    receives.rings[0].opcodes[0].errnos[0].count = 100;
    receives.total.opcodes[0].errnos[0].count = 100;
    assert_eq!(codes(&receives), Vec::<String>::new());
    assert_eq!(codes(&failing("timeout", 400, "ETIME", 400)), Vec::<String>::new(), "that is its purpose");
}

#[test]
fn punted_writes_have_advice_specific_to_the_file_system() {
    let remedy = |filesystem: &str| {
        let mut t = failing("write", 1_000, "EINTR", 0);
        t.total.opcodes[0].punted_would_block = 1_000;
        t.total.files = vec![on(filesystem)];
        only(&t, "punted").remedy
    };
    assert!(remedy("ext4").contains("fallocate(2)"));
    assert!(remedy("btrfs").contains("copy-on-write") && !remedy("btrfs").contains("ext4"));
    assert!(remedy("xfs").contains("On XFS"));
}

#[test]
fn waits_ended_by_signals_or_short_timeouts_are_a_warning() {
    let with = |ended: WaitEnds| {
        let mut t = waits_time_out();
        t.total.elapsed_ns = 1_000_000_000;
        t.calls.as_mut().unwrap()[0].ended = Some(ended);
        t
    };
    let f = only(&with(WaitEnds { completions: 25, signal: 2_500, ..WaitEnds::default() }), "waits_time_out");
    assert!(f.warns() && f.text.contains("failed with EINTR") && f.remedy.contains("pthread_sigmask"), "{f:?}");
    assert_eq!(codes(&with(WaitEnds { completions: 25, signal: 90, ..WaitEnds::default() })), Vec::<String>::new());
    let f = only(&with(WaitEnds { completions: 25, time_limit: 12_000, ..WaitEnds::default() }), "waits_time_out");
    assert!(f.warns() && f.text.contains("12.0 k, 12.0 k per second"), "{}", f.text);
}

#[test]
fn a_registered_eventfd_does_not_end_a_wait_on_the_ring() {
    let mut t = waits_time_out();
    t.calls.as_mut().unwrap()[0].ended = Some(WaitEnds { time_limit: 41, ..WaitEnds::default() });
    assert!(only(&t, "waits_time_out").remedy.starts_with("ignore this if the program is idle"));
    t.rings[0].register_calls = Some(vec![registered("eventfd")]);
    assert!(only(&t, "waits_time_out").remedy.contains("IORING_REGISTER_EVENTFD does not end the wait"));
}

fn registered(operation: &str) -> RegisterCalls {
    RegisterCalls { operation: operation.into(), calls: 1, errnos: vec![] }
}

#[test]
fn shares_of_synchronous_calls_are_relative_to_all_their_threads_time() {
    let loop_ =
        vec![blocked("fsync", Reason::Writeback, 100_000_000), blocked("epoll_wait", Reason::Epoll, 900_000_000)];
    let helper = vec![
        blocked("unlink", Reason::SynchronousBio, 62_000_000),
        row(ThreadState::Running, Some("unlink"), None, 38_000_000),
    ];
    let mut t = with_threads(vec![thread(1, Role::Thread, loop_), thread(2, Role::Thread, helper)]);
    t.calls = Some(vec![CallRecord { blocked_ns: 100_000_000, ..call("fsync", 6, &[]) }]);
    let f = only(&t, "synchronous_calls");
    let text = "synchronous calls blocked 2 threads for 15 % of their time: fsync(2) 9 % (";
    assert!(f.text.starts_with(text) && f.text.contains("unlink(2) 6 % ("), "{}", f.text);
}

#[test]
fn too_few_io_wq_workers_are_reported_if_all_are_blocked() {
    let with = |worker: Vec<ThreadRow>| {
        let mut t = iowq_queue();
        t.total.opcodes[0].opcode = "read".into();
        t.total.iowq = IowqRecord { workers: 3, most_at_once: Some(3), completions: 3_000, cpu_ns: None };
        t.account.as_mut().unwrap().threads.push(thread(9, Role::Iowq, worker));
        t
    };
    let blocks = || row(ThreadState::Blocked, None, Some(Reason::PipeEmpty), 990_000_000);
    let f = only(&with(vec![blocks()]), "iowq_queue");
    assert!(f.text.contains("at most 3 workers at a time") && f.remedy.contains("pids.max"), "{f:?}");
    let idle = row(ThreadState::Blocked, None, Some(Reason::IowqIdle), 990_000_000);
    assert!(findings(&with(vec![blocks(), idle])).iter().all(|f| f.code != "iowq_queue"));
    let mut by_default = with(vec![blocks()]);
    (by_default.total.host.cpus, by_default.rings[0].sq_entries) = (2, 3);
    let f = only(&by_default, "iowq_queue");
    assert!(f.text.contains("at most 3 workers ran at a time, io-wq's default limit"), "{}", f.text);
    assert!(f.remedy.contains("IORING_REGISTER_IOWQ_MAX_WORKERS") && !f.remedy.contains("pids.max"), "{}", f.remedy);
    by_default.total.host.cpus = 0;
    assert!(findings(&by_default).iter().all(|f| f.code != "iowq_queue"), "unknown");
    // The program's own limit, with few requests.
    let mut few = with(vec![blocks()]);
    few.total.opcodes[0].punted_asked = 20;
    few.rings[0].register_calls = Some(vec![registered("iowq_max_workers")]);
    assert!(only(&few, "iowq_queue").text.contains("the limit that the program set"));
}

#[test]
fn a_starved_reaping_thread_is_reported_with_its_scheduling_policy() {
    let with = |policy: Option<&str>, of: u32| {
        let mut reaps = thread(
            1234,
            Role::Thread,
            vec![
                row(ThreadState::Runnable, None, None, 800_000_000),
                blocked("io_uring_enter", Reason::UringCompletions, 200_000_000),
            ],
        );
        reaps.policy = policy.map(Into::into);
        reaps.cpu_had = vec![HadCpu { tid: Some(of), comm: Some("compute".into()), share: 0.9 }];
        with_threads(vec![reaps, thread(8, Role::Thread, vec![row(ThreadState::Running, None, None, 1_000_000_000)])])
    };
    let f = only(&with(None, 8), "waiting_for_cpu");
    assert!(
        f.text.contains("spent 80 % of its time waiting for a CPU that was running compute (8) 90 %"),
        "{}",
        f.text
    );
    assert!(findings(&with(None, 77)).is_empty(), "a neighbour's");
    let f = only(&with(Some("SCHED_IDLE"), 77), "waiting_for_cpu");
    assert!(f.text.ends_with("It runs under SCHED_IDLE") && f.remedy.contains("SCHED_OTHER"), "{f:?}");
}

#[test]
fn a_resource_limit_errno_is_reported_below_the_usual_failure_share() {
    let f = only(&with_calls(vec![call("connect", 1_500, &[("EADDRNOTAVAIL", 1_299)])]), "calls_fail");
    assert!(
        f.text.contains("no local port (net.ipv4.ip_local_port_range) is free")
            && f.remedy.starts_with("keep connections open"),
        "{f:?}"
    );
    for (errno, n) in [("EADDRNOTAVAIL", 19), ("ECONNREFUSED", 1_299)] {
        assert_eq!(codes(&with_calls(vec![call("connect", 1_500, &[(errno, n)])])), Vec::<String>::new());
    }
}

#[test]
fn native_aio_calls_that_return_no_completion_are_empty() {
    let ended = Some(WaitEnds { nothing: 698_000, completions: 6_000, ..WaitEnds::default() });
    let f = only(&with_calls(vec![CallRecord { ended, ..call("io_getevents", 704_000, &[]) }]), "empty_enters");
    assert!(f.text.contains("io_getevents(2) calls returned no completion") && f.remedy.contains("min_nr 1"), "{f:?}");
}

#[test]
fn small_calls_are_no_finding_if_they_move_pages_or_alternate_with_waits() {
    let f = only(&small_calls(), "small_calls");
    assert!(
        f.text.contains("read(2) calls per second took 80 % of the program's CPU time: each moved 1 B"),
        "{}",
        f.text
    );
    let with = |bytes: u64, waits: u64| {
        let mut t = small_calls();
        t.calls.as_mut().unwrap()[0].bytes = Some(3_000_000 * bytes);
        let ended = Some(WaitEnds { completions: waits, ..WaitEnds::default() });
        t.calls.as_mut().unwrap().push(CallRecord { ended, ..call("epoll_wait", waits, &[]) });
        let rows = &mut t.account.as_mut().unwrap().threads[0].rows;
        rows.push(blocked("epoll_wait", Reason::Epoll, 1));
        codes(&t)
    };
    assert_eq!(with(4096, 10_000), ["small_calls"]);
    assert_eq!(with(4097, 10_000), Vec::<String>::new(), "more than a page");
    assert_eq!(with(1, 750_000), Vec::<String>::new(), "a wait for every four calls");
}

/// Sixteen requests in flight for a single worker.
#[test]
fn an_io_wq_worker_limit_below_the_requests_in_flight_is_reported() {
    let mut t = iowq_queue();
    t.total.opcodes[0].opcode = "fsync".into();
    t.total.iowq = IowqRecord { workers: 1, most_at_once: Some(1), completions: 3_000, cpu_ns: None };
    assert!(findings(&t).iter().all(|f| f.code != "iowq_queue"), "the kernel's own limit");
    t.rings[0].register_calls = Some(vec![registered("iowq_max_workers")]);
    let f = only(&t, "iowq_queue");
    assert!(f.text.contains("at most 1 worker ran at a time, the limit that the program set"), "{}", f.text);
}

fn worker(tid: u32, reason: Reason) -> ThreadAccount {
    thread(tid, Role::Iowq, vec![row(ThreadState::Blocked, None, Some(reason), 900_000_000)])
}

#[test]
fn concurrent_workers_that_wait_for_a_device_are_not_too_many() {
    let with = |reason: Reason| {
        let mut t = iowq_fanout();
        t.total.iowq.most_at_once = Some(16);
        t.total.host.cpus = 2;
        let threads = (0..16).map(|n| worker(100 + n, reason.clone())).collect();
        t.account = Some(Account { threads, more_threads: 0, requests: None, iowait: None });
        codes(&t)
    };
    assert_eq!(with(Reason::RwSemaphore), ["iowq_fanout"]);
    assert_eq!(with(Reason::DeviceFlush), Vec::<String>::new());
    assert_eq!(with(Reason::PipeEmpty), Vec::<String>::new());
}

#[test]
fn advice_for_writes_that_wait_for_their_own_sync_is_to_sync_once() {
    let mut t = iowq_queue();
    t.account.as_mut().unwrap().threads.push(worker(100, Reason::JournalCommit));
    assert!(
        !only(&t, "iowq_queue").remedy.contains("O_DSYNC"),
        "a write that allocates blocks waits for the journal too"
    );
    t.account.as_mut().unwrap().threads.push(worker(101, Reason::DeviceFlush));
    assert!(only(&t, "iowq_queue").remedy.contains("O_DSYNC"));
    let several = IowqRecord { workers: 8, most_at_once: Some(8), completions: 3_000, cpu_ns: None };
    (t.total.iowq, t.total.files) = (several, vec![on("ext4")]);
    assert!(findings(&t).iter().all(|f| f.code != "iowq_queue"), "more workers than files do not write one at a time");
}

#[test]
fn group_commit_is_advised_if_each_small_write_has_its_own_sync() {
    let remedy = |bytes: u64| {
        let mut t = with_ring(|r| {
            let mut fsync = opcode("fsync", 900, 2_000_000);
            fsync.punted_would_block = 900;
            r.opcodes.push(fsync);
        });
        (t.total.opcodes[0].opcode, t.total.opcodes[0].bytes) = ("write".into(), bytes);
        only(&t, "punted").remedy
    };
    assert!(remedy(900 * 512).contains("group commit"));
    assert_eq!(remedy(900 * 65_536), "");
}

#[test]
fn results_such_as_enoent_count_as_failures_if_nearly_all_requests_fail() {
    let f = only(&failing("async_cancel", 400, "ENOENT", 400), "requests_fail");
    assert!(f.text.contains("no request matches") && f.remedy.contains("user_data"), "{f:?}");
    assert_eq!(codes(&failing("async_cancel", 400, "ENOENT", 200)), Vec::<String>::new(), "lost races");
    let mut late = failing("async_cancel", 400, "ENOENT", 400);
    late.rings[0].opcodes.push(opcode("openat", 400, 1_000));
    late.total.opcodes.push(opcode("openat", 400, 1_000));
    assert_eq!(codes(&late), Vec::<String>::new(), "after the requests had completed");
    late.total.open = vec![open("recv", Course::Poll, 20, 1_000_000)];
    assert!(codes(&late).contains(&"requests_fail".to_owned()));
    assert!(only(&failing("send", 400, "EPIPE", 240), "requests_fail").remedy.contains("close the descriptor"));
    assert_eq!(codes(&failing("send", 400, "EPIPE", 40)), Vec::<String>::new());
    assert!(only(&failing("recv", 400, "EINVAL", 400), "errors").remedy.contains("IOSQE_BUFFER_SELECT"));
    let mut chain = failing("write", 400, "ECANCELED", 400);
    assert_eq!(codes(&chain), Vec::<String>::new(), "the program cancelled them");
    chain.total.opcodes.push(OpcodeRecord { short: Some(400), ..opcode("read", 400, 1_000) });
    assert!(only(&chain, "requests_fail").remedy.contains("IOSQE_IO_HARDLINK"));
    let mut delayed = failing("timeout", 400, "ETIME", 400);
    assert_eq!(codes(&delayed), Vec::<String>::new());
    delayed.total.opcodes.extend(failing("send", 400, "ECANCELED", 400).total.opcodes);
    assert!(only(&delayed, "requests_fail").remedy.contains("IORING_TIMEOUT_ETIME_SUCCESS"));
    let mut direct = failing("read", 400, "EBADF", 400);
    assert!(!only(&direct, "errors").remedy.contains("IOSQE_FIXED_FILE"));
    direct.rings[0].register_calls = Some(vec![RegisterCalls { operation: "files2".into(), calls: 1, errnos: vec![] }]);
    assert!(only(&direct, "errors").remedy.contains("IOSQE_FIXED_FILE"));
}

#[test]
fn a_single_long_call_is_not_reported_as_synchronous_calls() {
    let mut t = with_rows(vec![
        ThreadRow { longest_ns: Some(40_000_000), ..blocked("openat", Reason::SynchronousBio, 42_000_000) },
        row(ThreadState::Running, None, None, 500_000_000),
    ]);
    assert_eq!(codes(&t), Vec::<String>::new());
    t.account.as_mut().unwrap().threads[0].rows[0].longest_ns = Some(2_000_000);
    assert_eq!(codes(&t), ["synchronous_calls"]);
}

#[test]
fn threads_whose_accepts_find_no_connection_are_a_thundering_herd() {
    let waiting = |tid| thread(tid, Role::Thread, vec![blocked("epoll_wait", Reason::Epoll, 1_000_000_000)]);
    let mut t = with_threads(vec![waiting(7), waiting(8)]);
    let ended = Some(WaitEnds { completions: 3_100, ..WaitEnds::default() });
    let wait = CallRecord { ended, ..call("epoll_wait", 3_200, &[]) };
    t.calls = Some(vec![wait, call("accept4", 3_100, &[("EAGAIN", 1_100)])]);
    assert!(only(&t, "calls_fail").remedy.contains("EPOLLEXCLUSIVE"));
    t.calls.as_mut().unwrap()[1].count = 6_200;
    assert_eq!(codes(&t), Vec::<String>::new(), "they accept until EAGAIN");
}

#[test]
fn a_wait_for_requests_that_were_never_submitted_cannot_end() {
    let mut t = with_rows(vec![
        ThreadRow { longest_ns: Some(3_900_000_000), ..blocked("io_getevents", Reason::AioEvents, 3_900_000_000) },
        row(ThreadState::Running, None, None, 100_000_000),
    ]);
    let ended = Some(WaitEnds { completions: 20, ..WaitEnds::default() });
    t.calls = Some(vec![CallRecord { ended, ..call("io_getevents", 21, &[]) }]);
    t.contexts = vec![context(248, 248)];
    let f = only(&t, "no_progress");
    assert!(f.text.contains("io_submit(2) accepted 248 requests, and all of them completed"), "{}", f.text);
    t.contexts = vec![context(248, 247)];
    assert_eq!(codes(&t), Vec::<String>::new());
}

fn context(requests: u64, completions: u64) -> ContextRecord {
    let json = serde_json::json!({
        "context": 1, "interface": "libaio", "tgid": 1234, "comm": "db", "entries": 248, "found": false, "requests": requests,
        "completions": completions, "reaped": completions, "bytes": null, "errors": null, "active_ns": null, "opcodes": [], "vehicles": [], "latency_ns": Latency::default(), "stages": null
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn one_request_per_io_submit_call_is_reported() {
    let mut t = with_rows(vec![row(ThreadState::Running, Some("io_submit"), None, 1_000_000_000)]);
    (t.total.elapsed_ns, t.rings) = (1_000_000_000, vec![]);
    let inline = carried(DeliveryPath::Inline, 100_000, None, None);
    t.contexts = vec![ContextRecord { vehicles: vec![inline], ..context(100_000, 100_000) }];
    t.calls = Some(vec![call("io_submit", 100_000, &[])]);
    assert!(only(&t, "one_per_enter").text.starts_with("100 k io_submit calls per second submitted one request each"));
    t.calls = Some(vec![call("io_submit", 3_200, &[])]);
    assert_eq!(codes(&t), Vec::<String>::new());
}

#[test]
fn polls_of_a_permanently_ready_descriptor_are_reported_as_spinning() {
    let spins = |name: &str, errno: Option<&str>| {
        let t = with_ring(|r| {
            r.opcodes = vec![OpcodeRecord { bytes: 0, short: None, ..opcode(name, 80_000, 400) }];
            r.opcodes[0].errnos = errno
                .map(|name| ErrnoCount { errno: name.into(), count: 80_000, user_data: None })
                .into_iter()
                .collect();
            r.vehicles = vec![carried(DeliveryPath::Inline, 80_000, None, None)];
            r.active_ns = Some(1_000_000_000);
        });
        findings(&t).into_iter().find(|f| f.code == "epoll_spins").map(|f| f.text)
    };
    assert!(spins("poll_add", None).unwrap().contains("the descriptor was ready every time"));
    assert!(spins("timeout", Some("ETIME")).unwrap().contains("each expired 440 ns after submission"));
    assert_eq!(spins("read", None), None);
}

#[test]
fn failed_calls_on_files_and_pipes_are_reported_with_their_cause() {
    let of = |name: &str, n: u64, errno: &str, failed: u64| {
        let f = only(&with_calls(vec![call(name, n, &[(errno, failed)])]), "calls_fail");
        format!("{}; {}", f.text, f.remedy)
    };
    for (text, named) in [
        (of("fallocate", 800, "EINTR", 799), "799 of 800 fallocate(2) calls failed with EINTR: a signal arrived"),
        (of("pread64", 500, "EINVAL", 500), "500 of 500 pread(2) calls failed with EINVAL: with O_DIRECT"),
        (of("splice", 40_000, "EAGAIN", 39_000), "EPOLLOUT of a full pipe"),
        (of("write", 40_000, "EAGAIN", 39_000), "the socket's send buffer was full"),
        (of("flock", 100, "EAGAIN", 90), "another descriptor of this process, holds the lock"),
        (of("close", 1_048_000, "EBADF", 1_047_900), "close_range(2)"),
        (of("copy_file_range", 500, "EXDEV", 500), "different file systems"),
        (of("sendmsg", 3_000, "ETOOMANYREFS", 2_900), "RLIMIT_NOFILE limits their number"),
    ] {
        assert!(text.contains(named), "{text}");
    }
    for (name, errno, failed) in [("read", "EINTR", 60), ("fcntl", "EBADF", 100), ("recvfrom", "EINVAL", 100)] {
        assert_eq!(codes(&with_calls(vec![call(name, 100, &[(errno, failed)])])), Vec::<String>::new());
    }
}

#[test]
fn a_thread_that_was_not_created_is_a_failed_set_up() {
    let f = only(&with_calls(vec![call("clone3", 3, &[("EAGAIN", 1)])]), "setup_failed");
    assert!(f.warns() && f.text.contains("RLIMIT_NPROC") && f.remedy.contains("pthread_create(3)"), "{f:?}");
    let unknown = with_calls(vec![call("clone3", 1, &[("ENOSYS", 1)]), call("clone", 1, &[])]);
    assert!(!only(&unknown, "setup_failed").warns(), "a seccomp filter denies clone3(2), and clone(2) succeeds");
}

#[test]
fn writes_that_wait_for_another_threads_sync_are_reported_with_it() {
    let write =
        vec![blocked("write", Reason::Writeback, 300_000_000), row(ThreadState::Running, None, None, 700_000_000)];
    let sync = vec![blocked("fdatasync", Reason::Writeback, 1_000_000_000)];
    let t = with_threads(vec![thread(1, Role::Thread, write.clone()), thread(2, Role::Thread, sync.clone())]);
    let f = only(&t, "synchronous_calls");
    assert!(f.text.ends_with("while thread 2 (db) writes them in fdatasync(2)"), "{}", f.text);
    assert!(f.remedy.starts_with("collect the data in memory while the other thread syncs"), "{}", f.remedy);
    let alone = with_threads(vec![thread(1, Role::Thread, [write, sync].concat())]);
    assert!(!only(&alone, "synchronous_calls").text.contains("while thread"));
}

#[test]
fn a_long_wait_for_a_lock_or_a_reader_names_the_process_that_can_end_it() {
    let with = |code: &str, reason: Reason, syscall: &str, tgid: u32, other: &str| {
        let by = NamedProcess { tgid, comm: "db".into(), syscall: Some(other.into()) };
        let (syscall, comm) = (syscall.into(), "db".into());
        let of = StuckWait {
            tid: 8,
            tgid: 7,
            comm,
            syscall,
            fd: Some(4),
            reason,
            for_ns: 3_400_000_000,
            threads: 4,
            by: Some(by),
        };
        let mut t = clean();
        t.state = Some(StateRecord { stuck: Some(of), ..state::calm() });
        only(&t, code)
    };
    let f = with("no_progress", Reason::FileLock, "flock", 7, "futex");
    let text = "thread 8 (db) was blocked in flock(2) on descriptor 4 for 3.40 s, like 3 other threads: this process holds the lock itself";
    assert!(f.text.starts_with(text) && f.remedy.contains("LOCK_NB"), "{f:?}");
    let f = with("no_progress", Reason::FileLock, "fcntl", 9, "futex");
    assert!(f.text.ends_with("process 9 (db), which is in futex(2), holds the lock"), "{}", f.text);
    let f = with("deadlock", Reason::Futex, "futex", 9, "futex");
    assert!(
        f.text.starts_with("all 4 threads (thread 8, db, …) waited in futex(2) without a timeout for 3.40 s"),
        "{}",
        f.text
    );
    let f = with("no_progress", Reason::PipeFull, "write", 9, "wait4");
    assert!(f.text.contains("its reader, process 9 (db), which is in wait4(2), does not read"), "{}", f.text);
    assert!(f.remedy.starts_with("read the pipe until its end before you wait for the exit"), "{}", f.remedy);
}
