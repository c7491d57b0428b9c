/* Accounts each traced thread's time: running, waiting for a CPU, and sleeping by place. The wait for a CPU begins at the
 * wake-up. The kernel adds that wait to its own counter (run_delay) only when the thread gets a CPU again, so off-CPU time
 * is split at the thread's next switch-out. The counter alone would be too small: a preempting wake-up skips the run queue's
 * clock update (rq_clock_skip_update), so a short wait counts as 0.
 */
#ifndef IOTRAIL_ACCOUNT_H
#define IOTRAIL_ACCOUNT_H

#include "state.h"
#include "callsite.h"

/* Cost per switch: 113 ns if only sleeps of at least 100 µs have their stack read (at switch-in), 650 ns for all sleeps. */
#define LONG_SLEEP_NS 100000
/* Shorter sleeps with a stack, per thread: the first FIRST_SAMPLES, then 1 in 64 at random. */
#define FIRST_SAMPLES 8
#define SAMPLE_MASK 63

__u64 account_opened_ns;  /* start of the current span */
__u64 accounts_began_ns;  /* start of the first span */
__u32 account_span;	  /* number of the current span; 0: none is open */
__u32 accounts_made;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_account);
} thread_accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct thread_total);
} thread_totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct sleep_key);
	__type(value, struct sleep_sum);
} sleeps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct sleep_stack);
} sleep_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleep_stack);
} sleep_room SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct holder_key);
	__type(value, struct holder);
} holders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct kernel_key);
	__type(value, __u64);
} kernel_times SEC(".maps");

