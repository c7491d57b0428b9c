//! Findings from completions, and from the memory that requests used.

use super::*;

#[test]
fn a_bad_buffer_is_identified_by_its_index_or_address() {
    let f = only(&bad_buffers(), "bad_buffers");
    assert!(f.text.contains("5 of read_fixed (the first traced one has user_data 0x2a) and 3 of read"), "{}", f.text);
    assert!(
        f.remedy.contains("check the index of the registered buffer") && f.remedy.contains("never mapped"),
        "{}",
        f.remedy
    );
    assert_eq!((f.evidence["efault"], f.evidence["of_fixed_opcodes"], f.ring), (8.0, 5.0, Some(0)));
    let mut t = bad_buffers();
    t.total.opcodes.truncate(2);
    let plain = only(&t, "bad_buffers").remedy;
    assert!(!plain.contains("index") && plain.contains("never mapped"), "{plain}");
    // No other finding covers this many failures.
    let mut many = bad_buffers();
    many.total.opcodes.iter_mut().for_each(|o| o.errnos.iter_mut().for_each(|e| e.count = 4_000));
    assert_eq!(codes(&many), ["bad_buffers"]);
}

/// A success without a completion counts as a result; a notification does not.
#[test]
fn the_failure_share_is_relative_to_requests_with_a_result() {
    let share = |o: OpcodeRecord| {
        let t = with_ring(|r| r.opcodes = vec![o]);
        findings(&t).iter().find(|f| f.code == "errors").map(|f| f.evidence["share"])
    };
    let failing = |name, requests, n| OpcodeRecord {
        errors: n,
        errnos: vec![ErrnoCount { errno: "EBADF".into(), count: n, user_data: None }],
        ..opcode(name, requests, 1_000)
    };
    let quiet = OpcodeRecord { skips: 2_000, completions: 200, bytes: 0, ..failing("write", 2_000, 200) };
    assert_eq!((quiet.silent(), quiet.outcomes(), quiet.bytes_unknown()), (1_800, 2_000, true));
    assert_eq!(share(quiet), Some(0.1));
    let zero_copy =
        OpcodeRecord { completions: 200, more: 100, notifications: 100, bytes: 0, ..failing("send_zc", 100, 100) };
    assert_eq!(share(zero_copy), Some(1.0));
}

#[test]
fn copied_receives_are_reported_apart_from_sends() {
    let mut t = copied_zero_copy();
    let sends = only(&t, "copied_zero_copy");
    assert!(sends.text.contains("notifications (6.40 k of 6.40 k)"), "{}", sends.text);
    let of_zero_copy = |o: &&mut OpcodeRecord| o.reporting > 0;
    let o = t.total.opcodes.iter_mut().find(of_zero_copy).unwrap();
    (o.opcode, o.completions, o.more, o.notifications) = ("recv_zc".into(), 6_401, 6_400, 0);
    let receives = only(&t, "copied_zero_copy");
    assert!(receives.text.contains("zero-copy receive completions (6.40 k of 6.40 k)"), "{}", receives.text);
    assert!(receives.remedy.contains("IORING_REGISTER_ZCRX_IFQ"), "{}", receives.remedy);
    t.total.opcodes.iter_mut().find(of_zero_copy).unwrap().copied = 3_000;
    assert!(!codes(&t).iter().any(|code| code == "copied_zero_copy"));
}

#[test]
fn a_receive_without_a_free_page_is_explained_by_the_refill_queue() {
    let mut t = copied_zero_copy();
    let o = t.total.opcodes.iter_mut().find(|o| o.reporting > 0).unwrap();
    (o.opcode, o.notifications, o.errors) = ("recv_zc".into(), 0, 3_000);
    o.errnos = vec![ErrnoCount { errno: "ENOMEM".into(), count: 3_000, user_data: None }];
    let failed = only(&t, "errors");
    assert!(failed.text.contains("had no free page"), "{}", failed.text);
    assert!(failed.remedy.contains("ZCRX_CTRL_FLUSH_RQ") && !failed.remedy.contains("MEMLOCK"), "{}", failed.remedy);
}

#[test]
fn overlapping_buffers_are_reported_with_the_first_two_reads() {
    let f = only(&overlapping_buffers(), "overlapping_buffers");
    assert!(
        f.text.starts_with("3 reads wrote to the same memory") && f.text.contains("user_data 0x41 and 0x42"),
        "{}",
        f.text
    );
    assert!(!f.warns());
    let mut sampled = overlapping_buffers();
    sampled.total.followed.whole = 0;
    assert!(only(&sampled, "overlapping_buffers").text.starts_with("at least 3 reads"));
    let f = only(&unregistered_in_flight(), "unregistered_in_flight");
    assert!(f.text.starts_with("8 requests were in flight") && f.text.contains("0xb0") && f.warns(), "{}", f.text);
}

