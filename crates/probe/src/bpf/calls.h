/* System calls of traced threads by number: their count, errors, and how their waits ended. */
#ifndef IOTRAIL_CALLS_H
#define IOTRAIL_CALLS_H

#include "account.h"
#include "descriptor.h"

const volatile enum wait_kind wait_kinds[CALLS_MAX] = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLS_MAX);
	__type(key, __u32);
	__type(value, struct call_count);
} call_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct call_error);
	__type(value, __u64);
} call_errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct wake_key);
	__type(value, struct wake);
} wakes SEC(".maps");

const volatile struct wake wake_layout = {}; /* as trail_layout */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head___links {
	struct list_head___links *next, *prev;
};

struct epoll_filefd {
	struct file *file;
	int fd;
};

struct epitem {
	struct list_head___links rdllink;
	struct epoll_filefd ffd;
};

struct eventpoll {
	struct list_head___links rdllist;
};

#pragma clang attribute pop

/* include/uapi/linux/io_uring.h */
#define IORING_ENTER_GETEVENTS (1U << 0)

/* include/uapi/linux/eventpoll.h: x86-64 packs it */
#if defined(__TARGET_ARCH_x86)
#define EPOLL_EVENT_BYTES 12
#else
#define EPOLL_EVENT_BYTES 16
#endif

/* Waits for events whose ready descriptor is looked up: the first FIRST_WAKES, then 1 in 64. */
#define FIRST_WAKES 64
#define WAKE_MASK 63
#define POLLFDS 16

static __always_inline void count_wake(struct wake_key *key, struct file *file, bool closed)
{
	struct wake *known = bpf_map_lookup_elem(&wakes, key);
	if (known) {
		known->closed = closed;
		__sync_fetch_and_add(&known->count, 1);
		return;
	}
	struct wake fresh = { .count = 1, .closed = closed };
	if (file) {
		fresh.mode = BPF_CORE_READ(file, f_inode, i_mode);
		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	}
	bpf_map_update_elem(&wakes, key, &fresh, BPF_NOEXIST);
}

/* The current thread's epoll_wait returned `events` events. The kernel requeues a level-triggered descriptor at the tail of
 * the ready list, so the one returned last is at the end.
 */
__noinline int epoll_woke(__u32 nr, __u32 events)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct wake_key key = { .nr = nr, .tgid = task->tgid, .fd = -1 };
	struct eventpoll *poll = BPF_CORE_READ(file_at(task, call_argument(regs, 1)), private_data);
	struct list_head___links *last = BPF_CORE_READ(poll, rdllist.prev);
	struct file *file = NULL;

	bpf_probe_read_user(&key.events, sizeof(key.events), (void *)(call_argument(regs, 2) + (events - 1) * EPOLL_EVENT_BYTES));
	if (last && last != &poll->rdllist) {
		struct epitem *item = (void *)((__u64)last - bpf_core_field_offset(struct epitem, rdllink));
		key.fd = BPF_CORE_READ(item, ffd.fd);
		file = BPF_CORE_READ(item, ffd.file);
	}
	count_wake(&key, file, file && file_at(task, key.fd) != file);
	return 0;
}

/* The same for poll(2). */
__noinline int poll_woke(__u32 nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct wake_key key = { .nr = nr, .tgid = task->tgid, .fd = -1 };
	__u64 at = call_argument(regs, 1);
	struct {
		__s32 fd;
		__u16 events, revents;
	} polled;

	for (int i = 0; i < POLLFDS && key.fd < 0; i++) {
		if (bpf_probe_read_user(&polled, sizeof(polled), (void *)(at + i * sizeof(polled))))
			break;
		if (polled.revents) {
			key.fd = polled.fd;
			key.events = polled.revents;
		}
	}
	count_wake(&key, key.fd < 0 ? NULL : file_at(task, key.fd), false);
	return 0;
}

enum shortfall { SHORTFALL_NONE, SHORTFALL_SOME, SHORTFALL_ALL };

/* Whether a timed wait of the current thread ended with fewer completions in the CQ than requested. The call then returns no
 * error if it submitted a request or if the CQ has a completion.
 */
__noinline int shortfall(__u32 wanted)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bool by_number = call_argument(regs, 4) & IORING_ENTER_REGISTERED_RING;
	struct io_ring_ctx *ring = NULL;
	__u64 limit = 0;

	if (by_number || call_argument(regs, 2))
		ring = (void *)BPF_CORE_READ(task, io_uring, last);
	else
		ring = BPF_CORE_READ(file_at(task, call_argument(regs, 1)), private_data);
	__u32 entries = BPF_CORE_READ(ring, cq_entries);
	__u32 there = BPF_CORE_READ(ring, rings, cq.tail) - BPF_CORE_READ(ring, rings, cq.head);
	if (!entries || there >= wanted || there >= entries)
		return SHORTFALL_NONE;
	/* The last word of struct io_uring_getevents_arg is the time limit's address. */
	bpf_probe_read_user(&limit, sizeof(limit), (void *)(call_argument(regs, 5) + 16));
	return !limit ? SHORTFALL_NONE : there ? SHORTFALL_SOME : SHORTFALL_ALL;
}

