//! Tests the link between the two threads in every interleaving, and with every visible order of the other thread's
//! stores: the same source, compiled with loom's atomics.
//!
//! The model differs from a real machine in two ways. Loom treats SeqCst as acquire and release, so fences are added,
//! in both positions in which compilers place them ([`Fences`]). And sleeps have no timeout, so a missed wake-up leaves
//! both threads stuck, which loom reports. `finished` and `failed` are not modelled: neither is the futex word, and the
//! sleep's timeout corrects missed updates of them.

#[allow(clippy::duplicate_mod, dead_code)] // over other atomics; `finished` and `failed`
#[path = "link.rs"]
mod link;

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use self::link::Link;
use self::sync::{Fences, Ordering};

const NAP: Duration = Duration::ZERO;

fn in_every_way(of: impl Fn() + Sync + Send + Copy + 'static) {
    for fences in [Fences::AfterStores, Fences::BeforeLoads] {
        fences.hold();
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(of);
    }
}

#[test]
fn all_slots_are_returned_to_the_submitter() {
    in_every_way(|| {
        let (link, done) = (Arc::new(Link::new(2)), Arc::new([AtomicU32::new(0), AtomicU32::new(0)]));
        link.queued(2);
        let reaper = thread::spawn({
            let (link, done) = (Arc::clone(&link), Arc::clone(&done));
            move || {
                let mut tail = link.tail();
                for slot in [1, 0] {
                    done[slot as usize].store(7, Ordering::Relaxed);
                    link.give_back(&mut tail, [slot].into_iter());
                }
            }
        });
        let (mut head, mut back) = (0, vec![]);
        while back.len() < 2 {
            link.take_back(&mut head, |slot| {
                assert_eq!(done[slot as usize].load(Ordering::Relaxed), 7, "what the reaper did with slot {slot}");
                back.push(slot);
            });
            if back.len() < 2 {
                link.sleep_for_slot(head, NAP);
            }
        }
        assert_eq!(back, [1, 0]);
        assert!(link.is_idle());
        reaper.join().unwrap();
    });
}

#[test]
fn the_reaper_does_not_sleep_while_an_io_is_in_flight() {
    in_every_way(|| {
        let link = Arc::new(Link::new(1));
        let reaper = thread::spawn({
            let link = Arc::clone(&link);
            move || {
                while link.is_idle() {
                    link.sleep_for_io(0, NAP);
                }
            }
        });
        link.queued(1);
        link.wake_reaper();
        reaper.join().unwrap();
    });
}

/// A ring with a single entry: the second returned slot would overwrite the first.
#[test]
fn a_returned_slot_does_not_overwrite_one_not_yet_taken() {
    in_every_way(|| {
        let link = Arc::new(Link::new(1));
        let reaper = thread::spawn({
            let link = Arc::clone(&link);
            move || {
                let mut tail = link.tail();
                for slot in [5, 6] {
                    while link.is_idle() {
                        thread::yield_now();
                    }
                    link.give_back(&mut tail, [slot].into_iter());
                }
            }
        });
        let (mut head, mut back) = (0, vec![]);
        for _ in 0..2 {
            link.queued(1);
            let before = head;
            while head == before {
                thread::yield_now();
                link.take_back(&mut head, |slot| back.push(slot));
            }
        }
        assert_eq!(back, [5, 6]);
        reaper.join().unwrap();
    });
}

/// Replaces the `sync` module next to `link`.
mod sync {
    use std::cell::Cell;
    use std::time::Duration;

    pub use loom::sync::atomic::Ordering;
    use loom::sync::atomic::{self, fence};
    use loom::sync::{Condvar, Mutex};

    /// Position of a fence, which must be between a store and a later load.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Fences {
        AfterStores,
        BeforeLoads,
    }

    thread_local! {
        static HERE: Cell<Fences> = const { Cell::new(Fences::AfterStores) };
    }

    impl Fences {
        /// Applies from here on in this thread, in which loom runs all threads of a model.
        pub fn hold(self) {
            HERE.set(self);
        }

        fn at(self, order: Ordering) {
            if order == Ordering::SeqCst && HERE.get() == self {
                fence(order);
            }
        }
    }

    pub struct AtomicBool(atomic::AtomicBool);

    impl AtomicBool {
        pub fn new(value: bool) -> Self {
            Self(atomic::AtomicBool::new(value))
        }

        pub fn load(&self, order: Ordering) -> bool {
            Fences::BeforeLoads.at(order);
            self.0.load(order)
        }

        pub fn store(&self, value: bool, order: Ordering) {
            self.0.store(value, order);
            Fences::AfterStores.at(order);
        }
    }

    pub struct AtomicU32 {
        word: atomic::AtomicU32,
        /// As in the kernel, both the waker and the sleeper that checks the word hold the lock.
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl AtomicU32 {
        pub fn new(value: u32) -> Self {
            Self { word: atomic::AtomicU32::new(value), lock: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub fn load(&self, order: Ordering) -> u32 {
            Fences::BeforeLoads.at(order);
            self.word.load(order)
        }

        pub fn store(&self, value: u32, order: Ordering) {
            self.word.store(value, order);
            Fences::AfterStores.at(order);
        }

        pub fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            Fences::BeforeLoads.at(order);
            let before = self.word.fetch_add(value, order);
            Fences::AfterStores.at(order);
            before
        }

        pub fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
            self.fetch_add(value.wrapping_neg(), order)
        }
    }

    pub fn futex_wait(word: &AtomicU32, value: u32, _: Duration) {
        let held = word.lock.lock().unwrap();
        if word.word.load(Ordering::Relaxed) == value {
            drop(word.sleepers.wait(held).unwrap());
        }
    }

    pub fn futex_wake(word: &AtomicU32) {
        let _held = word.lock.lock().unwrap();
        word.sleepers.notify_one();
    }
}
