/* System calls of the traced threads by number: how often, with which error, and how their waits ended. */
#ifndef IOTRAIL_CALLS_H
#define IOTRAIL_CALLS_H

#include "account.h"

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

/* include/uapi/linux/io_uring.h */
#define IORING_ENTER_GETEVENTS (1U << 0)

/* include/uapi/linux/futex.h: FUTEX_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2 */
#define FUTEX_WAITS (1 << 0 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13)
#define FUTEX_CMD_MASK 15

/* Whether the current thread has slept in this call. Asked once per call. */
static __always_inline bool slept_in_call(__u32 nr)
{
	struct thread_account *account = bpf_task_storage_get(&thread_accounts, bpf_get_current_task_btf(), 0, 0);

	if (!account || account->slept_in != (__s32)nr)
		return false;
	account->slept_in = -1;
	return true;
}

/* Counts how a wait ended whose call returned this; a result of 0 is the time limit's if the thread slept. */
static __always_inline void count_end(struct call_count *call, enum wait_kind kind, __u32 nr, struct pt_regs *regs, long ret)
{
	if (kind == WAIT_ENTER) {
		bool waits = call_argument(regs, 4) & IORING_ENTER_GETEVENTS;
		/* One that neither submits nor waits finds nothing, unless it wakes the SQPOLL thread. */
		if (!waits && (call_argument(regs, 2) || call_argument(regs, 4)))
			return;
		if (ret >= 0) {
			if (waits && (ret || call_argument(regs, 3)))
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
	else if (ret > 0 || (ret == 0 && kind == WAIT_FUTEX))
		call->completions++;
	else if (ret == 0 && (kind == WAIT_SLEEP || slept_in_call(nr)))
		call->time_limits++;
	else
		call->nothing++;
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
	enum wait_kind kind = wait_kinds[key & (CALLS_MAX - 1)];
	if (kind != WAIT_NONE)
		count_end(call, kind, key, regs, ret);
	if (ret < 0 && ret >= -MAX_ERRNO) {
		struct call_error error = { .nr = key, .errno = -ret };
		add(&call_errors, &error, 1);
	}
}

#endif
