use super::nature::FINISHED;
use super::*;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trail::{Course, Meanwhile, RequestTrace, Stamp, Wake};
use iotrail_schema::trail_example::trail;
use iotrail_schema::waker::Waker;

fn at(t: &RequestTrace, ns: u64, cpu: u32) -> Stamp {
    Stamp { ns: t.submitted.ns + ns, cpu }
}

#[test]
fn the_longest_part_comes_first_with_its_reason() {
    let mut t = trail();
    t.meanwhile = Some(Meanwhile::Running { cpu: 0 });
    assert_eq!(
        headline(&t, false),
        [
            "2.90 ms of 3.00 ms were spent between ready and posted: the thread was running on CPU 0 and nothing entered the kernel there until the timer tick."
        ]
    );
    t.posted = at(&t, 110_000, 0);
    assert_eq!(
        headline(&t, false),
        [
            "89.0 µs of 110 µs were spent between issued and ready: the device took that long.",
            "Delivery took 9.00 µs: the thread was running on CPU 0 and nothing entered the kernel there \
             until the timer tick."
        ]
    );
}

#[test]
fn a_thread_that_lost_its_cpu_is_not_reported_as_running_throughout() {
    let mut t = trail();
    t.meanwhile = Some(Meanwhile::Running { cpu: 0 });
    t.switches_meanwhile = Some(4);
    assert!(headline(&t, false)[0].ends_with(
        "posted: the thread was running on CPU 0, but was switched out for a time: it slept, or another thread ran; it \
         was posted on return from the timer interrupt."
    ));
    (t.posted.cpu, t.switches_meanwhile) = (1, None);
    assert!(
        headline(&t, false)[0].contains("running on CPU 0, was switched out, and continued on CPU 1; it was posted")
    );
    t.vehicle = DeliveryPath::Sqpoll;
    t.meanwhile = Some(Meanwhile::Runnable { cpu: 0, tid: 54, comm: "kworker/0:1H".into() });
    assert!(headline(&t, false)[0].ends_with(
        "posted: the SQPOLL thread waited for CPU 0, which kworker/0:1H (54) used; it did not process the completion until then."
    ));
    t.on_cpu = Some(at(&t, 2_101_000, 0));
    assert!(headline(&t, false)[0].contains("waited 2.00 ms for CPU 0, which"), "{:?}", headline(&t, false));
    let order: Vec<_> = moments(&t).iter().map(|m| m.what).collect();
    assert_eq!(order, ["submitted", "issued", "ready", "queued", "running", "posted"]);
}

#[test]
fn the_file_systems_worker_is_named() {
    let mut t = trail();
    (t.opcode, t.meanwhile) = ("write".into(), Some(Meanwhile::Running { cpu: 0 }));
    t.ended = Some(at(&t, 2_900_000, 1));
    assert_eq!(
        headline(&t, false),
        ["2.80 ms of 3.00 ms were spent between ready and ended: the device had completed it, and a kernel worker of \
             the file system had to finish it before delivery."]
    );
    (t.ended, t.posted) = (Some(at(&t, 105_000, 1)), at(&t, 110_000, 0));
    assert_eq!(
        headline(&t, false)[1],
        "Delivery took 9.00 µs, 4.00 µs of it until a kernel worker of the file system had finished it: the thread \
         was running on CPU 0 and nothing entered the kernel there until the timer tick."
    );
    let ended = moments(&t).into_iter().find(|m| m.what == "ended").unwrap();
    assert_eq!((ended.after_ns, ended.text.as_str()), (Some(105_000), FINISHED));
    assert!(moments(&trail()).iter().all(|m| m.what != "ended"), "most I/O has no such worker");
}

#[test]
fn polls_and_timeouts_have_their_own_descriptions() {
    let mut t = trail();
    (t.opcode, t.asked_bytes, t.issued, t.course) = ("poll_add".into(), None, None, Course::Direct);
    t.ready = Some(at(&t, 2_000_000, 1));
    assert!(headline(&t, false)[0].ends_with("submitted and ready: the polled file was not ready until then."));
    t.result = -125;
    assert!(headline(&t, false)[0].ends_with("submitted and ready: no event arrived until it was cancelled."));
    assert!(moments(&t).iter().any(|m| m.what == "ready" && m.text == "it was cancelled"));
    (t.opcode, t.ready) = ("timeout".into(), None);
    assert!(headline(&t, false)[0].contains("posted: it was cancelled before it expired"));
    t.result = 0;
    assert!(headline(&t, false)[0].contains("posted: a timeout ends when it expires"));
}