/* include/uapi/linux/futex.h: FUTEX_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2 */
#define FUTEX_WAITS (1 << 0 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13)

/* Whether the current thread slept in this call. Call it once per system call. */
static __always_inline bool slept_in_call(__u32 nr)
{
	struct thread_account *account = bpf_task_storage_get(&thread_accounts, bpf_get_current_task_btf(), 0, 0);

	if (!account || account->slept_in != (__s32)nr)
		return false;
	account->slept_in = -1;
	return true;
}

/* Counts how a call's wait ended, from its result. A result of 0 after a sleep is a timeout. */
static __always_inline void count_end(struct call_count *call, enum wait_kind kind, __u32 nr, struct pt_regs *regs, long ret)
{
	if (kind == WAIT_ENTER) {
		bool waits = call_argument(regs, 4) & IORING_ENTER_GETEVENTS;
		/* A call that neither submits nor waits finds nothing, except when it wakes the SQPOLL thread. */
		if (!waits && (call_argument(regs, 2) || call_argument(regs, 4)))
			return;
		if (ret >= 0) {
			__u32 wanted = call_argument(regs, 3);
			int missing = SHORTFALL_NONE;
			if (waits && wanted && call_argument(regs, 4) & IORING_ENTER_EXT_ARG)
				missing = shortfall(wanted);
			if (missing) {
				call->time_limits++;
				call->partial += missing == SHORTFALL_SOME;
			} else if (waits && (ret || wanted))
				call->completions++;
			else
				call->nothing++;
			return;
		}
	} else if (kind == WAIT_FUTEX && !(FUTEX_WAITS >> (call_argument(regs, 2) & FUTEX_CMD_MASK) & 1)) {
		return;
	}
	if (ret == -ETIME || ret == -ETIMEDOUT)
		call->time_limits++;
	else if (ret == -EINTR || (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK))
		call->signals++;
	else if (ret > 0 || (ret == 0 && kind == WAIT_FUTEX)) {
		bool sampled = call->completions < FIRST_WAKES || !(call->completions & WAKE_MASK);
		call->completions++;
		if (sampled && kind == WAIT_EPOLL)
			epoll_woke(nr, ret);
		else if (sampled && kind == WAIT_POLL)
			poll_woke(nr);
	} else if (ret == 0 && (kind == WAIT_SLEEP || slept_in_call(nr)))
		call->time_limits++;
	else
		call->nothing++;
}

/* Adds the current thread's kernel time since the last count, as sampled by ticks, to the system call that returns now. */
__noinline int kernel_time_grown(__u32 nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	__u64 grown = task->stime - slot->stime;

	slot->stime = task->stime;
	/* Kernel time in unobserved calls is unknown. */
	if (slot->stime_tid != (__u32)task->pid || slot->stime_since != costly_since) {
		slot->stime_tid = task->pid;
		slot->stime_since = costly_since;
		return 0;
	}
	struct thread_account *account = bpf_task_storage_get(&thread_accounts, task, 0, 0);
	if (account && account->number) {
		struct kernel_key key = { .thread = account->number, .nr = nr };
		add(&kernel_times, &key, grown);
	}
	return 0;
}

/* Counts the call site of the call that returns now. */
__noinline int call_of_site(__u32 nr, __u32 weight, __u32 failed)
{
	return site_counted(user_stack(ROOM_OF_EVENTS), SITE_OF(SITE_CALLS, nr), weight, 0, failed);
}

static __always_inline void count_call(struct pt_regs *regs, long nr, long ret)
{
	__u32 key = nr;

	if (key >= CALLS_MAX)
		return;
	struct call_count *call = bpf_map_lookup_elem(&call_counts, &key);
	if (!call)
		return;
	call->count++;
	if (bpf_get_current_task_btf()->stime != this_slot()->stime)
		kernel_time_grown(key);
	enum wait_kind kind = wait_kinds[key & (CALLS_MAX - 1)];
	if (kind != WAIT_NONE)
		count_end(call, kind, key, regs, ret);
	else if (ret > 0)
		call->results += ret;
	bool failed = ret < 0 && ret >= -MAX_ERRNO;
	__u32 weight = stack_due(CLASS_CALLS + (key & (CALLS_MAX - 1)), STACKS_OF_CALLS);
	if (weight)
		call_of_site(key, weight, failed);
	if (failed) {
		struct call_error error = { .nr = key, .errno = -ret };
		add(&call_errors, &error, 1);
	}
}

#endif
