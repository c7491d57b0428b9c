use super::*;

/// Completions submitted at 1, 2, 3 …, with their positions at the three later stages. No worker between the last two
/// stages.
fn ring(ring: u32, places: &[[u64; 3]]) -> Vec<Passage> {
    let of = |(i, [issued, ready, posted]): (usize, &[u64; 3])| Passage {
        ring,
        weight: 1,
        opcode: 0,
        armed: None,
        submitted: NonZeroU64::new(1 + i as u64),
        issued: NonZeroU64::new(1000 + issued),
        ready: NonZeroU64::new(2000 + ready),
        ended: None,
        posted: 3000 + posted,
        inline: false,
    };
    places.iter().enumerate().map(of).collect()
}

fn order(passages: &[Passage], ends_seen: bool) -> Option<Order> {
    these(passages).order(ends_seen, NONE)
}

const NONE: IsWait<'static> = &|_, _, _| false;

fn these(passages: &[Passage]) -> OrderTracker {
    OrderTracker { passages: passages.to_vec(), opcodes: vec!["read".into()] }
}

fn numbers(passages: &[Passage]) -> [u64; 5] {
    let o = order(passages, true).unwrap();
    assert_eq!((o.completions, o.by.file_system), (passages.len() as u64, Some(0)));
    [o.inversions, o.max_displacement, o.by.block, o.by.device, o.by.task_work]
}

fn delivery(passages: &[Passage]) -> [u64; 4] {
    let d = order(passages, true).unwrap().delivery.unwrap();
    [d.completions, d.without_ready, d.inversions, d.max_displacement]
}

#[test]
fn completions_in_submission_order_have_no_inversions() {
    assert_eq!(numbers(&ring(0, &[[0, 0, 0], [1, 1, 1], [2, 2, 2]])), [0, 0, 0, 0, 0]);
    assert_eq!(order(&ring(0, &[[0, 0, 0]]), true), None);
}

#[test]
fn inversions_are_attributed_to_the_stage_that_reordered() {
    // Task work reverses the order: all but the first submitted one overtook another.
    let reversed = ring(0, &[[0, 0, 3], [1, 1, 2], [2, 2, 1], [3, 3, 0]]);
    assert_eq!(numbers(&reversed), [3, 3, 0, 0, 3]);
    assert_eq!(delivery(&reversed), [4, 0, 3, 3]);
    // One read is slow in the device, and the next three overtake it.
    let slow = ring(0, &[[0, 3, 3], [1, 0, 0], [2, 1, 1], [3, 2, 2]]);
    assert_eq!(numbers(&slow), [3, 3, 0, 3, 0]);
    assert_eq!(delivery(&slow), [4, 0, 0, 0]);
    // One request overtakes the previous three in the block layer.
    let first = ring(0, &[[1, 1, 1], [2, 2, 2], [3, 3, 3], [0, 0, 0]]);
    assert_eq!(numbers(&first), [1, 3, 1, 0, 0]);
    // The device changes the order, and task work restores it.
    let twice = ring(0, &[[0, 1, 0], [1, 0, 1]]);
    assert_eq!(numbers(&twice), [0, 0, 0, 1, 1]);
    assert_eq!(delivery(&twice), [2, 0, 1, 1]);
    // The order of arrival does not matter.
    let mut shuffled = slow.clone();
    shuffled.reverse();
    assert_eq!(numbers(&shuffled), numbers(&slow));
}

#[test]
fn a_slow_request_is_overtaken_by_all_and_overtakes_none() {
    let long = ring(0, &[[0, 9, 9], [1, 1, 1], [2, 2, 2], [3, 3, 3]]);
    let o = order(&long, true).unwrap();
    assert_eq!((o.inversions, o.overtaken), (3, Some(1)));
    let reversed = ring(0, &[[0, 0, 3], [1, 1, 2], [2, 2, 1], [3, 3, 0]]);
    assert_eq!(order(&reversed, true).unwrap().overtaken, Some(3));
    assert_eq!(order(&ring(0, &[[0, 0, 0], [1, 1, 1]]), true).unwrap().overtaken, Some(0));
    let mut same = reversed;
    same.iter_mut().for_each(|p| p.posted = 9);
    assert_eq!(order(&same, true).unwrap().overtaken, Some(0));
}

#[test]
fn waits_count_only_in_the_delivery_order() {
    let mut all = ring(0, &[[0, 9, 9], [1, 1, 1], [2, 2, 3], [3, 3, 2]]);
    all[0].armed = Some(20);
    all.extend(ring(1, &[[0, 0, 0], [1, 1, 1]]));
    let is_wait: IsWait<'_> = &|ring, opcode, armed| ring == 0 && opcode == "read" && armed >= Some(20);
    let o = these(&all).order(true, is_wait).unwrap();
    assert_eq!((o.completions, o.waits, o.inversions, o.max_displacement), (5, 1, 1, 1));
    assert_eq!((o.by.device, o.by.task_work), (0, 1));
    assert_eq!(o.delivery.map(|d| (d.completions, d.inversions)), Some((6, 1)));
    let each = these(&all).by_ring(true, is_wait);
    assert_eq!(each.values().map(|o| (o.completions, o.waits)).collect::<Vec<_>>(), [(3, 1), (2, 0)]);
}