#[test]
fn short_reads_are_a_note_and_short_writes_a_warning() {
    let f = only(&short_reads(), "short_reads");
    assert_eq!(f.text, "25 % of the reads (20.0 k) moved fewer bytes than requested. Basis: 80.0 k completions");
    assert!(!f.warns());
    let mut t = short_reads();
    t.total.opcodes[0].opcode = "write_fixed".into();
    assert!(only(&t, "short_writes").warns());
}

#[test]
fn a_partial_send_is_a_short_write() {
    let mut t = short_reads();
    t.total.opcodes[0].opcode = "send".into();
    // Complete writes do not hide it.
    t.total.opcodes.push(opcode("write", 9_000_000, 1_000));
    let f = only(&t, "short_writes");
    assert!(f.warns() && f.text.starts_with("25 % of the sends (20.0 k) moved fewer"), "{}", f.text);
}

#[test]
fn requests_without_a_known_length_cannot_be_judged_short() {
    let of = |name: &str| {
        let mut t = clean();
        t.total.opcodes = vec![opcode(name, 100, 1_000)];
        t.total.opcodes[0].short = None;
        t
    };
    let told = |t: &TraceRecord| ["short_reads", "short_writes"].map(|code| unjudged(t, code).is_some());
    for (name, wanted) in [
        ("readv", [true, false]),
        ("recv", [true, false]),
        ("recvmsg", [true, false]),
        ("sendmsg_zc", [false, true]),
        ("splice", [true, true]),
        ("read_multishot", [false, false]),
        ("recv_zc", [false, false]),
        ("fsync", [false, false]),
    ] {
        assert_eq!(told(&of(name)), wanted, "{name}");
    }
    let mut failed = of("recv");
    failed.total.opcodes[0].errors = 100;
    assert_eq!(told(&failed), [false, false], "they moved nothing");
}

#[test]
fn native_and_posix_aio_reads_count_as_reads() {
    for name in ["pread", "preadv", "aio_read"] {
        for (mut t, code) in [(errors(), "errors"), (short_reads(), "short_reads")] {
            t.total.opcodes[0].opcode = name.into();
            only(&t, code);
        }
    }
    let mut t = errors();
    t.total.opcodes[0].opcode = "poll".into();
    assert!(findings(&t).iter().all(|f| f.code != "errors"));
}

#[test]
fn zero_byte_reads_in_a_loop_are_a_warning() {
    let with = |name: &str, bytes| {
        let t = with_ring(|r| {
            r.opcodes = vec![OpcodeRecord { bytes, short: None, ..opcode(name, 80_000, 400) }];
            r.active_ns = Some(1_000_000_000);
        });
        findings(&t).into_iter().find(|f| f.code == "short_reads")
    };
    let f = with("recv", 25).unwrap();
    assert!(f.warns() && f.text.contains("returned 0 bytes: the peer has closed its side"), "{}", f.text);
    assert!(with("read", 940).unwrap().text.contains("the end of the file"));
    assert_eq!(with("recv", 80_000), None, "one byte each");
}

#[test]
fn a_group_without_buffers_and_a_receive_that_was_not_submitted_again_are_named() {
    use iotrail_schema::trace_record::BufferGroup;
    let with = |taken, rearmed| {
        let mut t = buffers_exhausted();
        t.rings[0].buffers =
            Some(vec![BufferGroup { group: 2, taken, enobufs: 400, rearmed, ..BufferGroup::default() }]);
        only(&t, "buffers_exhausted")
    };
    let f = with(0, 399);
    assert!(
        f.text.contains("400 of them for the buffer group 2, and no request got a buffer of this group"),
        "{}",
        f.text
    );
    assert!(f.remedy.starts_with("register buffers in group 2 (IORING_REGISTER_PBUF_RING"), "{}", f.remedy);
    let f = with(800, 0);
    assert!(f.text.contains("must resubmit the request, but it did not"), "{}", f.text);
    assert!(f.remedy.starts_with("submit the receive again after each completion without IORING_CQE_F_MORE; and "));
    assert!(with(800, 399).text.contains("until then no receive was armed"));
}