#[test]
fn a_sleep_is_broken_down_into_wakeup_stages() {
    let mut t = trail();
    (t.vehicle, t.detail) = (DeliveryPath::Enter, Some("slept, woken by irq 36 on CPU 1".into()));
    t.meanwhile = Some(Meanwhile::Sleeping { cpu: 0, tid: 99, comm: "busy".into() });
    let by = Waker::Thread { cpu: 1 };
    let mut wake = Wake { woken: at(&t, 102_000, 1), by, running: Some(at(&t, 2_900_000, 0)) };
    t.wake = Some(wake.clone());
    assert!(headline(&t, false)[0].ends_with(
        "ready and posted: the thread slept and was woken by a thread on CPU 1, but got a CPU only 2.80 ms later; \
         CPU 0, where it last ran, ran busy (99)."
    ));
    let order: Vec<_> = moments(&t).iter().map(|m| m.what).collect();
    assert_eq!(order, ["submitted", "issued", "ready", "queued", "woken", "running", "posted"]);
    wake.running = None;
    t.wake = Some(wake);
    assert!(
        headline(&t, false)[0].ends_with("1, 1.00 µs after it was ready; the time at which it got a CPU is unknown.")
    );
}

#[test]
fn unknown_stages_are_reported_as_unknown() {
    let mut t = trail();
    (t.issued, t.ready, t.course) = (None, None, Course::Direct);
    assert_eq!(
        headline(&t, false),
        [
            "All 3.00 ms were spent between submitted and posted: the object of its wait is unknown: neither block I/O nor a \
          poll, or not traced."
        ]
    );
    let unknown: Vec<_> = moments(&t).into_iter().filter(|m| m.after_ns.is_none()).map(|m| m.what).collect();
    assert_eq!(unknown, ["issued", "ready", "queued"]);
}

#[test]
fn request_results_are_described_in_words() {
    let with = |result, asked_bytes| request(&RequestTrace { result, asked_bytes, ..trail() });
    assert_eq!(with(4096, Some(4096)), "read_fixed 4 KiB");
    assert_eq!(with(512, Some(4096)), "read_fixed 4 KiB: only 512 B");
    assert_eq!(with(-5, Some(4096)), "read_fixed 4 KiB: EIO");
    assert_eq!(with(1, None), "read_fixed");
}

#[test]
fn an_io_is_summarized_in_one_sentence_with_its_latency() {
    let mut t = trail();
    assert_eq!(
        sentence(&t, 3_000_000, false),
        "read_fixed of 4 KiB, 3.00 ms: for 2.90 ms (97 %) it waited for the thread to enter the kernel (timer tick)"
    );
    assert_eq!(waited(&t, false).unwrap().ns, 2_899_000);
    t.posted = at(&t, 110_000, 0);
    assert_eq!(
        sentence(&t, 110_000, false),
        "read_fixed of 4 KiB, 110 µs: for 89.0 µs (81 %) it waited for the device"
    );
    // Delivery alone excludes the device.
    assert_eq!(
        sentence(&t, 9_000, true),
        "read_fixed of 4 KiB, 9.00 µs of delivery: for 9.00 µs (100 %) it waited for the thread to enter the kernel \
         (timer tick)"
    );
    (t.result, t.asked_bytes) = (-5, None);
    assert!(sentence(&t, 110_000, false).starts_with("read_fixed (EIO), 110 µs: for 89.0 µs"));
    // Only the completion itself is known.
    (t.issued, t.ready, t.posted) = (None, None, t.submitted);
    assert_eq!(sentence(&t, 0, false), "read_fixed (EIO), 0 ns: the object of its wait is unknown");
}

#[test]
fn the_reason_for_a_wait_is_its_longest_stage() {
    let what = |t: &RequestTrace| waited(t, false).unwrap().what;
    let mut t = trail();
    t.issued = Some(at(&t, 2_000_000, 0));
    t.ready = Some(at(&t, 2_100_000, 0));
    assert_eq!(what(&t), "to be issued to the driver");
    t.punted = Some(iotrail_schema::trail::Punt::WouldBlock);
    assert_eq!(what(&t), "for an io-wq worker to pick it up");
    let mut t = trail();
    t.ended = Some(at(&t, 2_900_000, 1));
    assert_eq!(what(&t), "for a kernel worker of the file system");
    t.ended = None;
    t.meanwhile = Some(Meanwhile::Runnable { cpu: 0, tid: 54, comm: "busy".into() });
    assert_eq!(what(&t), "for a CPU that another thread used");
    (t.meanwhile, t.switches_meanwhile) = (Some(Meanwhile::Running { cpu: 0 }), Some(4));
    assert_eq!(what(&t), "for the thread, which was switched out for a time");
    let by = Waker::Thread { cpu: 1 };
    t.wake = Some(Wake { woken: at(&t, 102_000, 1), by: by.clone(), running: Some(at(&t, 2_900_000, 0)) });
    assert_eq!(what(&t), "for the woken thread to get a CPU");
    t.wake = Some(Wake { woken: at(&t, 2_102_000, 1), by: by.clone(), running: Some(at(&t, 2_900_000, 0)) });
    assert_eq!(what(&t), "for the sleeping thread to be woken");
    t.wake = Some(Wake { woken: at(&t, 102_000, 1), by, running: Some(at(&t, 103_000, 0)) });
    assert_eq!(what(&t), "for the woken thread to post it");
}