/* Hash of the sleeping task's kernel stack; 0 if the stack cannot be read. */
static __noinline __u64 stack_of_sleep(struct task_struct *task)
{
	__u32 only = 0;
	__u64 hash = 0x9e3779b97f4a7c15ULL;
	struct sleep_stack *stack = bpf_map_lookup_elem(&sleep_room, &only);

	if (!stack)
		return 0;
	/* Cleared before the call, not after it: the verifier would walk a loop that depends on the returned length once per length. */
	__builtin_memset(stack->frames, 0, sizeof(stack->frames));
	if (bpf_get_task_stack(task, stack->frames, sizeof(stack->frames), 0) <= 0)
		return 0;
	for (int i = 0; i < SLEEP_FRAMES; i++) {
		hash = (hash ^ stack->frames[i]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	hash |= 1;
	if (!bpf_map_lookup_elem(&sleep_stacks, &hash) && bpf_map_update_elem(&sleep_stacks, &hash, stack, BPF_ANY))
		return 0;
	return hash;
}

static __always_inline void one_more(struct sleep_sum *sum, __u64 ns)
{
	sum->ns += ns;
	sum->count++;
	if (ns > sum->longest_ns)
		sum->longest_ns = ns;
}

static __noinline int sleeps_put_away(struct thread_account *account)
{
	if (!account || !account->sum.count)
		return 0;
	struct sleep_sum *known = bpf_map_lookup_elem(&sleeps, &account->last);
	if (known) {
		known->ns += account->sum.ns;
		known->count += account->sum.count;
		if (account->sum.longest_ns > known->longest_ns)
			known->longest_ns = account->sum.longest_ns;
	} else {
		/* If the map is full, the time is unaccounted. */
		bpf_map_update_elem(&sleeps, &account->last, &account->sum, BPF_NOEXIST);
	}
	__builtin_memset(&account->sum, 0, sizeof(account->sum));
	return 0;
}

static __always_inline void slept(struct thread_account *account, __u64 ns)
{
	if (!same((__u64 *)&account->last, (__u64 *)&account->sleep, sizeof(account->last) / sizeof(__u64))) {
		sleeps_put_away(account);
		account->last = account->sleep;
	}
	one_more(&account->sum, ns);
	if (account->site_weight) {
		site_counted(account->site, SITE_OF(SITE_SLEEPS, account->sleep.nr), account->site_weight, ns, 0);
		account->site_weight = 0;
	}
}

static __always_inline __u64 queued(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

static __noinline int holder_put_away(struct thread_account *account)
{
	if (!account || !account->holder.ns)
		return 0;
	struct holder_key key = { .thread = account->number, .tid = account->holder_tid };
	struct holder *known = bpf_map_lookup_elem(&holders, &key);
	if (known) {
		known->ns += account->holder.ns;
		__builtin_memcpy(known->comm, account->holder.comm, sizeof(known->comm)); /* execve(2) changes it */
	} else {
		bpf_map_update_elem(&holders, &key, &account->holder, BPF_NOEXIST);
	}
	account->holder.ns = 0;
	return 0;
}

#define RUNS 16 /* a power of two */

/* A thread that the CPU switched to. */
struct run {
	__u64 since_ns;
	__u64 comm[2];
	__u64 tid;
};

struct runs {
	struct run last[RUNS];
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runs);
} cpu_runs SEC(".maps");

static __always_inline void run_begins(struct task_struct *task, __u64 now)
{
	__u32 only = 0;
	struct runs *runs = bpf_map_lookup_elem(&cpu_runs, &only);

	if (!runs)
		return;
	struct run *run = &runs->last[runs->count++ & (RUNS - 1)];
	run->since_ns = now;
	run->comm[0] = *(__u64 *)&task->comm[0];
	run->comm[1] = *(__u64 *)&task->comm[8];
	run->tid = task->pid;
}

/* `run` null: unknown. */
static __noinline int held_cpu(struct thread_account *account, struct run *run, __u64 ns)
{
	__u32 tid = run ? run->tid : HOLDER_UNSEEN;

	if (!account)
		return 0;
	if (account->holder_tid != tid) {
		holder_put_away(account);
		account->holder_tid = tid;
	}
	if (run)
		__builtin_memcpy(account->holder.comm, run->comm, sizeof(account->holder.comm));
	account->holder.ns += ns;
	return 0;
}

/* The thread waited for this CPU during the last `ns`, until `now`: divides the time among the threads that ran here. */
static __noinline int waited_for_cpu(struct thread_account *account, __u64 now, __u64 ns)
{
	__u32 only = 0;
	struct runs *runs = bpf_map_lookup_elem(&cpu_runs, &only);
	__u64 from = now - ns;

	for (int i = 1; runs && i <= RUNS && now > from; i++) {
		struct run *run = &runs->last[(runs->count - i) & (RUNS - 1)];
		if (!run->since_ns || run->since_ns > now)
			break;
		__u64 since = run->since_ns > from ? run->since_ns : from;
		held_cpu(account, run, now - since);
		now = since;
	}
	if (now > from)
		held_cpu(account, 0, now - from);
	return 0;
}

/* Accounts the off-CPU time before the current run. By now the kernel has added its runnable part to run_delay. */
static __always_inline void settle(struct thread_account *account, struct task_struct *task)
{
	__u64 off = account->off_ns;

	if (!off)
		return;
	__u64 waited = queued(task) - account->queued_ns;
	if (waited < account->ready_ns)
		waited = account->ready_ns;
	if (waited > off)
		waited = off;
	one_more(&account->total.woken, waited);
	/* Its wake-up was not observed. */
	if (!account->ready_ns && waited)
		held_cpu(account, 0, waited);
	slept(account, off - waited);
	account->off_ns = 0;
}

static __always_inline void read_counters(struct thread_counters *counters, struct task_struct *task, __u64 now)
{
	counters->ns = now;
	counters->ran_ns = task->se.sum_exec_runtime;
	counters->queued_ns = queued(task);
	counters->user_ns = task->utime;
	counters->system_ns = task->stime;
}

/* include/uapi/linux/futex.h */
#define FUTEX_CMD_MASK 15
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
/* Futex value of a contended lock in glibc (lowlevellock.h) and in Rust's standard library (sys/sync/mutex/futex.rs). */
#define LOCK_CONTENDED 2

/* Whether the task, which is in futex(2), waits for a lock. */
static __always_inline bool waits_for_lock(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 command = call_argument(regs, 2) & FUTEX_CMD_MASK;

	if (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET)
		return (__u32)call_argument(regs, 3) == LOCK_CONTENDED;
	return command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
}

static __always_inline void sleep_begins(struct thread_account *account, struct task_struct *task, unsigned int state)
{
	__u32 flags = state & TASK_UNINTERRUPTIBLE ? SLEEP_DEEP : 0;

	if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		flags |= SLEEP_IO;
	account->sleep.nr = -1;
	if (!(task->flags & PF_IO_WORKER)) {
		struct entry entry;
		entry_of(task, &entry, false);
		if (entry.nr >= 0)
			account->sleep.nr = entry.nr;
		if (entry.nr == NR_futex && waits_for_lock(task))
			flags |= SLEEP_LOCK;
	}
	account->sleep.stack = 0;
	account->sleep.flags = flags;
	account->slept_in = account->sleep.nr;
}

/* Starts a thread's account now, or at its creation if that is within the span. */
static __noinline int account_opens(struct thread_account *account, struct task_struct *task, __u64 now)
{
	__u64 started = task->start_time;

	account->doing = THREAD_RUNNING;
	account->since = now;
	account->off_ns = 0;
	account->queued_ns = queued(task);
	account->ran_ns = task->se.sum_exec_runtime;
	account->slept_in = -1;
	account->holder_tid = HOLDER_UNSEEN;
	account->stime = task->stime;
	if (account->number)
		return 0;
	account->number = __sync_fetch_and_add(&accounts_made, 1) + 1;
	account->sleep.thread = account->number;
	account->total.tid = task->pid;
	account->total.tgid = task->tgid;
	if (started <= accounts_began_ns) {
		read_counters(&account->total.began, task, now);
		return 0;
	}
	account->total.began.ns = started;
	account->queued_ns = account->ran_ns = 0;
	if (started >= account_opened_ns) {
		account->since = started;
		account->doing = THREAD_NEW;
	}
	return 0;
}

/* Ends the current state at `now`. Only the first caller on any CPU gets its duration; other callers get 0. */
static __always_inline __u64 account_turns(struct thread_account *account, __u64 now)
{
	__u64 since = __sync_lock_test_and_set(&account->since, now);

	return now > since && since ? now - since : 0;
}

/* `now` 0: the thread's switches are currently not observed. */
static __noinline int account_closes(struct thread_account *account, struct task_struct *task, __u64 now)
{
	account->closed = account_span;
	account->total.flags = task->flags;
	account->total.cpus = task->nr_cpus_allowed;
	account->total.policy = task->policy;
	account->total.priority = task->static_prio;
	account->total.cpu = BPF_CORE_READ(task, thread_info.cpu);
	bpf_probe_read_kernel(account->total.comm, sizeof(account->total.comm), task->comm);
	sleeps_put_away(account);
	holder_put_away(account);
	account->since = 0;
	read_counters(&account->total.ended, task, now);
	bpf_map_update_elem(&thread_totals, &account->number, &account->total, BPF_ANY);
	return 0;
}

static __always_inline struct thread_account *account_of(struct task_struct *task, __u64 now)
{
	struct thread_account *account =
		bpf_task_storage_get(&thread_accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!account || account->since)
		return account;
	if (account->closed == account_span)
		return 0;
	account_opens(account, task, now);
	return account;
}

/* Ends an off-CPU time. */
__noinline int off_ends(struct thread_account *account, __u64 ns, __u64 ready)
{
	if (!account)
		return 0;
	switch (account->doing) {
	case THREAD_NEW:
		one_more(&account->total.woken, ns);
		break;
	case THREAD_PREEMPTED:
		one_more(&account->total.preempted, ns);
		break;
	case THREAD_THROTTLED:
		one_more(&account->total.throttled, ns);
		break;
	default:
		account->off_ns = ns;
		account->ready_ns = ready;
	}
	return 0;
}

static __always_inline bool is_throttled(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	struct cfs_rq *queue = task->se.cfs_rq;
	return queue && bpf_core_field_exists(queue->throttle_count) && queue->throttle_count;
}

/* Ends the current thread's NAPI busy polling. */
static __noinline int busy_poll_ends(struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();
	__u64 ns = bpf_ktime_get_ns() - slot->busy_since;
	struct thread_account *account = bpf_task_storage_get(&thread_accounts, task, 0, 0);

	slot->busy_since = 0;
	if (account && account->number) {
		struct kernel_key key = { .thread = account->number, .nr = KERNEL_BUSY_POLL };
		add(&kernel_times, &key, ns);
	}
	return 0;
}

/* The thread is switched out. */
static __noinline int account_out(struct task_struct *task, bool runnable, unsigned int state, __u64 now, struct cpu_slot *slot)
{
	struct thread_account *account = account_of(task, now);

	if (!account)
		return 0;
	__u64 ns = account_turns(account, now);
	if (account->doing != THREAD_RUNNING) {
		/* Its switch-in was missed, for example because no BPF program ran for the previous thread. Use the
		 * scheduler's running time.
		 */
		__u64 ran = task->se.sum_exec_runtime - account->ran_ns;
		if (ran > ns)
			ran = ns;
		if (account->doing == THREAD_NEW || account->doing == THREAD_PREEMPTED)
			held_cpu(account, 0, ns - ran);
		off_ends(account, ns - ran, 0);
		ns = ran;
	}
	account->total.running_ns += ns;
	settle(account, task);
	if (slot->stime_tid == (__u32)task->pid)
		account->stime = slot->stime;
	account->queued_ns = queued(task);
	account->ran_ns = task->se.sum_exec_runtime;
	if (runnable) {
		account->doing = is_throttled(task) ? THREAD_THROTTLED : THREAD_PREEMPTED;
		return 0;
	}
	account->doing = THREAD_ASLEEP;
	sleep_begins(account, task, state);
	if (state & TASK_DEAD) {
		account_closes(account, task, now);
	} else if (account->sleep.nr >= 0) {
		account->site_weight = stack_due(account->sleep.nr & (CALLS_MAX - 1), STACKS_OF_SLEEPS);
		if (account->site_weight)
			account->site = user_stack(ROOM_OF_EVENTS);
	}
	return 0;
}

/* The thread is switched in. */
static __noinline int account_in(struct task_struct *task, __u64 now, struct cpu_slot *slot)
{
	struct thread_account *account = account_of(task, now);

	if (!account)
		return 0;
	__u64 ns = account_turns(account, now);
	slot->stime_tid = task->pid;
	slot->stime = account->stime;
	/* If it already runs, an earlier switch-in was unobserved. */
	if (account->doing != THREAD_RUNNING) {
		__u64 ready = now - account->woken_ns;
		if (ready >= ns)
			ready = 0;
		if (account->doing != THREAD_THROTTLED)
			waited_for_cpu(account, now, account->doing == THREAD_ASLEEP ? ready : ns);
		off_ends(account, ns, ready);
	}
	if (account->doing == THREAD_ASLEEP && ns >= LONG_SLEEP_NS) {
		account->sleep.stack = stack_of_sleep(task);
	} else if (account->doing == THREAD_ASLEEP &&
		   (account->samples < FIRST_SAMPLES || !(bpf_get_prandom_u32() & SAMPLE_MASK))) {
		account->samples++;
		account->sleep.stack = stack_of_sleep(task);
		account->sleep.flags |= SLEEP_SAMPLED;
	}
	account->doing = THREAD_RUNNING;
	return 0;
}

#endif
