use super::*;

fn ring(head: u32, submitted: u32, cq_entries: u32, aio: u32) -> Reaped {
    Reaped::met(&types::captured_ring { head, submitted, cq_entries, aio, ..Default::default() })
}

#[test]
fn reaped_counts_continue_across_a_wrap_of_the_head() {
    let mut new = ring(0, 0, 256, 0);
    assert_eq!([0, 5, 5, u32::MAX].map(|head| new.at(head)), [0, 5, 5, 5], "an older head than the last one");
    let mut old = ring(u32::MAX - 1, u32::MAX - 1, 256, 0);
    assert_eq!([u32::MAX, 3].map(|head| old.at(head)), [1, 5]);
    let mut context = ring(0, 0, 0, 1);
    assert_eq!([120, 0, 64, 63].map(|head| context.of_context(head, 128, 0)), [120, 128, 192, 192]);
}

#[test]
fn native_aio_results_count_until_the_contexts_ring_is_mapped() {
    let mut context = ring(0, 0, 0, 1);
    assert_eq!([120, 50, 0].map(|result| context.of_context(0, 0, result)), [0, 120, 170]);
    assert_eq!([(170 - 128), 50].map(|head| context.of_context(head, 128, 0)), [170, 178]);
}

#[test]
fn completions_of_requests_before_the_capture_do_not_count() {
    let mut met = ring(1000, 1016, 256, 0);
    assert_eq!([1000, 1010, 1016, 1020].map(|head| met.at(head)), [0, 0, 0, 4]);
    // With multishot requests, the heads of the two queues are not comparable.
    assert_eq!(ring(90_000, 16, 256, 0).at(90_003), 3);
}

#[test]
fn iocbs_rejected_by_io_submit_are_not_requests() {
    let mut maker = Maker::default();
    maker.rings.insert(0, ring(0, 0, 128, 1));
    let mut out = VecDeque::new();
    for i in 0..3 {
        let (request, _) = maker.request(types::captured_request { tid: 7, file: 1, offset: i, ..Default::default() });
        maker.submitting.entry(7).or_default().push(request);
    }
    let call = types::captured_call { tid: 7, class: types::call_class::CALL_SUBMIT, result: 2, ..Default::default() };
    // SAFETY: captured_call consists of plain integers.
    let bytes: [u8; CALL] = unsafe { std::mem::transmute(call) };
    maker.take(&bytes, &mut out);
    let offsets: Vec<_> =
        out.iter().map(|e| if let ReplayEvent::Request(r) = e { Some(r.offset) } else { None }).collect();
    assert_eq!(offsets, [Some(0), Some(1), None]);
}

#[test]
fn a_path_is_built_from_components_in_reverse_order() {
    let mut raw = types::captured_file { file: 3, mode: 0o100_644, size: 9, links: 1, ..Default::default() };
    let names = b"x.db\0data\0var\0";
    raw.bytes = names.len() as u32;
    raw.path.iter_mut().zip(names).for_each(|(to, from)| *to = *from as i8);
    let named = file(&raw);
    assert_eq!((named.file, named.path.as_str(), named.replayable), (2, "/var/data/x.db", true));
    assert_eq!(file(&types::captured_file { links: 0, ..raw }).path, "/var/data/x.db (deleted)");
    assert!(!file(&types::captured_file { magic: 0x9fa0, ..raw }).replayable, "procfs");
    assert!(!file(&types::captured_file { bytes: 0, ..raw }).replayable, "a memfd");
}