#[test]
fn inline_completions_overtake_those_pending_in_task_work() {
    let mut all = ring(0, &[[0, 0, 2], [1, 1, 3], [2, 2, 0], [3, 3, 1]]);
    all[2].inline = true;
    let by = |passages: &[Passage]| {
        let by = order(passages, true).unwrap().delivery.unwrap().by;
        (by.task_work, by.inline)
    };
    assert_eq!(by(&all), (2, Some(1)));
    all[0].inline = true;
    assert_eq!(by(&all), (2, Some(1)), "that one overtook nobody");
}

#[test]
fn reordering_by_a_file_system_worker_is_not_attributed_to_task_work() {
    // Ready in order. The worker finishes the first one last, and task work posts in the order of finishing.
    let mut writes = ring(0, &[[0, 0, 2], [1, 1, 0], [2, 2, 1]]);
    for p in &mut writes {
        p.ended = NonZeroU64::new(p.posted - 500);
    }
    let o = order(&writes, true).unwrap();
    assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (2, Some(2), 0));
    let d = o.delivery.unwrap();
    assert_eq!((d.inversions, d.by.file_system, d.by.task_work), (2, Some(2), 0));
    // A read that becomes ready while the worker finishes the preceding write overtakes the write.
    let mut mixed = ring(0, &[[0, 0, 1], [1, 1, 0]]);
    mixed[0].ended = NonZeroU64::new(2500);
    let o = order(&mixed, true).unwrap();
    assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (1, Some(1), 0));
    // The stage is unknown if the end is not observed.
    let o = order(&ring(0, &[[0, 0, 1], [1, 1, 0]]), false).unwrap();
    assert_eq!((o.by.file_system, o.delivery.unwrap().by.file_system), (None, None));
}

#[test]
fn completion_order_is_computed_per_ring() {
    let mut two = ring(0, &[[0, 0, 5], [1, 1, 6], [2, 2, 7]]);
    two.extend(ring(1, &[[0, 0, 1], [1, 1, 0]]));
    let unseen = Passage { ready: None, ..two[0] };
    two.extend([Passage { ring: 2, ..unseen }, Passage { ring: 3, ..unseen }, Passage { ring: 3, ..unseen }]);
    let all = these(&two);
    let o = all.order(true, NONE).unwrap();
    assert_eq!((o.completions, o.inversions, o.max_displacement, o.by.task_work), (8, 1, 1, 1));
    let d = o.delivery.unwrap();
    assert_eq!((d.completions, d.without_ready, d.inversions), (5, 3, 1));
    let each = all.by_ring(true, NONE);
    let figures = each.iter().map(|(ring, o)| (*ring, o.completions, o.inversions)).collect::<Vec<_>>();
    assert_eq!(figures, [(0, 3, 0), (1, 2, 1), (3, 2, 0)], "one alone has no order");
    assert_eq!(each[&3].delivery, None);
}

#[test]
fn only_requests_of_equal_weight_are_compared_for_order() {
    // In order while all requests are traced; later, two requests of a sample are reversed.
    let mut all = ring(0, &[[0, 0, 0], [1, 1, 1], [2, 2, 2]]);
    let mut sample = ring(0, &[[9, 9, 9], [8, 8, 8]]);
    sample.iter_mut().for_each(|p| p.weight = 100);
    all.extend(&sample[..1]);
    assert_eq!((numbers(&sample)[0], order(&all, true).unwrap().completions), (1, 1), "it stands for most");
    all.extend(ring(1, &[[0, 0, 0], [1, 1, 1]]));
    all.extend(&sample[1..]);
    let o = order(&all, true).unwrap();
    assert_eq!((o.completions, o.inversions), (4, 1), "two of the first ring, two of the second");
    assert_eq!(o.delivery.unwrap().without_ready, 0);
}

#[test]
fn equal_and_missing_timestamps_do_not_count_as_inversions() {
    let at = |submitted, posted| Passage {
        ring: 0,
        weight: 1,
        opcode: 0,
        armed: None,
        submitted: NonZeroU64::new(submitted),
        issued: None,
        ready: None,
        ended: None,
        posted,
        inline: false,
    };
    assert_eq!(numbers(&[at(5, 9), at(5, 8), at(4, 8), at(3, 8)]), [0, 0, 0, 0, 0]);
    assert_eq!(numbers(&[at(1, 9), at(2, 8)]), [1, 1, 0, 0, 0]);
    assert_eq!(order(&[at(1, 9), at(2, 8)], true).unwrap().delivery, None);
}

#[test]
fn multishot_completions_count_only_in_the_delivery_order() {
    use iotrail_schema::trail_example::trail;
    let at = |ns| Stamp { ns, cpu: 0 };
    let shot =
        |ready: Option<u64>, posted| RequestTrace { ready: ready.map(at), posted: at(posted), more: true, ..trail() };
    let mut all = OrderTracker::default();
    // The run after the first one's wake-up also posted the second and third. The last one overtakes.
    for t in [shot(Some(10), 30), shot(None, 31), shot(None, 32), shot(Some(20), 29)] {
        all.take(&t, false);
    }
    all.take(&RequestTrace { ring: None, ..trail() }, true);
    let o = all.order(true, NONE).unwrap();
    assert_eq!((o.completions, o.inversions), (0, 0));
    let d = o.delivery.unwrap();
    assert_eq!((d.completions, d.without_ready, d.inversions, d.max_displacement), (2, 2, 1, 1));
    assert_eq!((d.by.task_work, o.by.task_work), (1, 0));
}
